/**
 * Events that are missing behind the last delivered one: when a replay asks for them again, and when they count as lost.
 */
import { follows, type Replayed } from '../../bus/follow.js'
import type { Backlog } from './backlog.js'
import type { RunEnd } from './run-end.js'

const FIRST_RETRY_MS = 50
const LAST_RETRY_MS = 2_000
/** An event counts as lost after it was missing for this long: supervisors reconnect to a restarted broker, too. */
const GONE_MS = 3_000
/** Time after our own reconnect in which a replay that finds nothing is repeated. */
const RECONNECT_MS = 5_000
/** The same for the last events of an ended run: their supervisor may still be sending them to the stored stream. */
const TAIL_GONE_MS = 10_000

/** `stopped`: the replay was no longer needed. `silent`: the broker did not answer. */
export type Outcome = Replayed | 'stopped' | 'silent'

export class Gap {
  /** An event of the present replay did not follow the one before. */
  hole = false
  /** Replays since the last delivered event. */
  tries = 0
  private since = 0
  private reconnectedAt = -Infinity

  onDelivered(): void {
    this.tries = 0
    this.since = 0
  }

  onReconnect(): void {
    this.reconnectedAt = performance.now()
  }

  /** Milliseconds before the next replay. */
  get pause(): number {
    return this.tries === 0 ? 0 : Math.min(FIRST_RETRY_MS * 2 ** this.tries, LAST_RETRY_MS)
  }

  /** After a replay: whether events behind `sent` have been missing for too long. */
  isLost(sent: number, anchored: boolean, backlog: Backlog, end: RunEnd | null): boolean {
    const limit = this.hole ? GONE_MS : missingFor(sent, anchored, backlog, end)
    if (limit > 0) return performance.now() - (this.since ||= performance.now()) >= limit
    this.since = 0
    return false
  }

  /** The process that stores the events may reconnect to the broker later than we do. */
  isEarly(outcome: Outcome): boolean {
    return outcome === 'gone' && performance.now() - this.reconnectedAt < RECONNECT_MS
  }
}

/** Milliseconds after which an event behind `sent`, known to exist, counts as lost; 0: none is missing. */
function missingFor(sent: number, anchored: boolean, backlog: Backlog, end: RunEnd | null): number {
  const next = backlog.batches[0]
  if (next !== undefined) return next.first > sent && !follows(sent, next.first) ? GONE_MS : 0
  if (backlog.overflowed || !anchored || end === null || end.last === null || sent >= end.last) return 0
  // The last event is an error that no host was alive to write.
  if ((end.error !== null || end.fetchError) && follows(sent, end.last)) return 0
  return TAIL_GONE_MS
}
