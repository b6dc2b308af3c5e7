/**
 * Firing crons (API: assistants-crons-store 3.3, 3.4): exactly one run per slot, even if several workers fire. The
 * run comes first, under an id made of cron and slot, so that a repeat is the same run; then a compare-and-set moves
 * the cron to its next slot. Slots that were missed make one run, that of the latest.
 */
import { WeftError } from '../../../schemas/errors.js'
import { time } from '../../../schemas/json.js'
import type { RunCreate } from '../../../schemas/runs.js'
import type { RecordRow } from '../../../store/rows/records.js'
import type { Step } from '../../../store/steps.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { withContext } from '../encryption/context.js'
import { createUnattended } from '../runs/create.js'
import { CRON, type CronBody, type Firing, idsOf, rowOf, withFiring } from './record.js'
import { latestSlot, nextSlot } from './slots.js'

/** A cron that fires later than this marks its run as late. */
const LATE_MS = 60_000

/**
 * Fires a due cron and moves it to its first slot after the start of this call, so that slots that pass meanwhile are
 * missed slots of the next firing. False: another worker was faster. Rejects when it must be retried.
 */
export async function fireCron(deps: Deps, row: RecordRow): Promise<boolean> {
  const body = JSON.parse(row.body) as CronBody
  const now = clock.now()
  if (row.due_at === null || row.due_at > now) return true
  const slot = latestSlot(body, row.due_at, now)
  const ended = body.end !== null && now >= body.end
  const create = () => start(deps, row, body, slot)
  const firing = ended
    ? null
    : await (deps.encryption.isOn() ? withContext(deps.encryption.contextOf(row), create) : create())
  const { id, rev } = row
  const moved = { ...body, next: nextSlot(body, Math.max(slot, now)) }
  const isOrphan = firing === ORPHAN
  const { body: text, due_at } = rowOf(firing === null || isOrphan ? moved : withFiring(moved, firing), row)
  const move: Step = isOrphan
    ? { step: 'records.remove', kind: CRON, id, where: { rev } }
    : { step: 'records.patch', kind: CRON, id, where: { rev }, set: { body: text, due_at } }
  return (await deps.store.apply([move])) === -1
}

/** The thread of the cron was removed. */
const ORPHAN = 'orphan'

/** Creates the run of the slot. A refused run is skipped. */
async function start(deps: Deps, row: RecordRow, body: CronBody, slot: number): Promise<Firing | typeof ORPHAN> {
  const { log } = deps.link
  const { run_id, thread_id } = idsOf(row, slot)
  const late = slot > row.due_at! || slot < clock.now() - LATE_MS
  const attributes = { 'weft.cron_id': row.id, 'weft.run_id': run_id }
  const span = deps.tracer?.start('cron fired', { attributes })
  const fields = { cron_id: row.id, run_id, thread_id, slot: time(slot) }
  const firing: Firing = { slot, at: clock.now(), late, error: null }
  try {
    const made = await createUnattended(deps, templateOf(row.id, body, late ? time(slot) : null), {
      app: row.app,
      run_id,
      thread_id,
      mode: 'background',
      user: body.user ?? null,
      brings: row.parent === '' ? { cron_id: row.id } : null,
      ...(span === undefined ? {} : { traceparent: span.traceparent }),
    })
    if (!made) return firing
    // A span that is not ended is not sent: another worker has made the run, in a trace of its own.
    span?.end()
    log.info({ ...fields, late }, 'cron fired')
  } catch (error) {
    if (!(error instanceof WeftError) || error.code === 'unavailable') throw error
    if (row.parent !== '' && (await deps.store.threads.get(row.app, row.parent)) === null) {
      log.warn(fields, 'cron removed: its thread was removed')
      return ORPHAN
    }
    span?.end(error.message)
    log.warn({ ...fields, reason: error.message }, 'cron skipped: its run was refused')
    firing.error = error.message
  }
  return firing
}

/** The stored template as a create; `late` is the slot when the cron fires late. */
function templateOf(cron_id: string, body: CronBody, late: string | null): RunCreate {
  const { schedule: _, ...payload } = body.payload
  return {
    ...payload,
    metadata: { ...body.metadata, cron_id, ...(late === null ? {} : { cron_late: late }) },
    on_completion: body.on_run_completed ?? 'keep',
  }
}
