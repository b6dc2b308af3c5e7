/** The status of a thread (docs/spec/threads.md#status), its next run, and its fields before a run, for a rollback. */
import { jsonText, parseJson } from '../../../schemas/exact.js'
import type { ThreadStatus } from '../../../schemas/threads.js'
import type { RunSummary } from '../../../store/rows/runs.js'
import type { Queued, ThreadRow } from '../../../store/rows/threads.js'

/** Busy while a run is running or waiting, else the status that the last run left. */
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

/**
 * Whose state the thread has once `run` has ended with this newest checkpoint: its own if it has stored one, else it
 * is as before.
 */
export function leftBy(
  { base, graph_id, assistant_id }: RunSummary,
  latest_checkpoint_id: string | null,
): Pick<ThreadRow, 'left_by'> {
  const isItsOwn = base !== null && readBase(base).latest_checkpoint_id !== latest_checkpoint_id
  return isItsOwn ? { left_by: { graph_id, assistant_id } } : {}
}

/** The fields that a rollback restores. */
type Base = Pick<ThreadRow, 'latest_checkpoint_id' | 'settled' | 'interrupts' | 'error'>

export const baseText = ({ latest_checkpoint_id, settled, interrupts, error }: Base): string =>
  jsonText({ latest_checkpoint_id, settled, interrupts, error })

export const readBase = (text: string | null): Base =>
  text === null
    ? { latest_checkpoint_id: null, settled: 'idle', interrupts: '{}', error: null }
    : (parseJson(text) as Base)
