/** What a run hands to the library: its input and its options, from the stored request (API: config, command). */

import type { StartHead } from '../../schemas/host.js'
import type { JsonObject } from '../../schemas/json.js'
import type { RunKwargs, Send } from '../../schemas/runs.js'
import type { Execution } from './application.js'
import type { Library } from './loading.js'

/** Keys of `configurable` that the server sets; the rest are the user's. */
const SYSTEM =
  /^(thread_id|run_id|graph_id|assistant_id|user_id|checkpoint_id|checkpoint_ns|checkpoint_map|thread_ts|langgraph_.*|__.*)$/
const SELECTION = ['checkpoint_id', 'checkpoint_ns', 'checkpoint_map', 'thread_ts'] as const

/** `config` with only what a request may set: a client reaches neither callbacks nor the library's own keys. */
export function configOf(
  { kwargs, metadata, attempt, run_id, thread_id, graph_id }: StartHead,
  execution: Execution | null = null,
) {
  const { tags, run_name, max_concurrency, recursion_limit, metadata: given } = kwargs.config
  const configurable: JsonObject = {}
  for (const [key, value] of Object.entries((kwargs.config.configurable ?? {}) as JsonObject)) {
    if (key.startsWith('__pregel_') || (value === null && SELECTION.includes(key as never))) continue
    configurable[key] = value
  }
  Object.assign(configurable, { thread_id, run_id, graph_id })
  const { assistant_id } = configurable
  const config: JsonObject & { configurable: JsonObject; metadata: JsonObject } = {
    configurable,
    metadata: {
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

/** `configurable` and `context` each to its own place; the one that is empty mirrors the other. */
function mirrored(configurable: JsonObject, context: unknown): { context?: unknown; configurable?: JsonObject } {
  const user = Object.entries(configurable).filter(([key]) => !SYSTEM.test(key))
  const isMap = typeof context === 'object' && context !== null && !Array.isArray(context)
  if (context === undefined || context === null || (isMap && Object.keys(context).length === 0))
    return user.length > 0 ? { context: Object.fromEntries(user) } : {}
  if (isMap && user.length === 0) return { context, configurable: { ...context, ...configurable } }
  return { context }
}

/**
 * Whether the client chose what is the newest anyway (API: checkpoint selection): then it is no fork. `newest` tells
 * the newest checkpoint of a namespace.
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

/** Continue from the newest checkpoint instead of the one that the client chose. */
export function dropSelection(configurable: JsonObject): void {
  for (const key of SELECTION) delete configurable[key]
}

/**
 * The library's input: a Command, the input, or null to continue.
 * `pending` gives the ids of the interrupts that wait, for an answer that the library would take for none.
 */
export async function inputOf(
  { command, input }: RunKwargs,
  library: Library,
  pending: () => Promise<string[]>,
): Promise<unknown> {
  const { resume, update, goto } = command ?? {}
  const parts: { resume?: unknown; update?: never; goto?: never } = {}
  // Absent and null differ: null is an answer.
  if (resume !== undefined) parts.resume = await answerOf(resume, pending)
  if (isGiven(update)) parts.update = update as never
  if (isGiven(goto)) parts.goto = [goto].flat().map(each => target(each, library)) as never
  if (Object.keys(parts).length === 0) return input ?? null
  // The library knows no null answer, and with nobody who waits for one there is nothing but to go on.
  return Object.values(parts).every(part => part === null) ? null : new library.Command(parts)
}

/** An empty update or goto orders nothing. */
const isGiven = <T extends object | string>(order: T | null | undefined): order is T =>
  order !== null && order !== undefined && (typeof order === 'string' || Object.keys(order).length > 0)

/**
 * null, false, 0 and "" are answers (API: interrupts), but the library asks for truth: by the id of the interrupt
 * they arrive.
 */
async function answerOf(resume: unknown, pending: () => Promise<string[]>): Promise<unknown> {
  if (resume) return resume
  const [first] = await pending()
  return first === undefined ? resume : { [first]: resume }
}

const target = (goto: string | Send, library: Library) =>
  typeof goto === 'string' ? goto : new library.Send(goto.node, goto.input === undefined ? {} : goto.input)
