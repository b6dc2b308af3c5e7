/**
 * Starts runs that arrive together a few per turn of the event loop. Runs that start in one turn take every step
 * together and end together: the host and its supervisor then work alternately, each waiting for the other, instead of
 * at the same time (docs/performance.md).
 */

import { TransientMap } from '../../../schemas/transient.js'
import type { Frame } from '../../pipe.js'

/** A smaller number costs more turns than it saves; a large number makes the runs move together again. */
const PER_TURN = 4

export interface Admission {
  /** Starts the work soon, in the order of arrival. */
  add(start: Frame): void
  /** The lease of a run that is still queued was confirmed at this time. False: it is not queued. */
  confirm(slot: number, at: number): boolean
  /** Starts the work now if it is still queued, because something else addresses its slot. */
  expedite(slot: number): void
}

export function openAdmission(begin: (start: Frame) => void): Admission {
  const waiting = new TransientMap<number, Frame>()

  function take(start: Frame): void {
    waiting.delete(start.slot)
    begin(start)
  }

  function turn(): void {
    let left = PER_TURN
    for (const start of waiting.values()) {
      if (left-- === 0) break
      take(start)
    }
    if (waiting.size > 0) setImmediate(turn)
  }

  return {
    add(start) {
      if (waiting.size === 0) setImmediate(turn)
      waiting.set(start.slot, start)
    },
    confirm(slot, at) {
      const start = waiting.get(slot)
      if (start === undefined) return false
      start.id = Math.max(start.id, at)
      return true
    },
    expedite(slot) {
      const start = waiting.get(slot)
      if (start !== undefined) take(start)
    },
  }
}
