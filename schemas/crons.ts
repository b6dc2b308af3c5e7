/** Crons on the wire (docs/spec/crons.md). */
import typia, { type tags } from 'typia'
import type { Config, Json, JsonObject, Uuid } from './json.js'
import type { Durability, MultitaskStrategy, RunStatus, StreamMode } from './runs.js'

type Schedule = string & tags.MaxLength<1000>
type Webhook = string & tags.MinLength<1> & tags.MaxLength<65536>
type OnRunCompleted = 'delete' | 'keep'

/** The settings of its runs that every cron accepts. */
interface RunTemplate {
  config?: Config | null
  context?: JsonObject | null
  metadata?: JsonObject | null
  webhook?: Webhook | null
  stream_mode?: StreamMode | StreamMode[] | null
  stream_subgraphs?: boolean | null
  stream_resumable?: boolean | null
  durability?: Durability | null
  checkpoint_during?: boolean | null
}

interface Timing {
  timezone?: string | null
  /** ISO 8601; without an offset it is UTC. */
  end_time?: string | null
  enabled?: boolean | null
  on_run_completed?: OnRunCompleted | null
}

/** A cron of a thread: only an object as input. */
export interface ThreadCronCreate extends RunTemplate, Timing {
  schedule: Schedule
  assistant_id: string
  input?: JsonObject | null
  interrupt_before?: '*' | string[] | null
  interrupt_after?: '*' | string[] | null
  multitask_strategy?: MultitaskStrategy | null
}

/** A cron that makes a new thread for each run. */
export interface CronCreate extends RunTemplate, Timing {
  schedule: Schedule
  assistant_id: string
  input?: Json
  interrupt_before?: '*' | string[] | null
  interrupt_after?: '*' | string[] | null
  multitask_strategy?: MultitaskStrategy | null
}

/** Null is "unchanged", except for `end_time`, which it clears. */
export interface CronPatch extends RunTemplate, Timing {
  schedule?: Schedule | null
  input?: Json
  interrupt_before?: '*' | string[] | null
  interrupt_after?: '*' | string[] | null
}

/** The run template as it is stored and answered: as given, with the id of the assistant. */
export interface CronPayload extends RunTemplate {
  assistant_id: string
  schedule: string
  input?: Json
  interrupt_before?: '*' | string[] | null
  interrupt_after?: '*' | string[] | null
  multitask_strategy?: MultitaskStrategy | null
}

export interface Cron {
  cron_id: string
  assistant_id: string
  /** null: each run has a new thread. */
  thread_id: string | null
  schedule: string
  /** IANA name; null is UTC. */
  timezone: string | null
  end_time: string | null
  next_run_date: string | null
  enabled: boolean
  /** Set for crons without a thread. */
  on_run_completed: OnRunCompleted | null
  payload: CronPayload
  metadata: JsonObject
  /** The caller whose identity its runs have: the last one that changed what it executes. */
  user_id: string | null
  created_at: string
  updated_at: string
  /** Why the server has paused it, for example because its key was revoked; absent: it has not. */
  paused_reason?: string
}

/** One time of the schedule at which a cron fired. Times are ISO 8601. */
export interface CronFiring {
  /** The time of the schedule; after missed times the latest of them. */
  scheduled_at: string
  fired_at: string
  /** It fired more than a minute after its time, or for several missed times together. */
  late: boolean
  /** Null: the run was refused. */
  run_id: string | null
  thread_id: string | null
  /** The present status of the run; null: it was refused or removed. */
  run_status: RunStatus | null
  /** Why the run was refused. */
  error: string | null
}

interface CronFilter {
  /** An id or the id of a graph. */
  assistant_id?: string | null
  thread_id?: Uuid | null
  enabled?: boolean | null
  metadata?: JsonObject | null
}
export type CronCount = CronFilter
export interface CronSearch extends CronFilter {
  limit?: (number & tags.Type<'uint32'> & tags.Minimum<1> & tags.Maximum<1000>) | null
  offset?: (number & tags.Type<'uint32'>) | null
  sort_by?: 'cron_id' | 'assistant_id' | 'thread_id' | 'next_run_date' | 'end_time' | 'created_at' | 'updated_at' | null
  sort_order?: 'asc' | 'desc' | null
  /** Ours: `next_run_dates`, the next five times; none while it is disabled. Computed only when it is selected. */
  select?: (keyof Cron | 'now' | 'next_run_dates')[] | null
}

export const validateThreadCronCreate = typia.createValidate<ThreadCronCreate>()
export const validateCronCreate = typia.createValidate<CronCreate>()
export const validateCronPatch = typia.createValidate<CronPatch>()
export const validateCronSearch = typia.createValidate<CronSearch>()
export const validateCronCount = typia.createValidate<CronCount>()
