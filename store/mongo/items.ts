/** Items: one document each, whose `path` is the namespace, so that a prefix of labels is a range of texts. */
import type { Binary, Document, Filter } from 'mongodb'
import { ANY_KEY } from '../../schemas/contains.js'
import { itemKeys, type KeyCondition } from '../../schemas/items/keys.js'
import type { Store } from '../port.js'
import type { ItemKey, ItemRow, ItemVectors } from '../rows/items.js'
import type { Step } from '../steps.js'
import type { Collections } from './collections.js'
import { type Doc, exact, fields, key as idOf } from './documents.js'
import { chunks, type Find } from './find.js'
import { findById } from './grouped-reads.js'
import { insert, NOBODY, patch, remove } from './parts.js'

/** The members of a stored item that decide about a write to it. */
const STORED = { projection: { updated_at: 1, expires_at: 1, _copied: 1 } }

type Of<Name extends Step['step']> = Extract<Step, { step: Name }>

/** The labels, each followed by a dot: `a.b.` begins the paths of all namespaces at or below `a`, `b`. */
export const pathOf = (namespace: readonly string[]): string => namespace.map(label => `${label}.`).join('')
export const labelsOfPath = (path: string): string[] => path.slice(0, -1).split('.')
export const idOfItem = (app: string, { namespace, key }: ItemKey): string => idOf(app, pathOf(namespace), key)

/**
 * Compare-and-set on `updated_at`, because the new value depends on the stored one. With `replaces` false when another
 * item is stored that has not expired.
 */
export async function putItem(
  all: Collections,
  step: Of<'items.put' | 'items.replace'>,
  replaces?: number | null,
): Promise<boolean> {
  const { vectors = new Uint8Array(0), searchable = step.row.value } = step
  const { namespace, ...row } = step.row
  const indexed = vectors.length === 0 ? { _vectors: null, _indexed: null } : { _vectors: vectors, _indexed: true }
  const own = { ...indexed, _copied: null, _keys: itemKeys(JSON.parse(searchable)) }
  const _id = idOfItem(row.app, { namespace, key: row.key })
  for (;;) {
    const stored = await findById(all.items, _id, STORED)
    if (stored === null) {
      if (await insert(all, 'items', NOBODY, { ...fields({ ...row, path: pathOf(namespace) }), ...own, _id }))
        return true
      continue
    }
    const { value, ttl, expires_at, created_at } = row
    const updated_at = Math.max(row.updated_at, stored.updated_at + 1)
    const expired = stored.expires_at !== null && stored.expires_at <= row.updated_at
    if (replaces !== undefined && !expired && stored.updated_at !== replaces) return false
    const set = { value, ttl, expires_at, updated_at, ...(expired ? { created_at } : {}) }
    if (!(await patch(all, 'items', NOBODY, { _id, updated_at: stored.updated_at }, { ...fields(set), ...own })))
      continue
    await forgetCopies(all, stored)
    return true
  }
}

export async function removeItem(all: Collections, { app, expired_at, ...item }: Of<'items.remove'>): Promise<void> {
  const filter: Filter<Doc> = { _id: idOfItem(app, item) }
  if (expired_at !== undefined) filter.expires_at = { $gt: 0, $lte: expired_at }
  const removed = await all.items.findOneAndDelete(filter, REMOVED)
  await remove(all, removed?._parts)
  await forgetCopies(all, removed)
}

/** False unless the item was last written at `updated_at`. */
export async function takeItem(all: Collections, { app, updated_at, ...item }: Of<'items.take'>): Promise<boolean> {
  const filter: Filter<Doc> = { _id: idOfItem(app, item), updated_at }
  const removed = await all.items.findOneAndDelete(filter, REMOVED)
  if (removed === null) return false
  await remove(all, removed._parts)
  await forgetCopies(all, removed)
  return true
}

const REMOVED = { projection: { _parts: 1, updated_at: 1, _copied: 1 } }

/** Vectors that were copied for vector search (nearest.ts) leave with the write that they are of. */
async function forgetCopies(all: Collections, written: Document | null): Promise<void> {
  if (written?._copied) await all.item_vectors.deleteMany({ of: written._id, updated_at: written.updated_at })
}

export async function touchItems(all: Collections, { app, items }: Of<'items.touch'>): Promise<void> {
  if (items.length === 0) return
  await all.items.bulkWrite(
    items.map(({ updated_at, expires_at, ...item }) => ({
      updateOne: { filter: { _id: idOfItem(app, item), updated_at }, update: { $set: { expires_at } } },
    })),
    { ordered: false },
  )
}

type Stored = Omit<ItemRow, 'namespace'> & { path: string }

/** A page of at most so many items is read by ids, which searches of one turn share (grouped-reads.ts). */
const SMALL_PAGE = 16

/** Rows are read without the vectors, keys and marks, which only the adapter needs. */
const ROW = { projection: { _vectors: 0, _keys: 0, _marks: 0 } }

