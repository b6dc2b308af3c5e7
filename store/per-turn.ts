/** Calls of one turn of the event loop, passed on together (docs/decisions/cluster/010). */
/** Calls that are passed on together. More would delay the first of them, and the server answers in batches of about as many. */
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
