/** Shared by the read functions of the embedded store: their query functions, and the transfer of buffers. */
import type { Param, Row } from './database.js'

/** Buffers that the answer gives away are put into `transfer`. */
export type Read = (transfer: ArrayBuffer[], ...args: never[]) => unknown

/** One row or all rows of a query; statements are prepared once. */
export interface Ask {
  get(text: string, params: Param[]): Row | undefined
  all(text: string, params: Param[]): Row[]
}

/** A column that is written into the text of a query. Its type says which; this refuses what came from a client unchecked. */
export function columnName<T extends string>(name: T): T {
  if (!/^[a-z_]+$/.test(name)) throw new Error(`${JSON.stringify(name)} is no column`)
  return name
}

/** If at most this many rows match, the search starts from the condition, not from the index of the sort order. */
export const FEW = 2_000

/** Rows of each condition that are counted first: the rows of a common condition are not counted beside a rare one. */
const RARE = 32

/** A query without a limit, and its parameters. */
export interface Query {
  sql: string
  params: Param[]
}

/** Returns the query that finds the fewest rows, or null if there is no query, or if each finds more than `most` rows. */
export function fewest({ get }: Ask, queries: readonly Query[], most = FEW): Query | null {
  for (const limit of [RARE, most]) {
    let best: Query | null = null
    let least = limit
    for (const query of queries) {
      const [count] = get(`SELECT count(*) FROM (${query.sql} LIMIT ?)`, [...query.params, least + 1]) as [number]
      if (count > least) continue
      best = query
      least = count
    }
    if (best !== null) return best
  }
  return null
}

/** From this size on, giving a buffer away is cheaper than copying it. */
const LARGE = 65_536

export function give<T extends Row | undefined>(transfer: ArrayBuffer[], row: T): T {
  if (row)
    for (const value of row)
      if (value instanceof Uint8Array && value.length >= LARGE && value.length === value.buffer.byteLength)
        transfer.push(value.buffer as ArrayBuffer)
  return row
}
