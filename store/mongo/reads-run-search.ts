/** Reads of a search over runs (run-search.ts): slices and counts of the indexes of runs, and the keys of threads. */
import type { Filter } from 'mongodb'
import type { RunEntry, RunPlace, RunSource, RunSources } from '../run-search.js'
import type { Collections } from './collections.js'
import { type Doc, plain, row } from './documents.js'
import { beyond, chunks, keyed } from './find.js'

const ENTRY = {
  app: 1,
  run_id: 1,
  thread_id: 1,
  assistant_id: 1,
  graph_id: 1,
  status: 1,
  created_at: 1,
  temporary: 1,
  key_id: 1,
} as const

export const runSources = (all: Collections): Omit<RunSources, 'summary'> => ({
  async slice(source, place, size) {
    const way = place.order === 'asc' ? 1 : -1
    const sort = { created_at: way, _id: way } as const
    const found = await all.runs.find(within(source, place), { projection: ENTRY, sort, limit: size }).toArray()
    return found.map(doc => row<RunEntry>(doc))
  },

  count: (source, place, most) =>
    all.runs.countDocuments(within(source, place), most === undefined ? {} : { limit: most }),

  async threadsWith(app, key, most) {
    const filter = { app, temporary: false, $and: keyed('_keys', [key]) }
    const found = await all.threads.find(filter, { projection: { _id: 1 }, limit: most }).toArray()
    return found.map(({ _id }) => _id)
  },

  async haveKeys(thread_ids, keys) {
    const found: string[] = []
    for (const some of chunks(thread_ids)) {
      const filter = { _id: { $in: some }, $and: keyed('_keys', keys) }
      for (const { _id } of await all.threads.find(filter, { projection: { _id: 1 } }).toArray()) found.push(_id)
    }
    return found
  },
})

/** The runs of a source between the bounds of a place. */
function within({ by, values }: RunSource, { app, from, until, order, after }: RunPlace): Filter<Doc> {
  const filter: Filter<Doc> = { app }
  if (by === 'temporary') filter.temporary = true
  else if (by === 'thread_id') filter.thread_id = { $in: [...values] }
  // The second condition is that of the index.
  else if (by === 'key_id') filter.key_id = { $eq: values[0]!, $gt: '' }
  else if (by !== 'app') filter[by] = plain(values[0]!)
  // Both bounds in any case: a search is always the same query.
  const [first, last] = [from ?? 0, (until ?? Number.MAX_SAFE_INTEGER) - 1]
  if (after === undefined) return { ...filter, created_at: { $gte: first, $lte: last } }
  const { created_at, run_id } = after
  const [range, way] =
    order === 'asc'
      ? [{ $gte: created_at, $lte: last }, '$gt' as const]
      : [{ $gte: first, $lte: created_at }, '$lt' as const]
  return { ...filter, ...beyond(way, 'created_at', created_at, '_id', run_id), created_at: range }
}
