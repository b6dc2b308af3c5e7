/** Why a run that was accepted earlier may not start now. */
import type { RunRow } from '../../../store/rows/runs.js'
import type { ThreadRow } from '../../../store/rows/threads.js'
import type { Deps } from '../context.js'
import { findValidKey } from '../keys/row.js'
import { REASONS } from './cancel.js'

/** The `cancel_reason` of the run; null: it may start. `thread`: its row, with the run in its queue. */
export async function refusalOf({ store }: Deps, { queue }: ThreadRow, run: RunRow): Promise<string | null> {
  // A delayed run is work for later, as that of a cron: a key that is no longer valid does not begin it.
  const isDelayed = queue.some(({ run_id, due_at }) => run_id === run.run_id && due_at > 0)
  if (isDelayed && run.key_id !== null && (await findValidKey(store, run.key_id)) === null) return REASONS.key
  return null
}
