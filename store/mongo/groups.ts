/**
 * Writes of one turn of the event loop as one command (docs/decisions/cluster/010): driver and server pay more for a
 * command than for a small document.
 */
import { randomBytes } from 'node:crypto'
import type { Collection, Filter, MongoBulkWriteError, UpdateFilter } from 'mongodb'
import { fail } from '../../schemas/errors.js'
import { type Call, perTurn } from '../per-turn.js'
import { type Doc, isTaken } from './documents.js'
import { perCollection } from './per-collection.js'

/** Larger documents are inserted alone: small ones would wait until they are sent. */
const SMALL_BYTES = 16 * 1024

/** Inserts a document; false when its id or a unique value is taken. */
export function insertDoc(on: Collection<Doc>, doc: Doc): Promise<boolean> {
  return isSmall(doc) ? inserter(on)(doc) : insertAlone(on, doc)
}

async function insertAlone(on: Collection<Doc>, doc: Doc): Promise<boolean> {
  try {
    await on.insertOne(doc)
    return true
  } catch (error) {
    if (!isTaken(error)) throw error
    return false
  }
}

const inserter = perCollection(on =>
  perTurn<Doc, boolean>(async calls => {
    const [only, ...others] = calls
    if (others.length === 0) return only!.done(await insertAlone(on, only!.of))
    const docs = calls.map(({ of }) => of)
    const { refused } = await grouped(() => on.insertMany(docs, { ordered: false }))
    for (const [i, call] of calls.entries()) {
      const error = refused.get(i)
      if (error === undefined) call.done(true)
      else if (isTaken(error)) call.done(false)
      else call.failed(error)
    }
  }),
)

/** Replaces the document that the filter finds, or inserts this one: true. Rejects as the driver when that is taken. */
export function replaceDoc(on: Collection<Doc>, filter: Filter<Doc>, doc: Doc): Promise<boolean> {
  const one = { filter, doc }
  return isSmall(doc) ? replacer(on)(one) : replaceAlone(on, one)
}

interface Replacement {
  filter: Filter<Doc>
  doc: Doc
}

const replaceAlone = async (on: Collection<Doc>, { filter, doc }: Replacement): Promise<boolean> =>
  (await on.replaceOne(filter, doc, { upsert: true })).upsertedCount > 0

const replacer = perCollection(on =>
  perTurn<Replacement, boolean>(async calls => {
    const [only, ...others] = calls
    if (others.length === 0) return only!.done(await replaceAlone(on, only!.of))
    const writes = calls.map(({ of }) => ({ replaceOne: { filter: of.filter, replacement: of.doc, upsert: true } }))
    const { refused, result } = await grouped(() => on.bulkWrite(writes, { ordered: false }))
    for (const [i, call] of calls.entries()) {
      const error = refused.get(i)
      if (error === undefined) call.done(i in result.upsertedIds)
      else call.failed(error)
    }
  }),
)

/**
 * Updates the document that the filter finds; false when it finds none. The filter names the `_id`. Rejects as the driver
 * when a unique value is taken.
 */
export function updateDoc(on: Collection<Doc>, filter: Filter<Doc>, update: UpdateFilter<Doc>): Promise<boolean> {
  const one = { filter, update }
  return isSmall(update.$set ?? {}) ? updater(on)(one) : updateAlone(on, one)
}

interface Update {
  filter: Filter<Doc>
  update: UpdateFilter<Doc>
}

const updateAlone = async (on: Collection<Doc>, { filter, update }: Update): Promise<boolean> =>
  (await on.updateOne(filter, update)).matchedCount > 0

/**
 * The answer to a group is a sum. Each of its updates leaves a mark, which tells those that were done from the others. The
 * marks of later updates of the document take the places of the oldest.
 */
const MARKS = 8
const prefix = randomBytes(6).toString('base64url')
let lastMark = 0

const updater = perCollection(on =>
  perTurn<Update, boolean>(async calls => {
    const [only, ...others] = calls
    if (others.length === 0) return only!.done(await updateAlone(on, only!.of))
    const marks = calls.map(() => prefix + (++lastMark).toString(36))
    const writes = calls.map(({ of: { filter, update } }, i) => ({
      updateOne: { filter, update: { ...update, $push: { _marks: { $each: [marks[i]], $slice: -MARKS } } } as never },
    }))
    const { refused, result } = await grouped(() => on.bulkWrite(writes, { ordered: false }))
    const tried = calls.length - refused.size
    const { matchedCount } = result
    const isMarked = matchedCount > 0 && matchedCount < tried ? await markedIn(on, calls) : () => matchedCount > 0
    // Another worker has removed a document meanwhile, or changed it several times.
    const isUnsure = [...marks.keys()].filter(i => !refused.has(i) && isMarked(marks[i]!)).length < matchedCount
    for (const [i, call] of calls.entries()) {
      const error = refused.get(i)
      if (error !== undefined) call.failed(error)
      else if (isMarked(marks[i]!)) call.done(true)
      else if (isUnsure) call.failed(fail('unavailable', 'Others changed the same row at once; repeat the request'))
      else call.done(false)
    }
  }),
)

async function markedIn(
  on: Collection<Doc>,
  calls: readonly Call<Update, boolean>[],
): Promise<(mark: string) => boolean> {
  const ids = [...new Set(calls.map(({ of }) => of.filter._id as string))]
  const found = await on.find({ _id: { $in: ids } }, { projection: { _marks: 1 } }).toArray()
  const marks = new Set(found.flatMap(({ _marks = [] }) => _marks as string[]))
  return mark => marks.has(mark)
}

interface Grouped {
  /** The errors of single documents, by their index. */
  refused: ReadonlyMap<number, unknown>
  result: { matchedCount: number; upsertedIds: { readonly [index: number]: unknown } }
}

/** Rejects when the outcome of the whole group is not known. */
async function grouped(send: () => Promise<object>): Promise<Grouped> {
  try {
    return { refused: new Map(), result: (await send()) as Grouped['result'] }
  } catch (error) {
    const { writeErrors = [], result } = error as Partial<MongoBulkWriteError>
    const all = [writeErrors].flat()
    // A lost connection names no document, and without its majority no write counts.
    if (result === undefined || all.length === 0 || result.getWriteConcernError() !== undefined) throw error
    return { refused: new Map(all.map(one => [one.index, isTaken(one) ? one : error])), result }
  }
}

function isSmall(doc: object): boolean {
  let bytes = 0
  for (const value of Object.values(doc))
    if (typeof value === 'string' || value instanceof Uint8Array) bytes += value.length
  return bytes <= SMALL_BYTES
}
