/**
 * Serialises the work of this worker on one thread or record. The compare-and-set alone would be correct, but a hundred
 * callers at once would spend their time losing races (300 parallel cancels took 20 s).
 *
 * Nobody waits here for the timeouts of others: when work fails because the database cannot be used, all work that waits
 * behind it is refused with the same error, and so is what waits for too long. Work that is refused never begins.
 */
import { openSweep } from '../../bus/sweep.js'
import { fail, StoreOutage } from '../../schemas/errors.js'
import { TransientMap } from '../../schemas/transient.js'

/**
 * Does the work when all that was given before it with this key is done, or rejects with `unavailable` when it waits for more
 * than `patience` milliseconds (10,000 when absent). Work must not enter the key that it holds.
 */
export type Serialize = <T>(key: string, work: () => Promise<T>, patience?: number) => Promise<T>

/** The time that a call waits for its answer, unless its caller says otherwise. */
const PATIENCE_MS = 10_000
const SWEEP_MS = 250

interface Waiting {
  until: number
  start(): void
  refuse(error: Error): void
}

export function serializer(): Serialize {
  /** Calls that wait behind the work of a key, oldest first. */
  const lines = new TransientMap<string, Waiting[]>()

  const sweep = openSweep(SWEEP_MS, now => {
    let left = 0
    for (const line of lines.values()) {
      const late = line.filter(({ until }) => until <= now)
      if (late.length > 0) line.splice(0, line.length, ...line.filter(({ until }) => until > now))
      for (const { refuse } of late) refuse(fail('unavailable', TOO_LONG))
      left += line.length
    }
    return left > 0
  })

  const turn = (line: Waiting[], patience: number) =>
    new Promise<void>((start, refuse) => {
      line.push({ until: performance.now() + patience, start, refuse })
      sweep.wake()
    })

  return async (key, work, patience = PATIENCE_MS) => {
    let line = lines.get(key)
    if (line === undefined) lines.set(key, (line = []))
    else await turn(line, patience)
    try {
      return await work()
    } catch (error) {
      if (error instanceof StoreOutage) for (const { refuse } of line.splice(0)) refuse(error)
      throw error
    } finally {
      const next = line.shift()
      if (next === undefined) lines.delete(key)
      else next.start()
    }
  }
}

const TOO_LONG = 'An earlier request to the same thread or record takes too long; repeat this one'
