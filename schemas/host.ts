/** The bodies of frames (workers/pipe.ts). Both ends are part of Weft; nothing here reaches a client. */

import typia, { type tags } from 'typia'
import type { LibraryVersion } from './announcements.js'
import type { AuthConfig, HttpConfig } from './application.js'
import type { AuthUser } from './auth/auth.js'
import type { Checkpoint } from './checkpoints.js'
import type { ItemIndexConfig, ItemTtlDefaults } from './items/items.js'
import type { JsonObject } from './json.js'
import type { Command, ErrorPlace, RunKwargs } from './runs.js'
import type { Interrupt, TtlDefaults } from './threads.js'
import type { WebhookSettings } from './webhooks.js'

export interface Hello {
  /** The sentence to show when langgraph.json itself is bad: no graph is loaded. A graph that fails says so in its own row. */
  error: string | null
  graphs: {
    graph_id: string
    description: string | null
    error: string | null
    /** The keys of its input; absent for a factory, which only a call would tell. */
    inputs?: string[]
    /** Defaults of its system assistant (LANGGRAPH_CONFIG). */
    config?: JsonObject
    context?: JsonObject
  }[]
  /** The version of `@langchain/langgraph` that runs the graphs. */
  library?: LibraryVersion
  /** `auth` of langgraph.json: the application must not be served without it. */
  auth?: AuthConfig | null
  /** `checkpointer.ttl` of langgraph.json. */
  ttl?: TtlDefaults | null
  /** `store.ttl` of langgraph.json. */
  item_ttl?: ItemTtlDefaults | null
  /** `http` of langgraph.json. */
  http?: HttpConfig | null
  webhooks?: WebhookSettings | null
  /** `store.index` of langgraph.json. */
  item_index?: ItemIndexConfig | null
  /** A graph whose hosts remove copies of checkpoints from the checkpointer of the application; null or absent: none do. */
  app_checkpointer?: string | null
  /** `store.path` of langgraph.json: the application must not be served without its store. */
  app_store?: string | null
  /** `encryption.path` of langgraph.json: the application must not be served without its handlers. */
  encryption?: string | null
  /** Sentences for the log, once per worker. */
  notes?: string[]
}

/** Head of `start`: everything a run needs. `kwargs.config` is merged and carries the system keys. */
export interface StartHead {
  run_id: string
  thread_id: string
  graph_id: string
  attempt: number
  /** First event id of this attempt. */
  first_id: number
  /** First `seq` of the checkpoints of this claim, and of its events of protocol v2: claim_no · 2²⁴. */
  first_seq: number
  /** Metadata of the thread when the run was claimed: nodes see them below those of the run. */
  inherited?: JsonObject
  metadata: JsonObject
  kwargs: RunKwargs
  /** `values` must be in the finish although no mode streams it (wait, background). */
  want_values: boolean
  /** Events of protocol v2 are rendered beside the classic ones. */
  events: boolean
  /** The authenticated caller who created the run: it becomes members of `config.configurable`. */
  user?: AuthUser
  /** The store encrypts values: recorded spans, which the broker keeps in plain text, name errors without their messages. */
  sealed?: boolean
}

/** The bytes of a part. */
type Size = number & tags.Type<'uint32'>

/**
 * Head of `finish`. Parts in this order: `values` (JSON text of the root state), `rest` (the ThreadState without its
 * first member, JSON text beginning `"next":` and ending `}`), `save` (packed SaveHead: the last saves, may be empty).
 * A part of size 0 is absent. `output`, after them, is the part of the values that wait and join answer, where the graph
 * has a schema for its output.
 */
export interface FinishHead {
  status: 'success' | 'error' | 'interrupted' | 'timeout'
  error: { error: string; message: string } | null
  /** Where graph code has thrown the error; absent: not known. */
  at?: ErrorPlace | null
  last_event_id: number & tags.Minimum<-1> & tags.Maximum<9_007_199_254_740_991>
  /** The newest checkpoint of the root namespace; null when nothing was saved. */
  head: string | null
  /** Nodes that would run next; not empty = the thread is interrupted. */
  next: string[]
  /** Task id → what it raised; only tasks that raised something. */
  interrupts: { [task_id: string]: Interrupt[] }
  /** wait and join answer the interrupts only: the values are the result of an earlier run. */
  interrupts_only?: boolean
  /** URLs for feedback about the run, by their keys: wait and join answer them. */
  feedback?: { [key: string]: string }
  values_size: Size
  rest_size: Size
  save_size: Size
  output_size?: Size
}

