/** Threads and their state on the wire (docs/spec/threads.md). */
import typia, { type tags } from 'typia'
import type { Checkpoint } from './checkpoints.js'
import type { Json, JsonObject, Uuid } from './json.js'
import type { Command } from './runs.js'

export type ThreadStatus = 'idle' | 'busy' | 'interrupted' | 'error'

/** Minutes; fractions count. */
type Minutes = number & tags.ExclusiveMinimum<0> & tags.Maximum<1e9>
type TtlStrategy = 'delete' | 'keep_latest'

export interface ThreadTtl {
  ttl: Minutes
  strategy?: TtlStrategy | null
}

/** `checkpointer.ttl` of langgraph.json (docs/spec/application.md#store-and-checkpointer). */
export interface TtlDefaults {
  strategy?: TtlStrategy
  default_ttl?: Minutes
  sweep_interval_minutes?: Minutes
  sweep_limit?: number & tags.Type<'uint32'> & tags.Minimum<1>
}

/** Updates that are applied together: one checkpoint. */
export interface Superstep {
  updates: SuperstepUpdate[] & tags.MinItems<1>
}
interface SuperstepUpdate {
  values?: JsonObject | Json[] | null
  /** Wins over values. */
  command?: Command | null
  as_node: string & tags.MinLength<1>
}

export interface ThreadCreate {
  thread_id?: Uuid | null
  metadata?: JsonObject | null
  if_exists?: 'raise' | 'do_nothing' | null
  ttl?: ThreadTtl | Minutes | null
  supersteps?: Superstep[] | null
}

export interface ThreadPatch {
  metadata?: JsonObject | null
  ttl?: ThreadTtl | Minutes | null
}

export interface ThreadFilter {
  metadata?: JsonObject | null
  values?: JsonObject | null
  status?: ThreadStatus | null
}

export type ThreadField =
  | 'thread_id'
  | 'created_at'
  | 'updated_at'
  | 'state_updated_at'
  | 'metadata'
  | 'config'
  | 'context'
  | 'status'
  | 'values'
  | 'interrupts'

export interface ThreadSearch extends ThreadFilter {
  ids?: (Uuid[] & tags.MaxItems<10000>) | null
  limit?: (number & tags.Type<'uint32'> & tags.Minimum<1> & tags.Maximum<1000>) | null
  offset?: (number & tags.Type<'uint64'>) | null
  sort_by?: 'thread_id' | 'status' | 'created_at' | 'updated_at' | 'state_updated_at' | null
  sort_order?: 'asc' | 'desc' | null
  select?: ThreadField[] | null
  /** Name → path; workers/resources/threads/paths.ts reads the paths. */
  extract?: { [alias: string]: string } | null
}

export interface ThreadPrune {
  thread_ids: Uuid[] & tags.MaxItems<10000>
  strategy?: TtlStrategy | null
}

export interface StateUpdate {
  values?: JsonObject | Json[] | null
  as_node?: string | null
  checkpoint?: Checkpoint | null
  checkpoint_id?: string | null
}

export interface StateAt {
  checkpoint: Checkpoint
  subgraphs?: boolean | string | null
  /** Fields, or `values.<key>`; all when absent. */
  select?: string[] | null
}

export interface StateMetadata {
  metadata: JsonObject
}

export interface HistoryQuery {
  limit?: (number & tags.Type<'uint32'> & tags.Minimum<1> & tags.Maximum<1000>) | null
  /** The id, the checkpoint, or a config that names it. */
  before?: string | (Checkpoint & { configurable?: Checkpoint | null }) | null
  metadata?: JsonObject | null
  checkpoint?: Checkpoint | null
  /** Fields of each state, or `values.<key>`; all when absent. */
  select?: string[] | null
}

export interface Thread {
  thread_id: string
  created_at: string
  updated_at: string
  state_updated_at: string
  metadata: JsonObject
  config: JsonObject
  status: ThreadStatus
  values: Json
  interrupts: { [task_id: string]: Interrupt[] }
  error: Json
}

export interface Interrupt {
  id: string
  value: Json
}

export interface Task {
  id: string
  name: string
  path: Json[]
  error: string | null
  interrupts: Interrupt[]
  checkpoint: Checkpoint | null
  state: ThreadState | null
  result: Json
}

export interface ThreadState {
  values: Json
  next: string[]
  tasks: Task[]
  checkpoint: Checkpoint | null
  parent_checkpoint: Checkpoint | null
  metadata: JsonObject
  created_at: string | null
  interrupts: Interrupt[]
}

export const validateThreadCreate = typia.createValidate<ThreadCreate>()
/** A body that says nothing. */
export const validateObject = typia.createValidate<JsonObject>()
export const validateThreadPatch = typia.createValidate<ThreadPatch>()
export const validateThreadSearch = typia.createValidate<ThreadSearch>()
export const validateThreadFilter = typia.createValidate<ThreadFilter>()
export const validateThreadPrune = typia.createValidate<ThreadPrune>()
export const validateStateUpdate = typia.createValidate<StateUpdate>()
export const validateStateAt = typia.createValidate<StateAt>()
export const validateStateMetadata = typia.createValidate<StateMetadata>()
export const validateHistoryQuery = typia.createValidate<HistoryQuery>()
export const validateTtlDefaults = typia.createValidate<TtlDefaults>()

/** Task id → its interrupts; only tasks with interrupts. */
export function interruptsOf(tasks: readonly Task[]): { [task_id: string]: Interrupt[] } {
  return Object.fromEntries(tasks.filter(task => task.interrupts.length > 0).map(task => [task.id, task.interrupts]))
}
