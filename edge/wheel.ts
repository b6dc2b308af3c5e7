/**
 * Heartbeats on a timer wheel: one timer for all streams, 50 slots to a period, so no tick touches more than about 2 %
 * of them (one loop over 9,000 idle streams blocks the event loop for 400 ms). Without streams it stands still.
 */
import { openSweep } from '../bus/sweep.js'
import { TransientMap, TransientSet } from '../schemas/transient.js'

export const SLOTS = 50

/** A stream that sends a heartbeat when it was idle for one period. */
export interface WheelEntry {
  /** Tick of its last write: it sets this from `wheel.tick`. */
  wroteAt: number
  beat(): void
}

export interface Wheel {
  /** Ticks since the start; a period is SLOTS of them. */
  readonly tick: number
  /** The time of `performance.now()`, as coarse as a tick. */
  readonly now: number
  add(one: WheelEntry): void
  remove(one: WheelEntry): void
  close(): void
}

/** The timer calls `turn`; a test does so itself. */
export class Slots {
  tick = 0
  private readonly slots: TransientSet<WheelEntry>[] = Array.from({ length: SLOTS }, () => new TransientSet())
  private readonly slotOf = new TransientMap<WheelEntry, number>()

  add(one: WheelEntry): void {
    one.wroteAt = this.tick
    this.put(one, this.tick)
  }

  get size(): number {
    return this.slotOf.size
  }

  remove(one: WheelEntry): void {
    const slot = this.slotOf.get(one)
    if (slot === undefined) return
    this.slotOf.delete(one)
    this.slots[slot]!.delete(one)
  }

  /** Moves one slot on: entries that were idle for a whole period beat, the others move behind their last write. */
  turn(): void {
    this.tick++
    const slot = this.tick % SLOTS
    const due = this.slots[slot]!
    for (const one of [...due]) {
      if (this.slotOf.get(one) !== slot) continue
      if (this.tick - one.wroteAt < SLOTS) {
        due.delete(one)
        this.put(one, one.wroteAt)
        continue
      }
      one.wroteAt = this.tick
      one.beat()
    }
  }

  private put(one: WheelEntry, tick: number): void {
    const slot = tick % SLOTS
    this.slotOf.set(one, slot)
    this.slots[slot]!.add(one)
  }
}

/** A wheel that turns once in `period` milliseconds. */
export function openWheel(period: number): Wheel {
  const step = Math.max(10, period / SLOTS)
  const slots = new Slots()
  /** Time that has not become turns yet. */
  let left = 0
  let now = 0
  const sweep = openSweep(step, (at, since) => {
    now = at
    // After a long stall one round is enough: no stream needs two heartbeats at once.
    left = Math.min(left + since, SLOTS * step)
    for (; left >= step; left -= step) slots.turn()
    return slots.size > 0
  })
  return {
    get tick() {
      return slots.tick
    },
    get now() {
      return slots.size > 0 ? now : performance.now()
    },
    add(one) {
      if (slots.size === 0) now = performance.now()
      slots.add(one)
      sweep.wake()
    },
    remove: one => slots.remove(one),
    close: sweep.close,
  }
}
