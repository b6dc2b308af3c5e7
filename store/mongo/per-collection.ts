/** A value for each collection, made at its first use. */
import type { Collection } from 'mongodb'
import type { Doc } from './documents.js'

export function perCollection<Own>(make: (on: Collection<Doc>) => Own): (on: Collection<Doc>) => Own {
  const made = new WeakMap<Collection<Doc>, Own>()
  return on => {
    let own = made.get(on)
    if (own === undefined) made.set(on, (own = make(on)))
    return own
  }
}
