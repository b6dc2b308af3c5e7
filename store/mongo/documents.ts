/**
 * Rows as documents. A column is a field of the same name; fields of the adapter alone begin with `_`. User JSON stays
 * text, names of the user's choice are values and never field names, so nothing a user writes is read as an operator
 * or a path.
 */
import type { Document } from 'mongodb'

/** A document of ours: its id is a string made by `key`, or an id that we made. */
export interface Doc extends Document {
  _id: string
}

/** The id of a document with several key columns: no two lists of parts have the same text. */
export const key = (...parts: (string | number)[]): string => JSON.stringify(parts)

/** BSON text is UTF-8 and has no lone surrogates: text that has some, or looks like this, is kept as a JSON string. */
const ODD = '\uffff'

export const plain = (text: string): string =>
  !text.isWellFormed() || text.startsWith(ODD) ? ODD + JSON.stringify(text) : text

export const exact = (text: string): string => (text.startsWith(`${ODD}"`) ? JSON.parse(text.slice(1)) : text)

/** The fields of a row or of a part of one. Absent values are left out. Throws a TypeError on a name that is a path. */
export function fields(row: object): { [field: string]: unknown } {
  const out: { [field: string]: unknown } = {}
  for (const [name, value] of Object.entries(row)) {
    if (value === undefined) continue
    if (!/^[a-z][a-z_]*$/.test(name)) throw new TypeError(`"${name}" is not the name of a column`)
    if (typeof value === 'function' || typeof value === 'symbol') throw new TypeError(`${name} holds no data`)
    out[name] = typeof value === 'string' ? plain(value) : value
  }
  return out
}

/** The row of a document. `parts` are the values that were not kept in it (parts.ts). */
export function row<Row>(doc: Document, parts?: { [field: string]: unknown }): Row {
  const out: { [field: string]: unknown } = {}
  for (const [name, value] of Object.entries(doc))
    if (!name.startsWith('_')) out[name] = typeof value === 'string' ? exact(value) : value
  return Object.assign(out, parts) as Row
}

/** True when an insert was refused because the id, or a unique value, exists already. */
export const isTaken = (error: unknown): boolean => (error as { code?: unknown } | null)?.code === 11000
