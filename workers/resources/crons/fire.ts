/**
 * Firing crons (docs/spec/crons.md#schedules): exactly one run per slot, even if several workers fire. The
 * run comes first, under an id made of cron and slot, so that a repeat is the same run; then a compare-and-set moves
 * the cron to its next slot. Slots that were missed make one run, that of the latest.
 */
import type { CallHead } from '../../../schemas/calls.js'
import { WeftError } from '../../../schemas/errors.js'
import { parseJson } from '../../../schemas/exact.js'
import { time } from '../../../schemas/json.js'
import type { RunCreate } from '../../../schemas/runs.js'
import type { RecordRow } from '../../../store/rows/records.js'
import type { Step } from '../../../store/steps.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { withContext } from '../encryption/context.js'
import { createUnattended } from '../runs/create.js'
import { CRON, type CronBody, changeStep, type Firing, idsOf, paused, withFiring } from './record.js'
import { type Lost, rightsOf } from './rights.js'
import { latestSlot, nextSlot } from './slots.js'

/** A cron that fires later than this marks its run as late. */
const LATE_MS = 60_000

/**
 * Fires a due cron and moves it to its first slot after the start of this call, so that slots that pass meanwhile are
 * missed slots of the next firing. False: another worker was faster. Rejects when it must be retried.
 */
export async function fireCron(deps: Deps, row: RecordRow): Promise<boolean> {
  const body = parseJson(row.body) as CronBody
  const now = clock.now()
  if (row.due_at === null || row.due_at > now) return true
  const slot = latestSlot(body, row.due_at, now)
  const moved = { ...body, next: nextSlot(body, Math.max(slot, now)) }
  if (body.end !== null && now >= body.end) return isApplied(deps, changeStep(row, moved))
  const rights = await rightsOf(deps, row, body)
  if ('lost' in rights) return pause(deps, row, moved, slot, rights)
  const create = () => start(deps, row, body, slot, rights.key)
  const firing = await (deps.encryption.isOn() ? withContext(deps.encryption.contextOf(row), create) : create())
  const { id, rev } = row
  if (firing === ORPHAN) return isApplied(deps, { step: 'records.remove', kind: CRON, id, where: { rev } })
  const owned = rights.key === undefined ? moved : { ...moved, key: rights.key.id }
  return isApplied(deps, changeStep(row, withFiring(owned, firing)))
}

const isApplied = async ({ store }: Deps, step: Step): Promise<boolean> => (await store.apply([step])) === -1

const isLate = (row: RecordRow, slot: number): boolean => slot > row.due_at! || slot < clock.now() - LATE_MS

/** Its key is no longer valid: no run is created, and none at later times until somebody enables the cron. */
async function pause(
  deps: Deps,
  row: RecordRow,
  moved: CronBody,
  slot: number,
  { key_id, lost }: Lost,
): Promise<boolean> {
  const firing = { slot, at: clock.now(), late: isLate(row, slot), error: lost }
  const isMine = await isApplied(deps, changeStep(row, paused(withFiring({ ...moved, key: key_id }, firing), lost)))
  if (isMine) deps.link.log.warn({ cron_id: row.id, key_id, slot: time(slot), reason: lost }, 'cron paused')
  return isMine
}

/** The thread of the cron was removed. */
const ORPHAN = 'orphan'

/** Creates the run of the slot. A refused run is skipped. */
async function start(
  deps: Deps,
  row: RecordRow,
  body: CronBody,
  slot: number,
  key: CallHead['key'],
): Promise<Firing | typeof ORPHAN> {
  const { log } = deps.link
  const { run_id, thread_id } = idsOf(row, slot)
  const late = isLate(row, slot)
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
      ...(key === undefined ? {} : { key }),
      ...(body.headers === undefined ? {} : { headers: body.headers }),
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
