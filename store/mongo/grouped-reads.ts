/** Reads of one turn of the event loop as one command (docs/decisions/cluster/010). */
import type { Collection, Document, Filter, FindOptions } from 'mongodb'
import { perTurn } from '../per-turn.js'
import type { Doc } from './documents.js'
import { perCollection } from './per-collection.js'

interface Asked {
  value: string
  /** Its documents belong to this thread, by which a cluster may have placed them; null: they belong to none. */
  thread_id: string | null
}
type Read = (asked: Asked) => Promise<Document[]>

const byId = perCollection(() => new Map<FindOptions | null, Read>())
const byCheckpoint = perCollection(on => readerOf(on, 'of', {}))

/** The document, or null. `options`: a constant, because reads with the same one are grouped. */
export async function findById(
  on: Collection<Doc>,
  id: string,
  options: FindOptions | null = null,
  thread_id: string | null = null,
): Promise<Document | null> {
  const of = byId(on)
  let read = of.get(options)
  if (read === undefined) of.set(options, (read = readerOf(on, '_id', options ?? {})))
  return (await read({ value: id, thread_id }))[0] ?? null
}

/** The documents that name this checkpoint (`of`), in any order. */
export const findOfCheckpoint = (on: Collection<Doc>, of: string, thread_id: string): Promise<Document[]> =>
  byCheckpoint(on)({ value: of, thread_id })

const readerOf = (on: Collection<Doc>, field: '_id' | 'of', options: FindOptions): Read =>
  perTurn(async calls => {
    const values = new Set(calls.map(({ of }) => of.value))
    const threads = new Set(calls.flatMap(({ of }) => of.thread_id ?? []))
    const filter = { ...(threads.size > 0 ? { thread_id: oneOf(threads) } : {}), [field]: oneOf(values) } as Filter<Doc>
    const found = new Map<string, Document[]>()
    for (const doc of await on.find(filter, options).toArray()) {
      const same = found.get(doc[field])
      if (same === undefined) found.set(doc[field], [doc])
      else same.push(doc)
    }
    for (const { of, done } of calls) done(found.get(of.value) ?? [])
  })

function oneOf(values: ReadonlySet<string>): string | { $in: string[] } {
  const [first, ...others] = values
  return others.length === 0 ? first! : { $in: [first!, ...others] }
}
