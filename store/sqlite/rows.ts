/** Rows as the tables hold them: the columns of each table, and the way of a value there and back. */
import type { AssistantRow, AssistantVersionRow } from '../rows/assistants.js'
import type { RecordRow } from '../rows/records.js'
import type { RunRow, RunSummary } from '../rows/runs.js'
import type { ThreadRow } from '../rows/threads.js'
import type { Param, Row } from './database.js'

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

type Codec = { to: (value: never) => Param; from: (value: Param) => unknown }

const flag: Codec = { to: (value: boolean) => (value ? 1 : 0), from: value => value === 1 }
const json: Codec = {
  to: (value: unknown) => (value === null ? null : JSON.stringify(value)),
  from: value => (value === null ? null : JSON.parse(value as string)),
}
const text: Codec = { to: (value: string | null) => plain(value), from: value => exact(value as string | null) }

const CODECS: { readonly [column: string]: Codec | undefined } = {
  __proto__: null as never,
  temporary: flag,
  resumable: flag,
  active: json,
  queue: json,
  ttl: json,
  left_by: json,
  keys: json,
  name: text,
  description: text,
  graph_id: text,
}

/** The value of a column as a parameter. */
export function encode(column: string, value: unknown): Param {
  const codec = CODECS[column]
  return codec && value !== undefined ? codec.to(value as never) : (value as Param)
}

/** The row of a raw result, its columns in this order; null when there is none. */
export function decode<T>(columns: readonly string[], row: Row | undefined | null): T | null {
  if (!row) return null
  const out: { [column: string]: unknown } = {}
  for (let i = 0; i < columns.length; i++) {
    const column = columns[i]!
    const codec = CODECS[column]
    out[column] = codec ? codec.from(row[i]!) : row[i]
  }
  return out as T
}

/** Text that SQLite cannot store: libsql reads up to the first NUL, and UTF-8 has no lone surrogates. */
const NOT_PLAIN = /^"|\0|[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/

/** A name of the user's choice as SQLite text: itself, or, where text cannot carry it, as a JSON string. */
export function plain<T extends string | null>(value: T): T {
  return value !== null && NOT_PLAIN.test(value) ? (JSON.stringify(value) as T) : value
}

/** The name that `plain` was given. */
export function exact<T extends string | null>(value: T): T {
  return value?.startsWith('"') ? JSON.parse(value) : value
}
