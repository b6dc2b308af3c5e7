/**
 * The time of the cluster, which is the broker's. One resource worker writes when a run, a cron or an expiry is due and
 * another one compares: with a clock that is ten minutes off it would start delayed runs early, or late. So the offset to the
 * broker is subtracted once it exceeds the measuring error.
 */
import { clockAhead } from '../../bus/clock.js'
import type { Mux } from '../../bus/mux.js'

/** A smaller difference may be that of the network. */
export const MAX_OFF_MS = 2_000

/** The offset of the machine: workers in one process share it. */
let off = 0

export const clock = {
  /** Milliseconds since 1970. */
  now: (): number => Date.now() - off,
}

/** Asks the broker. Resolves to how far the clock of this machine is ahead (ms), null when the broker does not answer. */
export async function compareClock(mux: Mux): Promise<number | null> {
  const ahead = await clockAhead(mux)
  if (ahead !== null) off = Math.abs(ahead) > MAX_OFF_MS ? Math.round(ahead) : 0
  return ahead
}
