/** Runs on the wire (docs/spec/runs.md#payload). */
import typia, { type tags } from 'typia'
import type { Checkpoint } from './checkpoints.js'
import type { Config, Json, JsonObject, Uuid } from './json.js'

export type RunStatus = 'pending' | 'running' | 'error' | 'success' | 'timeout' | 'interrupted'
export const TERMINAL: readonly RunStatus[] = ['error', 'success', 'timeout', 'interrupted']
export const isTerminal = (status: string): boolean => (TERMINAL as readonly string[]).includes(status)

export type StreamMode =
  | 'values'
  | 'messages'
  | 'messages-tuple'
  | 'tasks'
  | 'checkpoints'
  | 'updates'
  | 'events'
  | 'debug'
  | 'custom'
  | 'tools'
  | 'lifecycle'
export type Durability = 'sync' | 'async' | 'exit'
export type MultitaskStrategy = 'reject' | 'rollback' | 'interrupt' | 'enqueue'
type OnDisconnect = 'cancel' | 'continue'

export interface Send {
  node: string
  input?: Json
}

export interface Command {
  update?: JsonObject | [string, Json][] | null
  resume?: Json
  goto?: string | Send | (string | Send)[] | null
}

export interface RunCreate {
  assistant_id: string
  input?: Json
  command?: Command | null
  metadata?: JsonObject | null
  config?: Config | null
  context?: JsonObject | null
  checkpoint?: Checkpoint | null
  checkpoint_id?: string | null
  interrupt_before?: '*' | string[] | null
  interrupt_after?: '*' | string[] | null
  stream_mode?: StreamMode | StreamMode[] | null
  stream_subgraphs?: boolean | null
  stream_resumable?: boolean | null
  feedback_keys?: string[] | null
  webhook?: (string & tags.MinLength<1> & tags.MaxLength<65536>) | null
  multitask_strategy?: MultitaskStrategy | null
  if_not_exists?: 'create' | 'reject' | null
  on_disconnect?: OnDisconnect | null
  /** The SDK's own type also says complete and continue (docs/spec/runs.md#payload): both keep. */
  on_completion?: 'delete' | 'keep' | 'complete' | 'continue' | null
  after_seconds?: (number & tags.Minimum<0>) | null
  durability?: Durability | null
  checkpoint_during?: boolean | null
  /** The run fails with UnknownInterruptError when `command.resume` answers no interrupt that waits. */
  strict_resume?: boolean | null
  langsmith_tracer?: JsonObject | null
}

/** docs/spec/runs.md#routes: stateless payloads; what else an element has, such as a thread_id, is ignored. */
export type RunBatch = RunCreate[] & tags.MinItems<1> & tags.MaxItems<1000>

/** docs/spec/runs.md#cancel: either `status`, or `thread_id` with `run_ids`. */
export interface RunsCancel {
  status?: 'pending' | 'running' | 'all' | null
  thread_id?: Uuid | null
  run_ids?: (Uuid[] & tags.MinItems<1> & tags.MaxItems<10000>) | null
}

/** Which runs are searched or counted. */
export interface RunFilter {
  status?: RunStatus | RunStatus[] | null
  graph_id?: string | null
  /** A UUID, or the id of a graph: its own assistant. */
  assistant_id?: string | null
  thread_id?: Uuid | null
  /** The key that created it. */
  key_id?: string | null
  /** False: only runs of stateless routes. */
  with_thread?: boolean | null
  /** At this time or later. */
  created_after?: (string & tags.Format<'date-time'>) | null
  /** Before this time. */
  created_before?: (string & tags.Format<'date-time'>) | null
  metadata?: JsonObject | null
  /** A part of the name or the message of its error, in any case. */
  text?: (string & tags.MaxLength<1000>) | null
}

export interface RunSearch extends RunFilter {
  limit?: (number & tags.Type<'uint32'> & tags.Minimum<1> & tags.Maximum<1000>) | null
  /** The header X-Pagination-Next of the page before. */
  cursor?: (string & tags.Pattern<'^[0-9]{1,15}_[0-9a-f-]{36}$'>) | null
  /** By `created_at`. */
  sort_order?: 'asc' | 'desc' | null
  select?: (typeof RUN_FIELDS)[number][] | null
}

