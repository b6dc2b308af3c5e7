/** The columns of the tables of the adapters that speak SQL, and names of users as their text. */
import type { AssistantRow, AssistantVersionRow } from './rows/assistants.js'
import type { RecordRow } from './rows/records.js'
import type { ReadyRun, RunRow, RunSummary } from './rows/runs.js'
import type { ThreadRow } from './rows/threads.js'

export const ASSISTANT = [
  'app',
  'assistant_id',
  'graph_id',
  'name',
  'description',
  'config',
  'context',
  'metadata',
  'version',
  'created_at',
  'updated_at',
] as const satisfies (keyof AssistantRow)[]

export const ASSISTANT_VERSION = [
  'app',
  'assistant_id',
  'version',
  'graph_id',
  'name',
  'description',
  'config',
  'context',
  'metadata',
  'created_at',
] as const satisfies (keyof AssistantVersionRow)[]

export const THREAD = [
  'app',
  'thread_id',
  'created_at',
  'updated_at',
  'state_updated_at',
  'status',
  'temporary',
  'rev',
  'active',
  'queue',
  'next_position',
  'claim_no',
  'latest_checkpoint_id',
  'metadata',
  'config',
  'settled',
  'interrupts',
  'error',
  'ttl',
  'expires_at',
  'left_by',
] as const satisfies (keyof ThreadRow)[]

/** Columns that most new threads do not use: a plain insert leaves them out. */
export const THREAD_RARE: readonly string[] = ['ttl', 'expires_at', 'left_by']

export const RUN = [
  'app',
  'run_id',
  'thread_id',
  'assistant_id',
  'graph_id',
  'pool',
  'status',
  'created_at',
  'updated_at',
  'multitask_strategy',
  'mode',
  'resumable',
  'temporary',
  'on_disconnect',
  'due_at',
  'attempt',
  'token',
  'heartbeats',
  'worker',
  'cancel',
  'cancel_due_at',
  'joined_at',
  'started_at',
  'ended_at',
  'last_event_id',
  'resumable_until_id',
  'metadata',
  'error',
  'base',
  'webhook',
  'webhook_due_at',
  'webhook_tries',
  'idempotency_id',
  'claim_no',
  'cancel_reason',
  'key_id',
  'tenant',
  'priority',
  'ready_at',
] as const satisfies (keyof RunSummary)[]

/** The columns by which the next run of a pool is chosen. */
export const READY = [
  'run_id',
  'thread_id',
  'pool',
  'tenant',
  'priority',
  'created_at',
  'graph_id',
  'assistant_id',
  'key_id',
  'started_at',
] as const satisfies (keyof ReadyRun)[]

/** The columns that a search compares before it reads a run. */
export const RUN_ENTRY = [
  'app',
  'run_id',
  'thread_id',
  'assistant_id',
  'graph_id',
  'status',
  'created_at',
  'temporary',
  'key_id',
] as const satisfies (keyof RunSummary)[]

export const RECORD = [
  'kind',
  'app',
  'id',
  'parent',
  'name',
  'rev',
  'keys',
  'due_at',
  'created_at',
  'updated_at',
  'body',
] as const satisfies (keyof RecordRow)[]

/** The namespace of an item is stored as `path`. */
export const ITEM = ['app', 'path', 'key', 'value', 'created_at', 'updated_at', 'ttl', 'expires_at'] as const

/** The columns of a run that are in the table `payloads`. */
export const PAYLOAD = ['kwargs', 'result', 'auth_user', 'traceparent'] as const satisfies (keyof RunRow)[]

/** Text that a column cannot hold: libsql reads up to the first NUL, PostgreSQL refuses it, and UTF-8 has no lone surrogates. */
const NOT_PLAIN = /^"|\0|[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/

/** A name of the user's choice as text of a column: itself, or, where text cannot carry it, as a JSON string. */
export function plain<T extends string | null>(value: T): T {
  return value !== null && NOT_PLAIN.test(value) ? (JSON.stringify(value) as T) : value
}

/** The name that `plain` was given. */
export function exact<T extends string | null>(value: T): T {
  return value?.startsWith('"') ? JSON.parse(value) : value
}

/** The labels, each followed by a dot: `a.b.` begins the paths of all namespaces at or below `a`, `b`. */
export const pathOf = (namespace: readonly string[]): string => namespace.map(label => `${label}.`).join('')
export const labelsOfPath = (path: string): string[] => path.slice(0, -1).split('.')
