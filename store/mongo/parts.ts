/**
 * Values too large for a document. A document has at most 16 MB, a column up to 64 MB: the excess is stored in
 * parts under a new id, which the document names in `_parts`. Parts are written before the document that names them
 * and removed after the one that no longer does, so a reader finds all of a value or reads the document again.
 */
import { randomUUID } from 'node:crypto'
import type { Document, Filter, UpdateFilter } from 'mongodb'
import { fail } from '../../schemas/errors.js'
import type { CollectionName, Collections } from './collections.js'
import { type Doc, isTaken, row } from './documents.js'
import { insertDoc, replaceDoc, updateDoc } from './groups.js'

/** A document has few columns that can be large: five of this size still fit. */
export const INLINE_BYTES = 2 * 1024 * 1024
export const PART_BYTES = 4 * 1024 * 1024
/** Parts in one answer: with more, it would be larger than a message may be. */
const PARTS_AT_ONCE = 3

interface Ref {
  id: string
  count: number
  text: boolean
}
type Refs = { [field: string]: Ref }

/** The thread with which parts are removed, and the run with which they are rolled back. Null = neither. */
interface Owner {
  thread_id: string | null
  run_id: string | null
}
export const NOBODY: Owner = { thread_id: null, run_id: null }

/** The fields, their large values moved into parts, which are stored when this resolves. */
export async function store(
  { parts }: Collections,
  owner: Owner,
  fields: { [field: string]: unknown },
): Promise<{ fields: { [field: string]: unknown }; refs: Refs | null }> {
  const large = Object.entries(fields).filter(([field, value]) => GROWS.has(field) && isLarge(value))
  if (large.length === 0) return { fields, refs: null }
  const left = { ...fields }
  const refs: Refs = {}
  for (const [field, value] of large) {
    const text = typeof value === 'string'
    const bytes = text ? Buffer.from(value) : (value as Uint8Array)
    const id = randomUUID()
    const count = Math.ceil(bytes.length / PART_BYTES)
    for (let i = 0; i < count; i++)
      await parts.insertOne({
        ...owner,
        _id: `${id}/${i}`,
        value: bytes.subarray(i * PART_BYTES, (i + 1) * PART_BYTES),
      })
    left[field] = null
    refs[field] = { id, count, text }
  }
  return { fields: left, refs }
}

function isLarge(value: unknown): boolean {
  if (value instanceof Uint8Array) return value.length > INLINE_BYTES
  // A UTF-16 unit has at most 3 bytes.
  return typeof value === 'string' && value.length * 3 > INLINE_BYTES && Buffer.byteLength(value) > INLINE_BYTES
}

/** Inserts a new document; false when its id or a unique value is taken. */
export async function insert(all: Collections, on: CollectionName, owner: Owner, doc: Doc): Promise<boolean> {
  const { fields, refs } = await store(all, owner, doc)
  if (await insertDoc(all[on], { ...fields, ...(refs ? { _parts: refs } : {}) } as Doc)) return true
  await remove(all, refs)
  return false
}

/** Collections whose documents belong to a thread, and whose shard key is `thread_id`: their filters name it beside `_id`. */
const OF_THREADS: readonly CollectionName[] = ['checkpoints', 'blobs', 'writes']

/** Puts the document in the place of the one with its id, if there is one. True when there was none. */
export async function put(all: Collections, on: CollectionName, owner: Owner, doc: Doc): Promise<boolean> {
  const { fields, refs } = await store(all, owner, doc)
  const whole = { ...fields, ...(refs ? { _parts: refs } : {}) } as Doc
  const filter = OF_THREADS.includes(on) ? { _id: doc._id, thread_id: doc.thread_id } : { _id: doc._id }
  try {
    return await replaceDoc(all[on], { ...filter, _parts: null }, whole)
  } catch (error) {
    if (!isTaken(error)) throw error
  }
  // The existing document has parts (or another caller was faster).
  const replace = () => all[on].findOneAndReplace(filter, whole, { upsert: true, projection: { _parts: 1 } })
  const before = await replace().catch(error => {
    if (!isTaken(error)) throw error
    // Another caller has inserted it between look and insert: it is there now.
    return replace()
  })
  await remove(all, before?._parts)
  return before === null
}

