/**
 * A cron as it is stored: a record of kind `cron`. Its thread is the parent, its next slot is `due_at` while the cron is
 * enabled.
 */
import { v5 } from 'uuid'
import type { AuthUser } from '../../../schemas/auth/auth.js'
import type { Cron, CronPayload } from '../../../schemas/crons.js'
import { jsonText, parseJson } from '../../../schemas/exact.js'
import { CRON_NAMESPACE } from '../../../schemas/ids.js'
import { type JsonObject, merge, time } from '../../../schemas/json.js'
import type { RecordRow } from '../../../store/rows/records.js'
import type { Step } from '../../../store/steps.js'
import { checkConfig, checkTemplate, metadataText } from '../rows/limits.js'
import type { Timetable } from './slots.js'

export const CRON = 'cron'

/** The body of a cron's record; times in ms. */
export interface CronBody extends Timetable {
  assistant_id: string
  enabled: boolean
  on_run_completed: 'delete' | 'keep' | null
  /** The last computed time, also while the cron is disabled. */
  next: number | null
  payload: CronPayload
  metadata: JsonObject
  user_id: string | null
  /** The caller whose identity its runs have: the last one that changed what it executes. */
  user?: AuthUser | null
  /** The id of the key of that caller, with which it fires; null: the caller had none. Absent in earlier versions. */
  key?: string | null
  /** The headers of that caller, for `config.configurable` of its runs. An earlier version put them into the payload. */
  headers?: { [name: string]: string }
  /** Why it was paused; absent: it is enabled, or a client has disabled it. */
  paused?: string
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

/** Disabled by the server, until a client enables it. */
export const paused = (body: CronBody, why: string): CronBody => ({ ...body, enabled: false, paused: why })

/** Ids of the run of a slot, and of its thread: a repeat is the same run. */
export function idsOf({ id, parent }: Pick<RecordRow, 'id' | 'parent'>, slot: number) {
  const run_id = v5(`${id}:${slot}`, CRON_NAMESPACE)
  return { run_id, thread_id: parent || v5(run_id, CRON_NAMESPACE) }
}

/** Searches narrow by these. */
export const assistantKey = (assistant_id: string): string => `assistant=${assistant_id}`
export const enabledKey = (enabled: boolean): string => `enabled=${enabled}`
/** Crons that fire with a key. */
export const ownerKey = (key_id: string): string => `key=${key_id}`

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
  body: jsonText(body),
  keys: [assistantKey(body.assistant_id), enabledKey(body.enabled), ...(body.key == null ? [] : [ownerKey(body.key)])],
  due_at: body.enabled ? body.next : null,
  created_at: row.created_at,
  updated_at: row.updated_at,
})

/** Replaces the body of a cron; fails when it has changed since `row`. */
export function changeStep(row: RecordRow, changed: CronBody): Step {
  const { body, keys, due_at, updated_at } = rowOf(changed, row)
  const set = { body, keys, due_at, updated_at }
  return { step: 'records.patch', kind: CRON, id: row.id, where: { rev: row.rev }, set }
}

/** Throws `invalid` for what no run may have. Only a client is asked: what the server changes is stored in any case. */
export function checkSize({ firings: _, ...template }: CronBody): void {
  metadataText(template.metadata)
  checkConfig(template.payload)
  checkTemplate('cron', jsonText(template))
}

const timeOrNull = (ms: number | null): string | null => (ms === null ? null : time(ms))

export function cronOf(row: RecordRow): Cron {
  const body = parseJson(row.body) as CronBody
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
    payload: body.headers === undefined ? body.payload : withHeaders(body.payload, body.headers),
    metadata: body.metadata,
    user_id: body.user_id,
    created_at: time(row.created_at),
    updated_at: time(row.updated_at),
    ...(body.paused === undefined ? {} : { paused_reason: body.paused }),
  }
}

/** Headers fill the members that a client did not give, as in the runs themselves. */
function withHeaders(payload: CronPayload, headers: JsonObject): CronPayload {
  const { config } = payload
  return { ...payload, config: { ...config, configurable: merge(headers, config?.configurable) } }
}

/** Removes the crons of a thread; must come before the step that removes the thread. */
export const clearCrons = (thread_id: string): Step => ({ step: 'records.clear', kind: CRON, parent: thread_id })
