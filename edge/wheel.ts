/**
 * Heartbeats on a timer wheel: one timer for all streams, 50 slots to a period, so no tick touches more than about 2 %
 * of them (one loop over 9,000 idle streams blocks the event loop for 400 ms).
 */
export const SLOTS = 50

/** Something that wants a beat when it has been idle for one period. */
export interface Beating {
  /** Tick of its last write: it sets this from `wheel.tick`. */
  wroteAt: number
  beat(): void
}

export interface Wheel {
  /** Ticks since the start; a period is SLOTS of them. */
  readonly tick: number
  /** Milliseconds since the epoch, as coarse as a tick. */
  readonly now: number
  add(one: Beating): void
  remove(one: Beating): void
  close(): void
}

/** `advance` is called by the timer; a test calls `turn` by hand. */
export class Slots {
  tick = 0
  private readonly slots: Set<Beating>[] = Array.from({ length: SLOTS }, () => new Set())
  private readonly places = new Map<Beating, number>()

  add(one: Beating): void {
    one.wroteAt = this.tick
    this.put(one, this.tick)
  }

  remove(one: Beating): void {
    const place = this.places.get(one)
    if (place === undefined) return
    this.places.delete(one)
    this.slots[place]!.delete(one)
  }

  /** One slot further: who was idle for a whole period beats, the others move behind their last write. */
  turn(): void {
    this.tick++
    const place = this.tick % SLOTS
    const due = this.slots[place]!
    for (const one of [...due]) {
      if (this.places.get(one) !== place) continue
      if (this.tick - one.wroteAt < SLOTS) {
        due.delete(one)
        this.put(one, one.wroteAt)
        continue
      }
      one.wroteAt = this.tick
      one.beat()
    }
  }

  private put(one: Beating, tick: number): void {
    const place = tick % SLOTS
    this.places.set(one, place)
    this.slots[place]!.add(one)
  }
}

/** A wheel that turns once in `period` milliseconds. */
export function openWheel(period: number): Wheel {
  const step = Math.max(10, period / SLOTS)
  const slots = new Slots()
  const started = Date.now()
  let now = started
  let turned = 0
  const timer = setInterval(() => {
    now = Date.now()
    const due = Math.floor((now - started) / step)
    // After a long stall one round is enough: nobody needs two heartbeats at once.
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
