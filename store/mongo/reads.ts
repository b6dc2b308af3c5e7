/** The queries; every one goes by `_id` or through an index of collections.ts. */
import type { Document, Filter, FindOptions } from 'mongodb'
import type {
  RecordQuery,
  RecordRow,
  RunPlace,
  RunRow,
  RunSummary,
  StateRow,
  Store,
  ThreadRow,
  Tuple,
} from '../port.js'
import type { CollectionName, Collections } from './collections.js'
import { type Doc, exact, key, plain } from './documents.js'
import { load } from './parts.js'
import { finishRemovals } from './removal.js'
import { blobKey, checkpointKey } from './saves.js'
import { nameFrom } from './steps.js'

type Reads = Omit<Store, 'apply' | 'ping' | 'close'>

export function reads(all: Collections): Reads {
  const one = <Row>(on: CollectionName, _id: string, options: FindOptions = {}): Promise<Row | null> => {
    const find = () => all[on].findOne({ _id }, options)
    return find().then(doc => load<Row>(all, doc, find))
  }
  /** The rows of documents that were found by a query. */
  const rows = async <Row>(on: CollectionName, docs: readonly Doc[], options: FindOptions = {}): Promise<Row[]> => {
    const loaded: Row[] = []
    for (const doc of docs) {
      const row = await load<Row>(all, doc, () => all[on].findOne({ _id: doc._id }, options))
      if (row !== null) loaded.push(row)
    }
    return loaded
  }
  const summaries = async (filter: Filter<Doc>, options: FindOptions = {}): Promise<RunSummary[]> =>
    rows<RunSummary>('runs', await all.runs.find(filter, { ...options, ...SUMMARY }).toArray(), SUMMARY)
  const records = async (filter: Filter<Doc>, options: FindOptions): Promise<RecordRow[]> =>
    (await rows<RecordRow>('records', await all.records.find(filter, options).toArray())).map(named)

  return {
    assistants: {
      get: (app, assistant_id) => one('assistants', key(app, assistant_id)),
    },
    threads: {
      async get(app, thread_id) {
        const doc = await all.threads.findOne({ _id: thread_id })
        if (doc === null || (app !== null && doc.app !== app) || doc._removing !== undefined) return null
        return load<ThreadRow>(all, doc, () => all.threads.findOne({ _id: thread_id }))
      },
      state: thread_id => one<StateRow>('states', thread_id),
      busy: async (before, limit) =>
        rows(
          'threads',
          await all.threads
            .find({ status: 'busy', updated_at: { $lt: before }, _removing: null })
            .sort({ updated_at: 1 })
            .limit(limit)
            .toArray(),
        ),
    },
    runs: {
      get: run_id => one<RunRow>('runs', run_id),
      async summary(run_ids) {
        if (run_ids.length === 0) return []
        return summaries({ _id: { $in: [...run_ids] } })
      },
      unsettled: limit =>
        summaries(
          { _open: true, $or: [{ status: { $ne: 'pending' } }, { due_at: 0 }] },
          { sort: { created_at: 1, _id: 1 }, limit },
        ),
      list: ({ thread_id, status, after, skip = 0, limit }) => {
        const filter: Filter<Doc> = {
          thread_id,
          status: status === undefined ? { $ne: 'accepting' } : { $in: [...status] },
        }
        const sort = { created_at: -1, _id: -1 } as const
        return summaries(after ? { ...filter, ...beyond(after, '$lt') } : filter, { sort, skip, limit })
      },
      active: (app, status, limit, after) => {
        const filter: Filter<Doc> = { _open: true, app, status: { $in: [...status] } }
        const sort = { created_at: 1, _id: 1 } as const
        return summaries(after ? { ...filter, ...beyond(after, '$gt') } : filter, { sort, limit })
      },
      startsDue: (until, limit) =>
        summaries({ status: 'pending', due_at: { $gt: 0, $lte: until } }, { sort: { due_at: 1 }, limit }),
      cancelsDue: (until, limit) =>
        summaries({ cancel_due_at: { $gt: 0, $lte: until } }, { sort: { cancel_due_at: 1 }, limit }),
      webhooksDue: (until, limit) =>
        summaries({ webhook_due_at: { $gt: 0, $lte: until } }, { sort: { webhook_due_at: 1 }, limit }),
      async expired(ended_before, resumable_before, limit) {
        await finishRemovals(all, limit)
        const ended = {
          temporary: true,
          ended_at: { $gt: 0, $lt: ended_before },
          webhook_due_at: null,
          $or: [{ resumable: false }, { ended_at: { $gt: 0, $lt: resumable_before } }],
        }
        const found = await all.runs.find(ended, { projection: { thread_id: 1 }, limit }).toArray()
        return [...new Set(found.map(doc => doc.thread_id as string))]
      },
    },
    checkpoints: {
      async get({ thread_id, ns = '', checkpoint_id, without_run }) {
        // The head may be what is to be left out: then it is the newest of the others.
        const follows = checkpoint_id === undefined && ns === '' && without_run === undefined
        const id = follows ? await headOf(thread_id) : checkpoint_id
        if (id === null) return null
        const others = without_run === undefined ? {} : { run_id: { $ne: without_run } }
        const found =
          id === undefined
            ? all.checkpoints
                .find({ thread_id, ns: plain(ns), ...others })
                .sort({ seq: -1 })
                .limit(1)
            : all.checkpoints.find({ _id: checkpointKey(thread_id, id, ns), ...others })
        return (await tuples(thread_id, await found.toArray()))[0] ?? null
      },
      async list({ thread_id, ns, checkpoint_id, before, limit, without_run }) {
        if (limit === 0) return []
        const filter: Filter<Doc> = { thread_id }
        if (ns !== undefined) filter.ns = plain(ns)
        if (checkpoint_id !== undefined) filter.id = checkpoint_id
        if (without_run !== undefined) filter.run_id = { $ne: without_run }
        if (before !== undefined) {
          const seq = await seqOf(thread_id, before)
          if (seq === null) return []
          filter.seq = { $lt: seq }
        }
        const options: FindOptions = { sort: { seq: -1 }, ...(limit === undefined ? {} : { limit }) }
        return tuples(thread_id, await all.checkpoints.find(filter, options).toArray())
      },
    },
    records: {
      get: async (kind, id) => {
        const row = await one<RecordRow>('records', key(kind, id))
        return row && named(row)
      },
      named: async (kind, app, name) => (await records({ kind, app, name: plain(name) }, {}))[0] ?? null,
      list: query => records(narrowed(query), { sort: sortOf(query), limit: query.limit }),
      due: (kind, now, limit) =>
        records({ kind, due_at: { $gt: 0, $lte: now } }, { sort: { due_at: 1, id: 1 }, limit }),
    },
  }

  async function headOf(thread_id: string): Promise<string | null> {
    const doc = await all.threads.findOne({ _id: thread_id }, { projection: { head: 1 } })
    return (doc?.head as string | null | undefined) ?? null
  }

  async function seqOf(thread_id: string, id: string): Promise<number | null> {
    const options: FindOptions = { sort: { seq: -1 }, projection: { seq: 1 } }
    return ((await all.checkpoints.findOne({ thread_id, id }, options))?.seq as number | undefined) ?? null
  }

  /** With the blobs that they refer to and their writes, each fetched once for all of them. */
  async function tuples(thread_id: string, docs: readonly Doc[]): Promise<Tuple[]> {
    if (docs.length === 0) return []
    const found = docs.map(doc => ({ doc, ns: exact(doc.ns as string), refs: Object.entries(refsOf(doc)) }))
    const [blobs, writes, loaded] = await Promise.all([
      values(
        found.flatMap(({ ns, refs }) => refs.map(([channel, version]) => blobKey(thread_id, ns, channel, version))),
      ),
      writesOf(found.map(({ ns, doc }) => key(thread_id, ns, doc.id as string))),
      rows<Stored>('checkpoints', docs),
    ])
    return loaded.map(({ ns, id, parent, type, value, meta_type, metadata, refs }) => ({
      ns,
      id,
      parent,
      type,
      value,
      meta_type,
      metadata,
      blobs: Object.entries(JSON.parse(refs) as { [channel: string]: string }).flatMap(([channel, version]) => {
        const blob = blobs.get(blobKey(thread_id, ns, channel, version))
        return blob === undefined ? [] : [{ channel, ...blob }]
      }),
      writes: writes.get(key(thread_id, ns, id)) ?? [],
    }))
  }

  async function values(ids: readonly string[]): Promise<Map<string, { type: string; value: Uint8Array }>> {
    const out = new Map<string, { type: string; value: Uint8Array }>()
    for (const some of chunks([...new Set(ids)])) {
      for (const doc of await all.blobs.find({ _id: { $in: some } }).toArray()) {
        const [blob] = await rows<{ type: string; value: Uint8Array }>('blobs', [doc])
        if (blob) out.set(doc._id, { type: blob.type, value: blob.value })
      }
    }
    return out
  }

  async function writesOf(of: readonly string[]): Promise<Map<string, Tuple['writes']>> {
    const out = new Map<string, Tuple['writes']>()
    for (const some of chunks(of)) {
      const docs = await all.writes.find({ of: { $in: some } }).toArray()
      const loaded = await rows<Tuple['writes'][number] & { of: string }>('writes', docs)
      for (const { of, task_id, idx, channel, type, value } of loaded) {
        const list = out.get(of) ?? []
        list.push({ task_id, idx, channel, type, value })
        out.set(of, list)
      }
    }
    for (const list of out.values())
      list.sort((a, b) => (a.task_id === b.task_id ? a.idx - b.idx : a.task_id < b.task_id ? -1 : 1))
    return out
  }
}

