/** The status of a thread after something happened to its runs (API: threads-and-runs 4). */
import type { ThreadStatus } from '../schemas/threads.js'
import type { Queued, ThreadRow } from '../store/port.js'

/** Busy while anything runs or waits, else what the last settled run left. */
export function restingStatus(thread: Pick<ThreadRow, 'active' | 'queue' | 'error' | 'interrupts' | 'status'>): ThreadStatus {
  if (thread.active !== null || thread.queue.length > 0) return 'busy'
  if (thread.error !== null) return 'error'
  return thread.interrupts !== '{}' || thread.status === 'interrupted' ? 'interrupted' : 'idle'
}

/** The first run that may start: due first, then in order of acceptance. Null when none is due. */
export function firstEligible(queue: readonly Queued[], now: number): Queued | null {
  let best: Queued | null = null
  for (const one of queue) {
    if (one.due_at > now) continue
    if (best === null || one.due_at < best.due_at || (one.due_at === best.due_at && one.no < best.no)) best = one
  }
  return best
}
