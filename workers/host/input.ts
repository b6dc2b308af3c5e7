/** Builds the input and the options that a run passes to the library from the stored request (docs/spec/runs.md#payload). */

import type { StartHead } from '../../schemas/host.js'
import type { JsonObject } from '../../schemas/json.js'
import type { RunKwargs, Send } from '../../schemas/runs.js'
import type { Execution } from './application.js'
import type { Library } from './library/types.js'

/** Keys of `configurable` that the server sets; the other keys belong to the user. */
const SYSTEM =
  /^(thread_id|run_id|graph_id|assistant_id|user_id|checkpoint_id|checkpoint_ns|checkpoint_map|thread_ts|langgraph_.*|__.*)$/
const SELECTION = ['checkpoint_id', 'checkpoint_ns', 'checkpoint_map', 'thread_ts'] as const

/**
 * Returns `config` with the members that a request may set: a client can set neither callbacks nor internal keys of the
 * library.
 */
export function configOf(
  { kwargs, inherited, metadata, attempt, run_id, thread_id, graph_id, user }: StartHead,
  execution: Execution | null = null,
) {
  const { tags, run_name, max_concurrency, recursion_limit, metadata: given } = kwargs.config
  const configurable: JsonObject = {}
  for (const [key, value] of Object.entries((kwargs.config.configurable ?? {}) as JsonObject)) {
    // Assigned, it would be the prototype: every member in it would count as one of the server.
    if (key === '__proto__' || key.startsWith('__pregel_') || (value === null && SELECTION.includes(key as never)))
      continue
    configurable[key] = value
  }
  Object.assign(configurable, { thread_id, run_id, graph_id })
  if (kwargs.strict_resume === true) configurable.__pregel_strict_resume = true
  // docs/spec/auth.md#graphs. What a client sent under these names was removed when the run was created.
  if (user !== undefined) {
    configurable.langgraph_auth_user = user
    configurable.langgraph_auth_user_id = user.identity
    configurable.langgraph_auth_permissions = user.permissions
  }
  const { assistant_id } = configurable
  const config: JsonObject & { configurable: JsonObject; metadata: JsonObject } = {
    configurable,
    metadata: {
      ...inherited,
      ...(given as JsonObject),
      ...metadata,
      run_id,
      thread_id,
      graph_id,
      ...(assistant_id === undefined ? {} : { assistant_id }),
      run_attempt: attempt,
      ...execution,
    },
    runId: run_id,
  }
  if (Array.isArray(tags)) config.tags = tags
  if (typeof run_name === 'string') config.runName = run_name
  if (typeof max_concurrency === 'number') config.maxConcurrency = max_concurrency
  // A default would override a limit that is bound to the graph.
  if (typeof recursion_limit === 'number') config.recursionLimit = recursion_limit
  Object.assign(config, mirrored(configurable, kwargs.context))
  if (kwargs.interrupt_before !== null) config.interruptBefore = kwargs.interrupt_before
  if (kwargs.interrupt_after !== null) config.interruptAfter = kwargs.interrupt_after
  return config
}

/**
 * Puts `configurable` and `context` in their places; if one is empty, it mirrors the other. Without any the context is
 * `{}`: the defaults of its schema apply.
 */
function mirrored(configurable: JsonObject, context: unknown): { context?: unknown; configurable?: JsonObject } {
  const user = Object.entries(configurable).filter(([key]) => !SYSTEM.test(key))
  const isMap = typeof context === 'object' && context !== null && !Array.isArray(context)
  if (context === undefined || context === null || (isMap && Object.keys(context).length === 0))
    return { context: Object.fromEntries(user) }
  // A context is the client's: it says nothing about who called.
  const mirror = isMap ? Object.entries(context).filter(([key]) => !key.startsWith('langgraph_auth_')) : []
  if (isMap && user.length === 0) return { context, configurable: { ...Object.fromEntries(mirror), ...configurable } }
  return { context }
}

/**
 * Returns whether the client chose the newest checkpoint (docs/spec/runs.md#checkpoints): then the run is no fork.
 * `newest` returns the newest checkpoint of a namespace.
 */
export async function isNewest(
  { checkpoint_id, checkpoint_ns, checkpoint_map }: JsonObject,
  newest: (ns: string) => Promise<string | null>,
): Promise<boolean> {
  const chosen = new Map(Object.entries((checkpoint_map ?? {}) as { [ns: string]: unknown }))
  if (checkpoint_id) chosen.set((checkpoint_ns as string) ?? '', checkpoint_id)
  for (const [ns, id] of chosen) if (id && id !== (await newest(ns))) return false
  return true
}

/** Continues from the newest checkpoint instead of the checkpoint that the client chose. */
export function dropSelection(configurable: JsonObject): void {
  for (const key of SELECTION) delete configurable[key]
}

/**
 * Returns the library's input: a Command, the input, or null to continue. `pending` returns the ids of the pending
 * interrupts, for an answer that the library would ignore.
 */
export async function inputOf(
  { command, input, strict_resume = false }: RunKwargs,
  library: Library,
  pending: () => Promise<string[]>,
): Promise<unknown> {
  const { resume, update, goto } = command ?? {}
  if (strict_resume && resume !== undefined && library.UnknownInterruptError === undefined)
    throw new Error('strict_resume needs @langchain/langgraph 1.7.0 or newer: update it, or send strict_resume: false')
  const parts: { resume?: unknown; update?: never; goto?: never } = {}
  // Absent and null differ: null is an answer.
  if (resume !== undefined) parts.resume = await answerOf(resume, pending, strict_resume)
  if (isGiven(update)) parts.update = update as never
  if (isGiven(goto)) parts.goto = [goto].flat().map(each => target(each, library)) as never
  if (Object.keys(parts).length === 0) return input ?? null
  // The library does not accept null as an answer. If no interrupt is pending, the run simply continues.
  return Object.values(parts).every(part => part === null) ? null : new library.Command(parts)
}

/** An empty update or goto has no effect. */
const isGiven = <T extends object | string>(order: T | null | undefined): order is T =>
  order !== null && order !== undefined && (typeof order === 'string' || Object.keys(order).length > 0)

/**
 * null, false, 0 and "" are answers (docs/spec/runs.md#interrupts), but the library ignores falsy values. An answer
 * that is keyed by the id of its interrupt reaches the node.
 */
async function answerOf(resume: unknown, pending: () => Promise<string[]>, strict: boolean): Promise<unknown> {
  if (resume) return resume
  const ids = await pending()
  // In strict mode the library refuses an answer that fits several interrupts.
  if (strict && ids.length > 1) return true
  const [first] = ids
  return first === undefined ? resume : { [first]: resume }
}

const target = (goto: string | Send, library: Library) =>
  typeof goto === 'string' ? goto : new library.Send(goto.node, goto.input === undefined ? {} : goto.input)
