/** The latest firings of a cron, for clients: kept with the cron by fire.ts. */
import type { CronFiring } from '../../../schemas/crons.js'
import { time } from '../../../schemas/json.js'
import { isTerminal, type RunStatus } from '../../../schemas/runs.js'
import type { Store } from '../../../store/port.js'
import type { RecordRow } from '../../../store/rows/records.js'
import { type CronBody, idsOf } from './record.js'

/** Newest first. */
export async function firingsOf(store: Store, row: RecordRow): Promise<CronFiring[]> {
  const { firings = [] } = JSON.parse(row.body) as CronBody
  const made = firings.map(firing => ({ ...firing, ...idsOf(row, firing.slot) }))
  const runs = await store.runs.summary(made.filter(({ error }) => error === null).map(({ run_id }) => run_id))
  const statuses = new Map(
    // Like other reads of runs: a run without a thread exists until it ends.
    runs
      .filter(({ status, temporary }) => status !== 'accepting' && !(temporary && isTerminal(status)))
      .map(({ run_id, status }) => [run_id, status as RunStatus]),
  )
  return made.reverse().map(({ slot, at, late, error, run_id, thread_id }) => ({
    scheduled_at: time(slot),
    fired_at: time(at),
    late,
    run_id: error === null ? run_id : null,
    thread_id: error === null ? thread_id : null,
    run_status: statuses.get(run_id) ?? null,
    error,
  }))
}