/** Changes the document that the filter finds; false when it finds none. The filter names the `_id`. */
export async function patch(
  all: Collections,
  on: CollectionName,
  owner: Owner,
  filter: Filter<Doc>,
  set: { [field: string]: unknown },
  more: UpdateFilter<Doc> = {},
): Promise<boolean> {
  const { fields, refs } = await store(all, owner, set)
  const stored = Object.fromEntries(Object.entries(refs ?? {}).map(([field, ref]) => [`_parts.${field}`, ref]))
  const $set = { ...fields, ...stored, ...(more.$set as object) }
  const update = { ...more, ...(Object.keys($set).length > 0 ? { $set } : {}) } as UpdateFilter<Doc>
  // A patch that sets nothing still evaluates its condition.
  if (Object.keys(update).length === 0) return (await all[on].findOne(filter, { projection: { _id: 1 } })) !== null
  try {
    const freed = Object.keys(fields).filter(field => GROWS.has(field))
    if (freed.length === 0) return await updateDoc(all[on], filter, update)
    if (await updateDoc(all[on], { ...filter, _parts: null }, update)) return true
    // A value that had parts and is small now refers to them no longer.
    const $unset: { [field: string]: '' } = { ...(more.$unset as object) }
    for (const field of freed) if (refs?.[field] === undefined) $unset[`_parts.${field}`] = ''
    const options = { projection: { _parts: 1 } }
    const whole = { ...update, ...(Object.keys($unset).length > 0 ? { $unset } : {}) } as UpdateFilter<Doc>
    const before = await all[on].findOneAndUpdate(filter, whole, options)
    if (before === null) {
      await remove(all, refs)
      return false
    }
    await remove(
      all,
      Object.fromEntries(Object.entries((before._parts ?? {}) as Refs).filter(([field]) => freed.includes(field))),
    )
    return true
  } catch (error) {
    if (!isTaken(error)) throw error
    await remove(all, refs)
    return false
  }
}

/** Columns that grow with user data; all others are always in their document. */
const GROWS = new Set([
  'base',
  'body',
  'config',
  'context',
  'description',
  'error',
  'interrupts',
  'kwargs',
  'metadata',
  'rest',
  'result',
  'value',
  'values',
])

/** Removes the parts that a document named. */
export async function remove({ parts }: Collections, refs: Refs | null | undefined): Promise<void> {
  const ids = Object.values(refs ?? {}).flatMap(idsOf)
  if (ids.length > 0) await parts.deleteMany({ _id: { $in: ids } })
}

const idsOf = ({ id, count }: Ref): string[] => Array.from({ length: count }, (_, i) => `${id}/${i}`)

/**
 * The row of a document, its parts put together. When parts are missing, the document was replaced meanwhile: `again`
 * reads it once more.
 */
export async function load<Row>(
  all: Collections,
  doc: Document | null,
  again: () => Promise<Document | null>,
): Promise<Row | null> {
  for (let tries = 0; doc !== null; tries++) {
    const refs = Object.entries((doc._parts ?? {}) as Refs)
    if (refs.length === 0) return row<Row>(doc)
    const found: { [field: string]: unknown } = {}
    for (const [field, ref] of refs) {
      const bytes = await join(all, ref)
      if (bytes === null) break
      found[field] = ref.text ? bytes.toString() : bytes
    }
    if (Object.keys(found).length === refs.length) return row<Row>(doc, found)
    if (tries === 4) throw fail('unavailable', 'A large value is being replaced; ask again')
    doc = await again()
  }
  return null
}

async function join({ parts }: Collections, ref: Ref): Promise<Buffer | null> {
  const ids = idsOf(ref)
  const found: Uint8Array[] = []
  for (let at = 0; at < ids.length; at += PARTS_AT_ONCE) {
    const some = ids.slice(at, at + PARTS_AT_ONCE)
    const docs = new Map((await parts.find({ _id: { $in: some } }).toArray()).map(doc => [doc._id, doc.value]))
    for (const id of some) {
      const value = docs.get(id) as Uint8Array | undefined
      if (value === undefined) return null
      found.push(value)
    }
  }
  return Buffer.concat(found)
}