interface Stored {
  ns: string
  id: string
  parent: string | null
  type: string
  value: Uint8Array
  meta_type: string
  metadata: Uint8Array
  refs: string
}

/** A run without what only its own reader needs. */
const SUMMARY: FindOptions = { projection: { kwargs: 0, result: 0, '_parts.kwargs': 0, '_parts.result': 0 } }

const refsOf = (doc: Document): { [channel: string]: string } => JSON.parse(exact(doc.refs as string))

/** Runs after a place in the order of time and id; the bound of the first column lets the index begin there. */
const beyond = ({ created_at, run_id }: RunPlace, way: '$lt' | '$gt'): Filter<Doc> => ({
  created_at: { [`${way}e`]: created_at },
  $or: [{ created_at: { [way]: created_at } }, { _id: { [way]: run_id } }],
})

/** Ids of one query: a list of thousands would make a message of its own size. */
const AT_ONCE = 1_000
function* chunks<T>(all: readonly T[]): Generator<T[]> {
  for (let at = 0; at < all.length; at += AT_ONCE) yield all.slice(at, at + AT_ONCE)
}

const named = (row: RecordRow): RecordRow => ({ ...row, name: row.name === null ? null : nameFrom(row.name) })

const sortOf = ({ sort = 'created_at', order }: RecordQuery): { [field: string]: 1 | -1 } => {
  const way = order === 'asc' ? 1 : -1
  return sort === 'id' ? { id: way } : { [sort]: way, id: way }
}

function narrowed({ kind, app, parent, keys = [], sort = 'created_at', order, after }: RecordQuery): Filter<Doc> {
  const filter: Filter<Doc> = { kind }
  if (app !== undefined) filter.app = app
  if (parent !== undefined) filter.parent = parent
  if (keys.length > 0) filter.keys = { $all: [...keys] }
  if (after === undefined) return filter
  const [beyond, from] = order === 'asc' ? ['$gt', '$gte'] : ['$lt', '$lte']
  const { id } = after
  if (sort === 'id') return { ...filter, id: { [beyond]: id } }
  // The bound of the first column lets the index begin at the right place.
  return {
    ...filter,
    [sort]: { [from]: after[sort] },
    $or: [{ [sort]: { [beyond]: after[sort] } }, { id: { [beyond]: id } }],
  }
}
