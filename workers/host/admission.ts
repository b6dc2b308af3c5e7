/**
 * Runs that come together start a few in each turn of the event loop. Started at once, they would take every step
 * together and end together, so that the host and the supervisor in front of it worked by turns, each waiting for the
 * other, instead of at the same time (docs/performance.md).
 */
import type { Frame } from '../pipe.js'

/** Fewer cost more turns than they gain; many are a crowd again. */
const PER_TURN = 4

export interface Admission {
  /** Begins it soon, in the order of coming. */
  add(start: Frame): void
  /** Begins it now, if it still waits: something else is asked of its slot. */
  hurry(slot: number): void
}

export function openAdmission(begin: (start: Frame) => void): Admission {
  const waiting = new Map<number, Frame>()

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
    hurry(slot) {
      const start = waiting.get(slot)
      if (start !== undefined) take(start)
    },
  }
}
