/**
 * Follows the subgraphs of a run: a subgraph starts with its first chunk, and so do the subgraphs around it. It ends with
 * the task that holds it.
 */
import { isObject, type JsonObject } from '../../../schemas/json.js'
import type { Namespace } from '../../../schemas/protocols/v2.js'

export type Ended = 'completed' | 'failed' | 'interrupted'

export interface SubgraphSink {
  /** `tool_call_id`: the tool call whose task started the subgraph. */
  started(at: Namespace, tool_call_id: string | undefined): void
  ended(at: Namespace, how: Ended, error: unknown): void
  /** The outcome of a task is known later than its end; called before its subgraphs end. */
  settling?(at: Namespace): void
}

export interface Subgraphs {
  /** A chunk of the graph in `ns`; `task` is the payload of a chunk of the mode `tasks`. */
  see(ns: Namespace, task?: JsonObject): void
  /** A task of the graph in `ns` starts or ends. Call `see` first. */
  task(ns: Namespace, task: JsonObject): void
  /** The tasks with an unknown outcome did not fail. */
  settle(): void
  /** Ends all that run. */
  end(how: Ended, error?: unknown): void
}

export function followSubgraphs({ started, ended, settling }: SubgraphSink): Subgraphs {
  const running = new Map<string, Namespace>()
  /** Ids of tool calls by the id of the task that executes them. */
  const toolCalls = new Map<string, string>()
  let doubtful: Namespace[] = []

  function close(ns: Namespace, how: Ended, error?: unknown): void {
    const key = ns.join('|')
    for (const [other, at] of [...running].reverse()) {
      if (other !== key && !other.startsWith(`${key}|`)) continue
      running.delete(other)
      ended(at, how, error)
    }
  }

  function settle(): void {
    for (const at of doubtful) {
      settling?.(at)
      close(at, 'completed')
    }
    doubtful = []
  }

  return {
    see(ns, task) {
      if (task === undefined || outcomeOf(task) !== 'unknown') settle()
      for (let depth = 1; depth <= ns.length; depth++) {
        const at = ns.slice(0, depth)
        const key = at.join('|')
        if (running.has(key)) continue
        running.set(key, at)
        started(at, toolCalls.get(taskIdOf(at)))
      }
    },
    task(ns, task) {
      const { id, name, input, error } = task
      const how = outcomeOf(task)
      const call = how === null ? toolCallOf(input) : undefined
      if (call !== undefined) toolCalls.set(String(id), call)
      if (how === null) return
      const at = [...ns, `${name}:${id}`]
      if (how === 'unknown') doubtful.push(at)
      else close(at, how, error)
      toolCalls.delete(String(id))
    },
    settle,
    end(how, error) {
      for (const at of [...running.values()].reverse()) close(at, how, error)
    },
  }
}

/**
 * Returns how a task ended; null: it starts. The library reports a failed task like a task that wrote nothing: the next
 * event distinguishes them.
 */
export function outcomeOf({ result, error, interrupts }: JsonObject): Ended | 'unknown' | null {
  if (error) return 'failed'
  if (result === undefined) return null
  if (Array.isArray(interrupts) && interrupts.length > 0) return 'interrupted'
  return isObject(result) && Object.keys(result).length === 0 ? 'unknown' : 'completed'
}

/** Returns the task id of the last segment `node:task-id`. */
function taskIdOf(ns: Namespace): string {
  const segment = ns.at(-1) ?? ''
  return segment.slice(segment.lastIndexOf(':') + 1)
}

/**
 * A task of tools gets one call (`lg_tool_call`, in newer versions `tool_call`), or a list of calls: the first one then
 * stands for all.
 */
function toolCallOf(input: unknown): string | undefined {
  const calls = Array.isArray(input) ? input : isObject(input) ? [input.lg_tool_call, input.tool_call] : []
  const ids = calls.map(call => (isObject(call) ? call.id : undefined))
  return ids.find(id => typeof id === 'string') as string | undefined
}