export interface Run {
  run_id: string
  thread_id: string
  assistant_id: string
  created_at: string
  updated_at: string
  status: RunStatus
  metadata: JsonObject
  kwargs: JsonObject
  multitask_strategy: MultitaskStrategy
  /** A word, a colon and a sentence; null before a cancel was requested. */
  cancel_reason: string | null
  /** Why it failed; absent otherwise. */
  error?: { error: string; message: string; at?: ErrorPlace }
}

/** The innermost frame of an error in the folder of the application. */
export interface ErrorPlace {
  /** Relative to the folder of langgraph.json, with `/`. */
  file: string & tags.MaxLength<1024>
  line: number & tags.Type<'uint32'>
  /** Null: code outside of functions, or without a name. */
  function: (string & tags.MaxLength<256>) | null
}

/** Answer of `/runs/{id}/execution`: where and when a run executed, as far as it is kept. */
export interface RunExecution {
  run_id: string
  /** 0: it has not begun. */
  attempt: number & tags.Type<'uint32'>
  pool: string
  /** The graph worker of the newest attempt. Null: it has not begun, or the caller sees only some threads. */
  worker: string | null
  /** ISO 8601: the begin of the first attempt. */
  started_at: string | null
  ended_at: string | null
  /** Null: the run is not traced. */
  trace_id: string | null
  /** Null: it does not wait. */
  waits_for: RunWait | null
}

/** Why a pending run has not begun. */
export interface RunWait {
  /**
   * time: it was created to start later; thread: an earlier run of its thread; worker: no graph worker of its pool has
   * announced itself; limit: as many runs execute as a limit allows; rate: as many runs of its tenant have started as its
   * rate allows; slot: a free slot.
   */
  reason: 'time' | 'thread' | 'worker' | 'limit' | 'rate' | 'slot'
  /** ISO 8601: its time; with a rate, when the next run of its tenant may start. */
  until?: string
  /** The run of its thread that it follows. */
  run_id?: string
  /** The kind of run that the limit counts. */
  of?: LimitKind
  /** How many of these execute, and how many may. Absent for a caller who sees only some threads. */
  running?: number
  most?: number
}

export type LimitKind = 'tenant' | 'graph' | 'assistant' | 'key'

/** How the run was asked for; `events`: by a command of protocol v2. */
export type RunMode = 'stream' | 'wait' | 'background' | 'events'

/**
 * The stored execution request (`kwargs` of a run): already merged with the assistant, so a claim resolves nothing.
 * `command.resume` keeps the difference between absent and null.
 */
export interface RunKwargs {
  input: Json
  command: Command | null
  /** Absent: false. */
  strict_resume?: boolean
  config: JsonObject
  context: Json
  stream_mode: StreamMode[]
  stream_subgraphs: boolean
  resumable: boolean
  durability: Durability
  temporary: boolean
  feedback_keys: string[] | null
  interrupt_before: '*' | string[] | null
  interrupt_after: '*' | string[] | null
  webhook: string | null
}

/** The facts that the edge needs to stream a run: in the head of an answer, never in its body. */
export interface RunView {
  run_id: string
  thread_id: string
  /** Made by a stateless route: its URLs are /runs/{id}. */
  stateless: boolean
  /** The pool that executes it, or in which it waits. */
  pool: string
  resumable: boolean
  on_disconnect: OnDisconnect
  status: RunStatus
  attempt: number
  /** Id of the last event, once terminal. */
  last_event_id: number | null
  /** Events from this id on are not stored; null: all are. */
  resumable_until_id: number | null
  /** When a client joined last, where that may decide whether the run is cancelled. */
  joined_at: number | null
  /** Join without Last-Event-ID: replay everything kept, or begin with what comes (docs/spec/streams.md#join). */
  from: 'start' | 'live'
  stream_mode: StreamMode[]
  /** ms since 1970. */
  created_at: number
  /** Once terminal, the time of its end. */
  updated_at: number
}

/** Members of a run that a client can select (docs/spec/runs.md#routes). */
export const RUN_FIELDS = [
  'run_id',
  'thread_id',
  'assistant_id',
  'created_at',
  'updated_at',
  'status',
  'metadata',
  'kwargs',
  'multitask_strategy',
  'cancel_reason',
  'error',
] as const satisfies (keyof Run)[]

export const validateRunCreate = typia.createValidate<RunCreate>()
export const validateRunBatch = typia.createValidate<RunBatch>()
export const validateRunsCancel = typia.createValidate<RunsCancel>()
export const validateRunSearch = typia.createValidate<RunSearch>()
export const validateRunFilter = typia.createValidate<RunFilter>()
