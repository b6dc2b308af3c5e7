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

/** From this size on, giving a buffer away is cheaper than copying it. */
const LARGE = 65_536

export function give<T extends Row | undefined>(transfer: ArrayBuffer[], row: T): T {
  if (row)
    for (const value of row)
      if (value instanceof Uint8Array && value.length >= LARGE && value.length === value.buffer.byteLength)
        transfer.push(value.buffer as ArrayBuffer)
  return row
}
