/**
 * Heartbeats on a timer wheel: one timer for all streams, 50 slots to a period, so no tick touches more than about 2 %
 * of them (one loop over 9,000 idle streams blocks the event loop for 400 ms).
 */
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
  /** Milliseconds since the epoch, as coarse as a tick. */
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
  const started = performance.now()
  let now = started
  let turned = 0
  const timer = setInterval(() => {
    now = performance.now()
    const due = Math.floor((now - started) / step)
    // After a long stall one round is enough: no stream needs two heartbeats at once.
    if (due - turned > SLOTS) turned = due - SLOTS
    for (; turned < due; turned++) slots.turn()
  }, step)
  timer.unref()
  return {
    get tick() {
      return slots.tick
    },
    get now() {
      return now
    },
    add: one => slots.add(one),
    remove: one => slots.remove(one),
    close: () => clearInterval(timer),
  }
}
