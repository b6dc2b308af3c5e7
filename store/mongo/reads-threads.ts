/** Threads: by id, lists in every order, expired ones. The cursor of a list is the sorted column and the id. */
import type { Filter, FindOptions } from 'mongodb'
import type { Store } from '../port.js'
import type { StateRow, ThreadQuery, ThreadRow } from '../rows/threads.js'
import type { Collections } from './collections.js'
import type { Doc } from './documents.js'
import { beyond, type Find, keyed } from './find.js'
import { findById } from './grouped-reads.js'
import { load } from './parts.js'

/** A page ends when its rows hold so much text. */
const PAGE_BYTES = 8 * 1024 * 1024
/** States that are fetched at once. */
const STATES = 16

/** Removed threads whose documents are still there (removal.ts). */
const THERE = { _removing: null }

export const threadReads = (all: Collections, { one, rows }: Find): Store['threads'] => ({
  async get(app, thread_id) {
    const find = async () => {
      const doc = await findById(all.threads, thread_id)
      return doc === null || (doc._removing ?? null) !== null ? null : doc
    }
    const doc = await find()
    if (doc === null || (app !== null && doc.app !== app)) return null
    return load<ThreadRow>(all, doc, find)
  },

  state: thread_id => one<StateRow>('states', thread_id),

  busy(before, limit, after) {
    const later = after === undefined ? [] : [beyond('$gt', 'updated_at', after.updated_at, '_id', after.thread_id)]
    const filter = { status: 'busy', $and: [{ updated_at: { $lt: before } }, ...later], ...THERE }
    return rows('threads', filter, { sort: { updated_at: 1, _id: 1 }, limit })
  },

  async list(query) {
    const { sort, order, skip = 0, limit } = query
    const way = order === 'asc' ? 1 : -1
    const column = sort === 'thread_id' ? '_id' : sort
    const options: FindOptions = { sort: column === '_id' ? { _id: way } : { [column]: way, _id: way }, skip, limit }
    const found: ThreadRow[] = []
    let held = 0
    const cursor = all.threads.find(narrowed(query, column), options)
    try {
      for await (const doc of cursor) {
        const row = await load<ThreadRow>(all, doc, () => all.threads.findOne({ _id: doc._id, ...THERE }))
        if (row === null) continue
        found.push(row)
        if ((held += row.metadata.length) >= PAGE_BYTES) break
      }
    } finally {
      await cursor.close()
    }
    const last = found.at(-1)
    const ended = last === undefined || (found.length < limit && held < PAGE_BYTES)
    return { rows: found, next: ended ? null : { value: last[sort], thread_id: last.thread_id } }
  },

  count: (app, status) =>
    all.threads.countDocuments({ app, temporary: false, ...(status === undefined ? {} : { status }) }),

  async states(thread_ids, bytes) {
    const states: (StateRow | null)[] = []
    let held = 0
    for (let at = 0; at < thread_ids.length; at += STATES) {
      const some = thread_ids.slice(at, at + STATES)
      const docs = new Map((await all.states.find({ _id: { $in: some } }).toArray()).map(doc => [doc._id, doc]))
      for (const _id of some) {
        const state = await load<StateRow>(all, docs.get(_id) ?? null, () => all.states.findOne({ _id }))
        states.push(state)
        held += (state?.values?.length ?? 0) + (state?.rest?.length ?? 0)
        if (held >= bytes) return states
      }
    }
    return states
  },

  expired: (now, limit) =>
    rows('threads', { expires_at: { $gt: 0, $lte: now }, ...THERE }, { sort: { expires_at: 1 }, limit }),
})

function narrowed({ app, ids, status, keys = [], order, after }: ThreadQuery, column: string): Filter<Doc> {
  const filter: Filter<Doc> = { app, temporary: false }
  const and: Filter<Doc>[] = keyed('_keys', keys)
  if (ids !== undefined) and.push({ _id: { $in: [...ids] } })
  if (status !== undefined) and.push({ status })
  if (after !== undefined)
    and.push(beyond(order === 'asc' ? '$gt' : '$lt', column, after.value, '_id', after.thread_id))
  return and.length === 0 ? filter : { ...filter, $and: and }
}
