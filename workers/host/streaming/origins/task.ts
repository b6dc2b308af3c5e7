/**
 * Finds the graph and the task that sent a message, a tool call or a custom chunk. The origin comes from the metadata
 * of the task, which is the same in every version of the library. The namespace of the library's chunk differs: up to
 * 0.2 it is one joined text, up to 1.5 the namespace of the task, from 1.7 the namespace of the graph.
 */
import type { JsonObject } from '../../../../schemas/json.js'
import type { Namespace } from '../../../../schemas/protocols/v2.js'

export interface Origin {
  /** Namespace of the graph; empty for the root. */
  graph: Namespace
  /** Namespace of the task: the namespace of its graph, then `node:task-id`. */
  task: Namespace
  node: string | undefined
}

/** A task sends all its chunks under one metadata object, which the library never changes. */
const origins = new WeakMap<JsonObject, Origin>()
const ROOT: Origin = { graph: [], task: [], node: undefined }

/** `metadata` comes from a callback or from a config inside of a node. */
export function originOf(metadata: JsonObject | undefined): Origin {
  if (typeof metadata !== 'object' || metadata === null) return ROOT
  let origin = origins.get(metadata)
  if (origin === undefined) {
    origin = read(metadata)
    origins.set(metadata, origin)
  }
  return origin
}

function read(metadata: JsonObject): Origin {
  const { langgraph_checkpoint_ns, checkpoint_ns, langgraph_node, langgraph_path } = metadata
  const text = langgraph_checkpoint_ns ?? checkpoint_ns
  const whole = typeof text === 'string' && text !== '' ? text.split('|') : []
  const graph = whole.slice(0, Math.max(0, whole.length - 1 - callersOf(langgraph_path)))
  return {
    graph,
    task: [...graph, ...whole.slice(-1)],
    node: typeof langgraph_node === 'string' ? langgraph_node : undefined,
  }
}

/**
 * Counts the callers that invoked this task with `task()` of the functional API. They are also part of its checkpoint
 * namespace, but they are not graphs. The path of such a task is `['__pregel_push', path of the caller, index, true]`.
 */
function callersOf(path: unknown): number {
  let count = 0
  for (let at = path; Array.isArray(at) && at[0] === '__pregel_push' && at.at(-1) === true; at = at[1]) count++
  return count
}
