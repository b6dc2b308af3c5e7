/**
 * Reads by id and inserts of one turn of the event loop as one command (docs/decisions/cluster/010): driver and server pay
 * more for a command than for a small document.
 */
import type { Collection, Document, FindOptions, MongoBulkWriteError } from 'mongodb'
import { type Doc, isTaken } from './documents.js'

/** Documents of one command. More would delay the first of them, and the server answers in batches of about as many. */
const MOST = 64
/** Larger documents are inserted alone: small ones would wait until they are sent. */
const SMALL_BYTES = 16 * 1024

interface Call<In, Out> {
  of: In
  done(out: Out): void
  failed(error: unknown): void
}

/** Passes the calls of a turn on together. A rejection of `send` is that of all calls that have no answer yet. */
function perTurn<In, Out>(send: (calls: readonly Call<In, Out>[]) => Promise<void>): (of: In) => Promise<Out> {
  let waiting: Call<In, Out>[] = []
  const flush = () => {
    const all = waiting
    waiting = []
    for (let at = 0; at < all.length; at += MOST) {
      const some = all.slice(at, at + MOST)
      send(some).catch(error => {
        for (const call of some) call.failed(error)
      })
    }
  }
  return of =>
    new Promise((done, failed) => {
      if (waiting.push({ of, done, failed }) === 1) setImmediate(flush)
    })
}

type Read = (id: string) => Promise<Document | null>
const readers = new WeakMap<Collection<Doc>, Map<FindOptions | null, Read>>()

/** The document, or null. `options`: a constant, because reads with the same one are grouped. */
export function findById(
  on: Collection<Doc>,
  id: string,
  options: FindOptions | null = null,
): Promise<Document | null> {
  let of = readers.get(on)
  if (of === undefined) readers.set(on, (of = new Map()))
  let read = of.get(options)
  if (read === undefined) of.set(options, (read = readerOf(on, options ?? {})))
  return read(id)
}

const readerOf = (on: Collection<Doc>, options: FindOptions): Read =>
  perTurn(async calls => {
    const [only, ...others] = calls
    if (others.length === 0) return only!.done(await on.findOne({ _id: only!.of }, options))
    const ids = [...new Set(calls.map(({ of }) => of))]
    const found = new Map((await on.find({ _id: { $in: ids } }, options).toArray()).map(doc => [doc._id, doc]))
    for (const { of, done } of calls) done(found.get(of) ?? null)
  })

const inserters = new WeakMap<Collection<Doc>, (doc: Doc) => Promise<boolean>>()

/** Inserts a document; false when its id or a unique value is taken. */
export function insertDoc(on: Collection<Doc>, doc: Doc): Promise<boolean> {
  let insert = inserters.get(on)
  if (insert === undefined) inserters.set(on, (insert = inserterOf(on)))
  return isSmall(doc) ? insert(doc) : insertAlone(on, doc)
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

const inserterOf = (on: Collection<Doc>) =>
  perTurn<Doc, boolean>(async calls => {
    const [only, ...others] = calls
    if (others.length === 0) return only!.done(await insertAlone(on, only!.of))
    const refused = new Map<number, unknown>()
    try {
      await on.insertMany(
        calls.map(({ of }) => of),
        { ordered: false },
      )
    } catch (error) {
      const { writeErrors = [], result } = error as Partial<MongoBulkWriteError>
      const all = [writeErrors].flat()
      // A lost connection names no document, and without its majority no insert counts.
      if (all.length === 0 || result?.getWriteConcernError() !== undefined) throw error
      for (const one of all) refused.set(one.index, isTaken(one) ? null : error)
    }
    for (const [i, { done, failed }] of calls.entries()) {
      const why = refused.get(i)
      if (why === undefined) done(true)
      else if (why === null) done(false)
      else failed(why)
    }
  })

function isSmall(doc: Doc): boolean {
  let bytes = 0
  for (const value of Object.values(doc))
    if (typeof value === 'string' || value instanceof Uint8Array) bytes += value.length
  return bytes <= SMALL_BYTES
}
