/** Brings one cron. Its id cannot be given, so that the metadata name the one it had. */
import type { Cron } from '../../../schemas/crons.js'
import type { Client } from '../client.js'

const MARK = 'imported_cron_id'

export async function bringCron(to: Client, row: Cron): Promise<{ made: string }> {
  const { cron_id, thread_id, assistant_id, schedule, timezone, end_time, enabled, on_run_completed, payload } = row
  // An earlier import may have been stopped before it noted this one.
  const known = await findMade(to, cron_id)
  if (known !== null) return { made: known }
  const body = {
    ...(payload ?? {}),
    schedule,
    assistant_id,
    metadata: { ...row.metadata, ...payload?.metadata, [MARK]: cron_id },
    ...(timezone ? { timezone } : {}),
    ...(end_time ? { end_time } : {}),
    ...(enabled === undefined ? {} : { enabled }),
    ...(thread_id || !on_run_completed ? {} : { on_run_completed }),
  }
  const path = thread_id ? `/threads/${thread_id}/runs/crons` : '/runs/crons'
  // Not repeated by the client: a second one would fire, too.
  const made = await to.ask<{ cron_id: string }>('POST', path, { body })
  return { made: made.cron_id }
}

async function findMade(to: Client, cron_id: string): Promise<string | null> {
  const body = { metadata: { [MARK]: cron_id }, limit: 1 }
  const [found] = await to.ask<{ cron_id: string }[]>('POST', '/runs/crons/search', { body, patient: true })
  return found?.cron_id ?? null
}