export const itemReads = (all: Collections, { one, rows }: Find): Store['items'] => ({
  async get(app, item, now) {
    const row = await one<Stored>('items', idOfItem(app, item), ROW)
    return row === null || (row.expires_at !== null && row.expires_at <= now) ? null : itemOf(row)
  },
  async many(app, items, now) {
    const found: ItemRow[] = []
    for (const some of chunks(items))
      for (const row of await rows<Stored>('items', { _id: { $in: some.map(item => idOfItem(app, item)) } }, ROW))
        if (row.expires_at === null || row.expires_at > now) found.push(itemOf(row))
    return found
  },
  async indexed(app, { updated_at, namespace, key }, limit) {
    const path = pathOf(namespace)
    const found = await all.items
      .find(
        {
          app,
          _indexed: true,
          updated_at: { $gte: updated_at },
          $or: [
            { updated_at: { $gt: updated_at } },
            { updated_at, path: { $gt: path } },
            { updated_at, path, key: { $gt: key } },
          ],
        },
        {
          projection: { path: 1, key: 1, updated_at: 1 },
          sort: { updated_at: 1, path: 1, key: 1 },
          limit,
        },
      )
      .toArray()
    return found.map(doc => ({ namespace: labelsOfPath(doc.path), key: exact(doc.key), updated_at: doc.updated_at }))
  },
  async vectors(app, items) {
    const found: ItemVectors[] = []
    for (const some of chunks(items)) {
      const filter = { _id: { $in: some.map(item => idOfItem(app, item)) }, _indexed: true }
      const projection = { path: 1, key: 1, updated_at: 1, _vectors: 1 }
      for (const doc of await all.items.find(filter, { projection }).toArray())
        found.push({
          namespace: labelsOfPath(doc.path),
          key: exact(doc.key),
          updated_at: doc.updated_at,
          vectors: bytesOf(doc._vectors),
        })
    }
    return found
  },
  /** Ids first: sorted documents would count against the memory of a sort with their values. */
  async list({ app, prefix, now, after, limit, conditions = [] }) {
    const and: Filter<Doc>[] = [unexpired(now), ...conditions.map(meets)]
    if (after !== undefined) {
      const { updated_at, namespace, key } = after
      const path = pathOf(namespace)
      and.push({
        $or: [
          { updated_at: { $lt: updated_at } },
          { updated_at, path: { $lt: path } },
          { updated_at, path, key: { $lt: key } },
        ],
      })
    }
    const found = await all.items
      .find(
        { app, ...below(prefix), $and: and },
        { projection: { _id: 1 }, sort: { updated_at: -1, path: -1, key: -1 }, limit },
      )
      .toArray()
    if (found.length <= SMALL_PAGE) {
      const read = await Promise.all(found.map(({ _id }) => one<Stored>('items', _id, ROW)))
      return read.flatMap(row => (row === null ? [] : itemOf(row)))
    }
    const byId = new Map<string, ItemRow>()
    for (const ids of chunks(found.map(({ _id }) => _id)))
      for (const row of await rows<Stored>('items', { _id: { $in: ids } }, ROW))
        byId.set(idOf(row.app, row.path, row.key), itemOf(row))
    return found.flatMap(({ _id }) => byId.get(_id) ?? [])
  },
  async namespaces({ app, prefix, now, after, limit }) {
    const filter: Filter<Doc> = { app, ...below(prefix), $and: [unexpired(now)] }
    if (after !== undefined) filter.$and!.push({ path: { $gt: pathOf(after) } })
    const found = await all.items
      .aggregate<{ _id: string }>([
        { $match: filter },
        { $group: { _id: '$path' } },
        { $sort: { _id: 1 } },
        { $limit: limit },
      ])
      .toArray()
    return found.map(({ _id }) => labelsOfPath(_id))
  },
  async expired(now, limit) {
    const options = { projection: { app: 1, path: 1, key: 1 }, sort: { expires_at: 1 as const }, limit }
    const found = await all.items.find({ expires_at: { $gt: 0, $lte: now } }, options).toArray()
    return found.map(({ app, path, key }) => ({ app, namespace: labelsOfPath(path), key }))
  },
})

const itemOf = ({ path, ...row }: Stored): ItemRow => ({ ...row, namespace: labelsOfPath(path) })

/** The driver returns bytes as Binary, unless `promoteBuffers` is set. */
export const bytesOf = (value: Binary | Uint8Array): Uint8Array => (value instanceof Uint8Array ? value : value.value())

const unexpired = (now: number): Filter<Doc> => ({ $or: [{ expires_at: null }, { expires_at: { $gt: now } }] })

/** Has a key in one of the ranges, or too many keys to tell. */
function meets(condition: KeyCondition): Filter<Doc> {
  const exact = { _keys: { $in: [ANY_KEY, ...condition.flatMap(({ from, to }) => (from === to ? [from] : []))] } }
  const ranges = condition.filter(({ from, to }) => from !== to)
  if (ranges.length === 0) return exact
  return { $or: [exact, ...ranges.map(({ from, to }) => ({ _keys: { $elemMatch: { $gte: from, $lte: to } } }))] }
}

/** The condition that a path is at or below the prefix. */
function below(prefix: readonly string[]): Filter<Doc> {
  if (prefix.length === 0) return {}
  const path = pathOf(prefix)
  // `/` is the character after the dot.
  return { path: { $gte: path, $lt: `${path.slice(0, -1)}/` } }
}
