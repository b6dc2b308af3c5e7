/**
 * A rate as one number for each tenant (the generic cell rate algorithm, decision 116): the time until which its starts count.
 * A start moves it by one interval; a run may start while it is less than `burst` intervals away. It is in whole
 * microseconds, so that sums of intervals are exact; a start within a millisecond is as late in it as the rate needs.
 */
import type { Rate } from '../../../schemas/auth/scheduling.js'

export interface Pace {
  /** Between two starts. */
  interval: number
  /** How far ahead the starts may count when one more begins. */
  slack: number
}

const UNITS: { [unit: string]: number } = { s: 1_000_000, m: 60_000_000, h: 3_600_000_000 }
const MS = 1_000

/** Rounded up: never more than `max` start. */
export function paceOf({ max, per, burst = 1 }: Rate): Pace {
  const interval = Math.ceil((Number(per.slice(0, -1)) * UNITS[per.at(-1)!]!) / max)
  return { interval, slack: (burst - 1) * interval }
}

/** The first millisecond in which a run may start. */
export const freeAt = ({ slack }: Pace, until: number): number => Math.floor((until - slack) / MS)

/** How many runs may start at `now` (ms). */
export function startsAt({ interval, slack }: Pace, until: number, now: number): number {
  const left = (now + 1) * MS - 1 + slack - Math.max(until, now * MS)
  return left < 0 ? 0 : Math.floor(left / interval) + 1
}

/** Until when the starts count after one at `now` (ms). */
export const afterStart = ({ interval }: Pace, until: number, now: number): number =>
  Math.max(until, now * MS) + interval

/** The first millisecond in which none counts any more. */
export const restsAt = (until: number): number => Math.ceil(until / MS)
