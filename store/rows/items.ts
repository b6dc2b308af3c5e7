/** Items of the store of applications, and their vectors. */
import type { KeyCondition } from '../../schemas/items/keys.js'

/** An item of the store that applications share: a JSON object under a namespace and a key. */
export interface ItemRow {
  app: string
  /** Labels without dots, at least one. */
  namespace: string[]
  key: string
  /** JSON text of an object. */
  value: string
  created_at: number
  updated_at: number
  /** Minutes from its last write or read until it expires; null = never. */
  ttl: number | null
  expires_at: number | null
}

export type ItemKey = Pick<ItemRow, 'namespace' | 'key'>

/** The vectors of an item, which make it found by meaning. */
export interface ItemVectors extends ItemKey {
  updated_at: number
  /** One after the other, as little-endian 32-bit floats. */
  vectors: Uint8Array
}

/** A vector that was found. `score`: the cosine, from -1 to 1. */
export interface NearItem extends ItemKey {
  updated_at: number
  score: number
}

export interface ItemQuery {
  app: string
  /** The first labels; [] = all items. */
  prefix: readonly string[]
  /** The value has a key in a range of each condition (schemas/items/keys.ts), or too many keys to tell. */
  conditions?: readonly KeyCondition[]
  /** Items that have expired at this time are left out. */
  now: number
  /** The last row of the page before. */
  after?: ItemKey & { updated_at: number }
  limit: number
}
