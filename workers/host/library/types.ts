/** The parts of the LangGraph library and of compiled graphs that the host uses. */
import type { JsonObject } from '../../../schemas/json.js'

export type Library = typeof import('@langchain/langgraph')

/** The functions of the library that derive JSON Schemas from zod and StateSchema definitions. */
export type SchemaTools = Partial<typeof import('@langchain/langgraph/zod/schema')>

/**
 * The members of a compiled graph that the host uses. Never use instanceof: the application may bring its own copy of
 * the library.
 */
export interface Graph {
  lg_is_pregel: true
  channels: { [name: string]: { lc_graph_name?: string } }
  /** `__end__` for an entrypoint of the functional API. */
  outputChannels?: unknown
  builder?: { _inputDefinition?: object }
  stream(input: unknown, options: JsonObject): Promise<AsyncIterable<unknown>>
  streamEvents(input: unknown, options: JsonObject): AsyncIterable<unknown>
  _streamIterator?(input: unknown, options: JsonObject): AsyncIterable<unknown>
  getState(config: JsonObject, options?: { subgraphs?: boolean }): Promise<Snapshot>
  getStateHistory(config: JsonObject, options: JsonObject): AsyncIterable<Snapshot>
  bulkUpdateState(
    config: JsonObject,
    supersteps: { updates: { values: unknown; asNode?: string }[] }[],
  ): Promise<{ configurable?: JsonObject }>
}

/** The library's StateSnapshot. */
export interface Snapshot {
  values: unknown
  next: string[]
  config: { configurable?: JsonObject }
  metadata?: JsonObject
  createdAt?: string
  parentConfig?: { configurable?: JsonObject }
  tasks: {
    id: string
    name: string
    path?: unknown[]
    error?: unknown
    interrupts?: { id?: string; value?: unknown }[]
    state?: Snapshot | { configurable?: JsonObject }
    result?: unknown
  }[]
}

/** The purpose of a call of a factory. It has a context when a run executes. */
export interface FactoryRuntime {
  accessContext: 'threads.create_run' | 'threads.update' | 'threads.read' | 'assistants.read'
  executionRuntime: { context: unknown } | null
}

export type GraphOf = (config: JsonObject, runtime: FactoryRuntime) => Graph | Promise<Graph>
