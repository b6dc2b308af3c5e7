/** Calls of one turn of the event loop, passed on together (docs/decisions/cluster/010). */
import type { Collection } from 'mongodb'
import type { Doc } from './documents.js'

/** Documents of one command. More would delay the first of them, and the server answers in batches of about as many. */
const MOST = 64

export interface Call<In, Out> {
  of: In
  done(out: Out): void
  failed(error: unknown): void
}

/** Passes the calls of a turn on together. A rejection of `send` is that of all calls that have no answer yet. */
export function perTurn<In, Out>(send: (calls: readonly Call<In, Out>[]) => Promise<void>): (of: In) => Promise<Out> {
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

/** What belongs to a collection, made at its first use. */
export function perCollection<Own>(make: (on: Collection<Doc>) => Own): (on: Collection<Doc>) => Own {
  const made = new WeakMap<Collection<Doc>, Own>()
  return on => {
    let own = made.get(on)
    if (own === undefined) made.set(on, (own = make(on)))
    return own
  }
}
