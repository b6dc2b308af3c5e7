/** How long the event loop of a host was held, and by which slot: it is no time of the other runs. */
import { TransientMap } from '../../schemas/transient.js'

/** More than the slots of a host: its code may name any number of others. */
const MAX_SLOTS = 10_000

export interface HeldTime {
  /** The code of `slot` has held the loop for `ms` so far. */
  hold(slot: number, ms: number): void
  /** The loop turns again. */
  free(): void
  /** Milliseconds for which the loop is held now; 0: it turns. */
  now(): number
  /** Milliseconds that other slots have held the loop since the host started. */
  byOthers(slot: number): number
  /** The slot is free. */
  forget(slot: number): void
  /** Slots that are remembered. */
  size(): number
}

export function openHeldTime(): HeldTime {
  const held = new TransientMap<number, number>()
  let total = 0
  let holder = 0
  let holding = 0
  let reported_at = 0

  function add(): void {
    if (holder === 0) return
    total += holding
    held.set(holder, (held.get(holder) ?? 0) + holding)
    if (held.size > MAX_SLOTS) held.delete(held.keys().next().value!)
    holder = 0
    holding = 0
  }

  const now = () => (holder === 0 ? 0 : holding + performance.now() - reported_at)

  return {
    hold(slot, ms) {
      // Another slot, or the same one anew.
      if (slot !== holder || ms < holding) add()
      holder = slot
      holding = ms
      reported_at = performance.now()
    },
    free() {
      // The last report is up to a second old.
      if (holder !== 0) holding += performance.now() - reported_at
      add()
    },
    now,
    byOthers: slot => total - (held.get(slot) ?? 0) + (holder === slot ? 0 : now()),
    forget: slot => void held.delete(slot),
    size: () => held.size,
  }
}
