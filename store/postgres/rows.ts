/** Values of columns on their way into PostgreSQL and back. */
import { exact, plain } from '../columns.js'
import type { Param, Row, Value } from './connection.js'

type Codec = { to: (value: never) => Param; from: (value: Value) => unknown }

const json: Codec = {
  to: (value: unknown) => (value === null ? null : JSON.stringify(value)),
  from: value => (value === null ? null : JSON.parse(value as string)),
}
const text: Codec = { to: (value: string | null) => plain(value), from: value => exact(value as string | null) }

const CODECS: { readonly [column: string]: Codec | undefined } = {
  __proto__: null as never,
  active: json,
  queue: json,
  ttl: json,
  left_by: json,
  keys: json,
  name: text,
  description: text,
  graph_id: text,
}

/** The value of a column as a parameter. */
export function encode(column: string, value: unknown): Param {
  const codec = CODECS[column]
  return codec && value !== undefined ? codec.to(value as never) : (value as Param)
}

/** A row, its columns in this order; null when there is none. */
export function decode<T>(columns: readonly string[], row: Row | undefined): T | null {
  if (!row) return null
  const out: { [column: string]: unknown } = {}
  for (let i = 0; i < columns.length; i++) {
    const column = columns[i]!
    const codec = CODECS[column]
    out[column] = codec ? codec.from(row[i]!) : row[i]
  }
  return out as T
}

export const decodeAll = <T>(columns: readonly string[], rows: readonly Row[]): T[] =>
  rows.map(row => decode<T>(columns, row)!)
