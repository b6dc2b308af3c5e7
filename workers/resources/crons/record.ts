/**
 * A cron as it is stored: a record of kind `cron`. Its thread is the parent, its next slot is `due_at` while the cron is
 * enabled.
 */
import { v5 } from 'uuid'
import type { AuthUser } from '../../../schemas/auth/auth.js'
import type { Cron, CronPayload } from '../../../schemas/crons.js'
import { CRON_NAMESPACE } from '../../../schemas/ids.js'
import { type JsonObject, time } from '../../../schemas/json.js'
import type { RecordRow } from '../../../store/rows/records.js'
import type { Step } from '../../../store/steps.js'
import { checkTemplate, metadataText } from '../rows/limits.js'
import type { Timetable } from './slots.js'

export const CRON = 'cron'

/** The body of a cron's record; times in ms. */
export interface CronBody extends Timetable {
  assistant_id: string
  enabled: boolean
  on_run_completed: 'delete' | 'keep' | null
  /** As it was last computed, also while the cron is disabled. */
  next: number | null
  payload: CronPayload
  metadata: JsonObject
  user_id: string | null
  /** The authenticated creator, whose identity its runs have. */
  user?: AuthUser | null
  /** The latest, oldest first; absent before the first. */
  firings?: Firing[]
}

/** A slot that was used. Its run has an id made of cron and slot. Times in ms. */
export interface Firing {
  slot: number
  at: number
  late: boolean
  /** Why the run was refused; null: it was created. */
  error: string | null
}

/** Firings of a cron that are kept, and characters of an error. */
const KEPT = 20
const MAX_ERROR = 300

export const withFiring = (body: CronBody, { error, ...firing }: Firing): CronBody => ({
  ...body,
  firings: [...(body.firings ?? []), { ...firing, error: error?.slice(0, MAX_ERROR) ?? null }].slice(-KEPT),
})

/** Ids of the run of a slot, and of its thread: a repeat is the same run. */
export function idsOf({ id, parent }: Pick<RecordRow, 'id' | 'parent'>, slot: number) {
  const run_id = v5(`${id}:${slot}`, CRON_NAMESPACE)
  return { run_id, thread_id: parent || v5(run_id, CRON_NAMESPACE) }
}

/** Searches narrow by these. */
export const assistantKey = (assistant_id: string): string => `assistant=${assistant_id}`
export const enabledKey = (enabled: boolean): string => `enabled=${enabled}`

export const rowOf = (
  body: CronBody,
  row: Pick<RecordRow, 'app' | 'id' | 'parent' | 'created_at' | 'updated_at'> & { rev?: number },
): RecordRow => ({
  kind: CRON,
  app: row.app,
  id: row.id,
  parent: row.parent,
  name: null,
  rev: row.rev ?? 0,
  body: bodyText(body),
  keys: [assistantKey(body.assistant_id), enabledKey(body.enabled)],
  due_at: body.enabled ? body.next : null,
  created_at: row.created_at,
  updated_at: row.updated_at,
})

function bodyText(body: CronBody): string {
  metadataText(body.metadata)
  const { firings, ...template } = body
  checkTemplate('cron', JSON.stringify(template))
  return JSON.stringify(body)
}

const timeOrNull = (ms: number | null): string | null => (ms === null ? null : time(ms))

export function cronOf(row: RecordRow): Cron {
  const body = JSON.parse(row.body) as CronBody
  return {
    cron_id: row.id,
    assistant_id: body.assistant_id,
    thread_id: row.parent || null,
    schedule: body.schedule,
    timezone: body.timezone,
    end_time: timeOrNull(body.end),
    next_run_date: timeOrNull(body.next),
    enabled: body.enabled,
    on_run_completed: body.on_run_completed,
    payload: body.payload,
    metadata: body.metadata,
    user_id: body.user_id,
    created_at: time(row.created_at),
    updated_at: time(row.updated_at),
  }
}

/** Removes the crons of a thread; must come before the step that removes the thread. */
export const clearCrons = (thread_id: string): Step => ({ step: 'records.clear', kind: CRON, parent: thread_id })
