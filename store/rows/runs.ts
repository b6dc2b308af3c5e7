/** Runs, as the store keeps them. */
import type { MultitaskStrategy, RunMode, RunStatus } from '../../schemas/runs.js'

export interface RunRow {
  app: string
  run_id: string
  thread_id: string
  assistant_id: string
  graph_id: string
  pool: string
  /** `accepting` until the thread row has taken it: invisible to reads. */
  status: RunStatus | 'accepting'
  created_at: number
  updated_at: number
  /** JSON text. */
  metadata: string
  /** JSON text (schemas/runs.ts RunKwargs), up to 64 MB. */
  kwargs: string
  multitask_strategy: MultitaskStrategy
  mode: RunMode
  resumable: boolean
  temporary: boolean
  on_disconnect: 'cancel' | 'continue'
  /** When a delayed run must be woken; 0 after that, and for a run without delay. */
  due_at: number
  attempt: number
  token: string | null
  /** Grows with every heartbeat of the worker that holds the run. */
  heartbeats: number
  worker: string | null
  cancel: 'interrupt' | 'rollback' | null
  cancel_due_at: number | null
  /** The reason of the cancel, as clients see it; null: no cancel was requested. */
  cancel_reason: string | null
  /** When a client joined last whose join may revoke a pending cancel. */
  joined_at: number | null
  started_at: number | null
  ended_at: number | null
  last_event_id: number | null
  /** The stored stream of the run ends before this event, because its byte budget was used up; null: it is complete. */
  resumable_until_id: number | null
  /** JSON text {error, message, at} of a run that failed; null without one. */
  error: string | null
  /** The claim of its thread that began the newest attempt: orders the runs of a thread; null before the first. */
  claim_no: number | null
  /** JSON text (workers/resources/rows/thread-status.ts Base): the thread before its first attempt, for a rollback. */
  base: string | null
  webhook: string | null
  /** When the webhook is tried next; null when there is nothing to deliver. */
  webhook_due_at: number | null
  webhook_tries: number
  /** The record of its Idempotency-Key; removed with a run that is never accepted. */
  idempotency_id: string | null
  /** The answer of wait, for temporary runs only (that of other runs is read from the thread). */
  result: Uint8Array | null
  /** The key that created it, whose limit of pending and running runs counts it; null: none. */
  key_id: string | null
  /** Whose runs share the slots of a pool with those of others (decision 110); null: the order of the work queue counts. */
  tenant: string | null
  /** −5 (first) to 5 (last), among waiting runs of all tenants. */
  priority: number
  /** When it became the first in line of its thread; null before, and without a tenant. */
  ready_at: number | null
  /** The authenticated caller (schemas/auth/auth.ts AuthUser) as JSON text; clients never get it. */
  auth_user: string | null
  /** The span that created it (W3C traceparent); null: not traced. Clients never get it. */
  traceparent: string | null
}

/** A run without its payload. */
export type RunSummary = Omit<RunRow, 'kwargs' | 'result' | 'auth_user' | 'traceparent'>

/** The deliveries of a webhook; `webhook_log` is null until something is kept. */
export type WebhookLog = Pick<RunRow, 'webhook_due_at'> & { webhook_log: string | null }

/** A run that may start, as the choice of the next run needs it. */
export type ReadyRun = Pick<
  RunRow,
  | 'run_id'
  | 'thread_id'
  | 'pool'
  | 'tenant'
  | 'priority'
  | 'created_at'
  | 'graph_id'
  | 'assistant_id'
  | 'key_id'
  | 'started_at'
>

/** How many running runs have these values. */
export type OccupiedSlots = Pick<RunRow, 'tenant' | 'graph_id' | 'assistant_id' | 'key_id'> & { count: number }

/** A running run as its heartbeats change it. */
export type RunningRun = Pick<RunRow, 'run_id' | 'attempt' | 'heartbeats'>

/** The end of a page of runs: its last row. */
export type RunCursor = Pick<RunRow, 'created_at' | 'run_id'>

export interface RunQuery {
  thread_id: string
  /** Absent: of any status. Runs that are accepting are never listed. */
  status?: readonly RunStatus[]
  after?: RunCursor
  skip?: number
  limit: number
}

/** Which runs of an application are searched or counted. Runs that are accepting are never found. */
export interface RunConditions {
  app: string
  status?: readonly RunStatus[]
  graph_id?: string
  assistant_id?: string
  thread_id?: string
  /** The key that created it. */
  key_id?: string
  /** Runs of a stateless route, or runs of threads. */
  temporary?: boolean
  /**
   * Only runs of threads that have all of these keys, or the key `*` (schemas/contains.ts ANY_KEY). A temporary thread has no
   * stored keys: its runs are found in any case.
   */
  thread_keys?: readonly string[]
  /** Created at this time or later. */
  from?: number
  /** Created before this time. */
  until?: number
}

export interface RunSearchQuery extends RunConditions {
  /** By `created_at`; equal times are ordered by id. */
  order: 'asc' | 'desc'
  /** The end of the page before. */
  after?: RunCursor
  limit: number
}

/** One page, in order. It may hold fewer rows than asked for, even none, before the end; the end is `next: null`. */
export interface RunPage {
  rows: RunSummary[]
  next: RunCursor | null
}

export interface RunWhere {
  status?: readonly (RunStatus | 'accepting')[]
  attempt?: number
  token?: string
  heartbeats?: number
  due_at?: number
  /** Null: nothing is to be delivered. */
  webhook_due_at?: number | null
  /** Null: no client has joined. */
  joined_at?: number | null
}
