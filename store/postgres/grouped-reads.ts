/** Reads of rows by their ids: those of one turn of the event loop are one query (docs/decisions/cluster/010). */
import { perTurn } from '../per-turn.js'
import type { Query, Row } from './connection.js'

/** The row of an id, which `text` answers as its first column for a list of them (`?::text[]`); undefined: there is none. */
export function byId(query: Query, text: string): (id: string) => Promise<Row | undefined> {
  return perTurn<string, Row | undefined>(async calls => {
    const { rows } = await query(text, [[...new Set(calls.map(({ of }) => of))]])
    const found = new Map(rows.map(row => [row[0] as string, row]))
    for (const { of, done } of calls) done(found.get(of))
  })
}

/** More keys than this are a query of their own. */
const FEW = 64

/**
 * The rows of several keys, which are the first `width` columns that `text` answers for lists of them (`?::text[]`, one for
 * each column). Keys of a turn are asked for together.
 */
export function byKeys(query: Query, text: string, width: number): (keys: readonly Key[]) => Promise<Row[]> {
  const ask = async (keys: readonly Key[]) =>
    (
      await query(
        text,
        Array.from({ length: width }, (_, column) => keys.map(key => key[column]!)),
      )
    ).rows
  const grouped = perTurn<readonly Key[], Row[]>(async calls => {
    const all = new Map(calls.flatMap(({ of }) => of.map(key => [keyOf(...key), key] as const)))
    const rowsOf = new Map<string, Row[]>()
    for (const row of await ask([...all.values()])) {
      const key = keyOf(...row.slice(0, width))
      const same = rowsOf.get(key)
      if (same === undefined) rowsOf.set(key, [row])
      else same.push(row)
    }
    for (const { of, done } of calls) done(of.flatMap(key => rowsOf.get(keyOf(...key)) ?? []))
  })
  return keys => (keys.length > FEW ? ask(keys) : grouped(keys))
}
type Key = readonly string[]

export const keyOf = (...parts: unknown[]): string => JSON.stringify(parts)
