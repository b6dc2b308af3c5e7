/** The status of a thread (API: threads-and-runs 4), whose turn it is, and the thread as a run found it. */
import type { ThreadStatus } from '../../../schemas/threads.js'
import type { Queued, ThreadRow } from '../../../store/port.js'

/** Busy while anything runs or waits, else what the last run that ended left. */
export const statusOf = ({ active, queue, settled }: Pick<ThreadRow, 'active' | 'queue' | 'settled'>): ThreadStatus =>
  active !== null || queue.length > 0 ? 'busy' : settled

/** The first run that may start: due first, then in order of acceptance. Null when none is due. */
export function firstEligible(queue: readonly Queued[], now: number): Queued | null {
  let best: Queued | null = null
  for (const one of queue) {
    if (one.due_at > now) continue
    if (best === null || one.due_at < best.due_at || (one.due_at === best.due_at && one.position < best.position))
      best = one
  }
  return best
}

/** What a rollback goes back to. */
export type Base = Pick<ThreadRow, 'latest_checkpoint_id' | 'settled' | 'interrupts' | 'error'>

export const baseText = ({ latest_checkpoint_id, settled, interrupts, error }: Base): string =>
  JSON.stringify({ latest_checkpoint_id, settled, interrupts, error })

export const readBase = (text: string | null): Base =>
  text === null
    ? { latest_checkpoint_id: null, settled: 'idle', interrupts: '{}', error: null }
    : (JSON.parse(text) as Base)