/** Body of `failed`: an error of graph code, for the log. */
export interface RunFailure {
  error: Line
  message: Line
  graph_id: Line
  assistant_id: Line | null
  node: Line | null
  /** `file:line:column` in the application. */
  at: Line | null
  stack: Line | null
}
/** Longer than those of our hosts: the log is shared. */
type Line = string & tags.MaxLength<65_536>

export const validateRunFailure = typia.createValidate<RunFailure>()

/** Body of `last`: why the process ends, as the error of the run that is charged. */
export interface LastWords {
  error: string
  message: string
}

/** Body of `call`: what needs graph code and is no run. */
export type Call = StateCall | HistoryCall | UpdateCall | DescribeCall

/** Questions about the graph itself: no thread is read, and `thread_id` is empty. */
export type DescribeCall = DrawCall | SchemasCall | SubgraphsCall

interface GraphCall {
  graph_id: string
  thread_id: string
  /** The config of the assistant, for graphs that are made by a function. */
  config: JsonObject
}

/** Answer: the ThreadState as JSON text. */
export interface StateCall extends GraphCall {
  verb: 'state'
  checkpoint?: Checkpoint | null
  subgraphs?: boolean
}

/** Answer: the ThreadStates as a JSON array, newest first. */
export interface HistoryCall extends GraphCall {
  verb: 'history'
  limit: number
  /** Id of a checkpoint: only older ones. */
  before?: string | null
  /** A part that the metadata must contain. */
  metadata?: JsonObject | null
  checkpoint?: Checkpoint | null
}

/** Only for hosts of graphs in Python: removes the thread from the checkpointer of the application. Answer: null. */
export interface ForgetCall extends GraphCall {
  verb: 'forget'
}

/** Answer: `{nodes, edges}` as JSON text. */
export interface DrawCall extends GraphCall {
  verb: 'draw'
  /** The depth to which subgraphs are drawn; true: all of them. */
  xray: boolean | number
}

/** Answer: the GraphSchema as JSON text. */
export interface SchemasCall extends GraphCall {
  verb: 'schemas'
}

/** Answer: a map from the path of a subgraph to its schemas, as JSON text. */
export interface SubgraphsCall extends GraphCall {
  verb: 'subgraphs'
  /** Null: those of the graph itself. */
  namespace: string | null
  recurse: boolean
}

/** Applies updates one after the other and stores nothing. Answer: packed UpdatedHead and its parts. */
export interface UpdateCall extends GraphCall {
  verb: 'update'
  checkpoint?: Checkpoint | null
  supersteps: { updates: StepUpdate[] }[]
  /** The values are those that a server printed: messages and objects of classes are built from them. */
  replay?: boolean
  /** The same as in StartHead. */
  first_seq: number
  /** Laid under the metadata of the checkpoints. */
  metadata: JsonObject
}
export interface StepUpdate {
  values?: unknown
  command?: Command | null
  as_node?: string | null
}

/** The thread as the updates leave it. Parts as in FinishHead: values, rest, then the saves one after the other. */
export interface UpdatedHead extends Pick<FinishHead, 'head' | 'next' | 'interrupts' | 'values_size' | 'rest_size'> {
  /** The checkpoint that the last update made. */
  checkpoint: Checkpoint | null
  save_sizes: Size[]
}

/** Body of `called` with flags 1. */
export interface CallFailure {
  code: string
  detail: string
}

// A host runs user code, so what it sends may be anything.
export const validateFinishHead = typia.createValidate<FinishHead>()
export const validateUpdatedHead = typia.createValidate<UpdatedHead>()
export const validateHello = typia.createValidate<Hello>()
export const validateLastWords = typia.createValidate<{ [name in keyof LastWords]: Line }>()
export const validateCallFailure = typia.createValidate<CallFailure>()
