/** The stream mode `lifecycle`: an event when a subgraph starts and when it ends, named after its namespace. */
import type { JsonObject } from '../../../schemas/json.js'
import type { Namespace } from '../../../schemas/protocols/v2.js'
import { errorOf } from '../render.js'
import { type EventBuffer, eventName } from './stream.js'
import { type Ended, followSubgraphs } from './subgraphs.js'

export interface Lifecycle {
  take(ns: Namespace, mode: string, payload: unknown): void
  /** The run ends: so do the subgraphs that execute. */
  end(how: Ended, error?: unknown): void
}

export function lifecycleEvents({ push }: EventBuffer): Lifecycle {
  const send = (namespace: Namespace, data: JsonObject) =>
    push(eventName('lifecycle', namespace), JSON.stringify({ ...data, namespace }))
  const subgraphs = followSubgraphs({
    started: (at, tool_call_id) => send(at, { event: 'started', ...(tool_call_id && { tool_call_id }) }),
    ended: (at, event, error) => send(at, { event, ...(error ? { error: shown(error) } : {}) }),
  })
  return {
    take(ns, mode, payload) {
      const task = mode === 'tasks' ? (payload as JsonObject) : undefined
      subgraphs.see(ns, task)
      if (task !== undefined) subgraphs.task(ns, task)
    },
    end(how, error) {
      if (how !== 'failed') subgraphs.settle()
      subgraphs.end(how, error)
    },
  }
}

/** The error of a task, or the error of a run, which has this form already. */
const shown = (error: unknown): { error: string; message: string } => {
  const { error: name, message } = error as { error?: unknown; message?: unknown }
  return typeof name === 'string' && typeof message === 'string' ? { error: name, message } : errorOf(error)
}
