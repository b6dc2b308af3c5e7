/** The calls of a store whose database is elsewhere: what cannot be used now is one error, and is logged once. */
import { StoreOutage } from '../schemas/errors.js'
import { TransientSet } from '../schemas/transient.js'

export interface StoreLog {
  info(data: object, message: string): void
  warn(data: object, message: string): void
}

/** Calls may fail and succeed beside each other: the outage is over when none has failed for this long. */
const CALM_MS = 1_000

export interface Calls {
  /** Rejects with `unavailable` when the database cannot be used, or after `close`. */
  call<Answer>(work: () => Promise<Answer>): Promise<Answer>
  /** Takes no further calls, waits for those that were taken, then closes; once. */
  close(end: () => Promise<void>): Promise<void>
}

export function openCalls(isOutage: (error: unknown) => boolean, log?: StoreLog): Calls {
  const underWay = new TransientSet<Promise<unknown>>()
  let closed: Promise<void> | null = null
  /** Time of the last failure; null: the database can be used. */
  let failedAt: number | null = null

  return {
    async call(work) {
      if (closed) throw new StoreOutage('The store is closed')
      const answer = work()
      underWay.add(answer)
      try {
        const value = await answer
        if (failedAt !== null && performance.now() - failedAt > CALM_MS) {
          failedAt = null
          log?.info({}, 'the database can be used again')
        }
        return value
      } catch (error) {
        if (!isOutage(error)) throw error
        if (failedAt === null) log?.warn({ err: error }, 'the database cannot be used')
        failedAt = performance.now()
        throw new StoreOutage('The database cannot be used at the moment')
      } finally {
        underWay.delete(answer)
      }
    },
    close(end) {
      closed ??= Promise.allSettled(underWay).then(end)
      return closed
    },
  }
}
