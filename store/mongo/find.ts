/** Shared by all queries: documents become rows, and cursors of a list become conditions. */
import type { Filter, FindOptions } from 'mongodb'
import type { CollectionName, Collections } from './collections.js'
import type { Doc } from './documents.js'
import { findById } from './grouped-reads.js'
import { load } from './parts.js'

export interface Find {
  /** By id. `options`: a constant (groups.ts). */
  one<Row>(on: CollectionName, _id: string, options?: FindOptions): Promise<Row | null>
  /** All that a query finds. */
  rows<Row>(on: CollectionName, filter: Filter<Doc>, options?: FindOptions): Promise<Row[]>
}

export const finder = (all: Collections): Find => ({
  async one<Row>(on: CollectionName, _id: string, options?: FindOptions) {
    const find = () => findById(all[on], _id, options)
    return load<Row>(all, await find(), find)
  },
  async rows<Row>(on: CollectionName, filter: Filter<Doc>, options: FindOptions = {}) {
    const { projection } = options
    const found: Row[] = []
    for (const doc of await all[on].find(filter, options).toArray()) {
      const row = await load<Row>(all, doc, () => all[on].findOne({ _id: doc._id }, projection ? { projection } : {}))
      if (row !== null) found.push(row)
    }
    return found
  },
})

/** After a place in the order of a column and an id. The bound of the column lets its index begin there. */
export const beyond = (
  way: '$gt' | '$lt',
  column: string,
  value: string | number,
  id_column: string,
  id: string,
): Filter<Doc> =>
  column === id_column
    ? { [column]: { [way]: id } }
    : { [column]: { [`${way}e`]: value }, $or: [{ [column]: { [way]: value } }, { [id_column]: { [way]: id } }] }

/** Has all of these keys, or the one that matches every key. */
export const keyed = (column: string, keys: readonly string[]): Filter<Doc>[] =>
  keys.map(key => ({ [column]: { $in: [key, '*'] } }))

/** Ids per query: thousands of ids would make a large message. */
const AT_ONCE = 1_000

export function* chunks<T>(all: readonly T[]): Generator<T[]> {
  for (let at = 0; at < all.length; at += AT_ONCE) yield all.slice(at, at + AT_ONCE)
}
