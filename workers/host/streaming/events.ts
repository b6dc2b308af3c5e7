/**
 * Renders a run as events of protocol v2 (API: threads-and-runs 17), beside the classic events, if the creator of the
 * run requested them. The events carry the output of each graph under the namespace of that graph, chat messages as
 * content blocks, and derived events: the lifecycle of the run and of its subgraphs, and the pending interrupts.
 */

import type { JsonObject } from '../../../schemas/json.js'
import type { Namespace } from '../../../schemas/protocols/v2.js'
import type { Interrupt } from '../../../schemas/threads.js'
import { render } from '../render.js'
import { type Content, contentOf, type StreamedMessage } from './content.js'
import { taskOf } from './debug.js'
import type { Origin } from './origins/task.js'
import type { EventBuffer } from './stream.js'

export type Ended = 'completed' | 'failed' | 'interrupted'

export interface RunEvents {
  start(): void
  /** A chunk of the graph in `ns`, of a mode other than `messages`. `node` is available for the mode `tools`. */
  take(ns: Namespace, mode: string, payload: unknown, node?: string): void
  /** A token or a whole message. */
  message(origin: Origin, message: StreamedMessage, metadata: unknown): void
  /** The last event of the run. */
  end(how: Ended, error?: string): void
}

export function runEvents({ pushEvent }: EventBuffer, graph_id: string): RunEvents {
  const running = new Map<string, Namespace>()
  /** Interrupts by id. They are sent when the run ends, because a client cannot answer earlier. */
  const pendingInterrupts = new Map<string, { ns: Namespace; value: unknown }>()
  /** Values that wait for their checkpoint: clients expect the checkpoint before its state. */
  let held: { ns: Namespace; values: unknown } | null = null
  /** Tasks with an unknown outcome. */
  let doubtful: Namespace[] = []
  const content: Content = contentOf(({ graph, node }, data) => send('messages', graph, data, { node }))

  function send(
    method: string,
    namespace: Namespace,
    data: unknown,
    { channel = method, node, last = false }: { channel?: string; node?: string | undefined; last?: boolean } = {},
  ): void {
    const at = `"namespace":${JSON.stringify(namespace)},"timestamp":${Date.now()}`
    const by = node === undefined ? '' : `,"node":${JSON.stringify(node)}`
    pushEvent({ channel, namespace, last }, method, `{${at}${by},"data":${render(data)}}`)
  }

  function release(): void {
    if (held !== null) send('values', held.ns, held.values)
    held = null
  }

  /** A subgraph starts with its first chunk, and so do the subgraphs around it. */
  function begin(ns: Namespace): void {
    for (let depth = 1; depth <= ns.length; depth++) {
      const at = ns.slice(0, depth)
      const key = at.join('|')
      if (running.has(key)) continue
      running.set(key, at)
      send('lifecycle', at, { event: 'started', graph_name: nameOf(at) })
    }
  }

  function close(ns: Namespace, event: Ended, error?: unknown): void {
    const key = ns.join('|')
    for (const [other, at] of [...running].reverse()) {
      if (other !== key && !other.startsWith(`${key}|`)) continue
      running.delete(other)
      send('lifecycle', at, { event, graph_name: nameOf(at), ...(error ? { error: String(error) } : {}) })
    }
  }

  function collectInterrupts(ns: Namespace, interrupts: unknown): void {
    for (const { id, value } of (Array.isArray(interrupts) ? interrupts : []) as Interrupt[]) {
      // The innermost graph reports an interrupt first, so the first report has the correct namespace.
      if (id !== undefined && !pendingInterrupts.has(id)) pendingInterrupts.set(id, { ns, value: value ?? null })
    }
  }

  function sendInterrupts(): void {
    // One SDK reads `payload`, the other reads `value`.
    for (const [interrupt_id, { ns, value }] of pendingInterrupts)
      send('input.requested', ns, { interrupt_id, payload: value, value }, { channel: 'input', last: true })
  }

  /** A later event shows that these tasks did not fail. */
  function settleDoubt(): void {
    for (const at of doubtful) {
      content.finish(at)
      close(at, 'completed')
    }
    doubtful = []
  }

  const takers: { [mode: string]: (ns: Namespace, payload: unknown, node?: string) => void } = {
    values(ns, payload) {
      if (!isObject(payload)) return send('values', ns, payload)
      const { __interrupt__, ...values } = payload
      if (__interrupt__ !== undefined) collectInterrupts(ns, __interrupt__)
      if (Object.keys(values).length > 0) held = { ns, values }
    },
    updates(ns, payload) {
      for (const [node, values] of Object.entries((payload ?? {}) as JsonObject)) {
        if (node === '__interrupt__') collectInterrupts(ns, values)
        else send('updates', ns, { node, values: values ?? {} }, { node })
      }
    },
    custom(ns, payload) {
      const named = isObject(payload) && typeof payload.name === 'string'
      if (named) send('custom', ns, payload, { channel: `custom:${payload.name}` })
      else send('custom', ns, { payload })
    },
    tasks(ns, payload) {
      const { id, name, error } = payload as JsonObject
      const at = [...ns, `${name}:${id}`]
      const how = outcomeOf(payload as JsonObject)
      const known = how !== null && how !== 'unknown'
      if (known) content.finish(at)
      send('tasks', ns, taskOf(payload))
      if (known) close(at, how, error)
      else if (how === 'unknown') doubtful.push(at)
    },
    checkpoints(ns, payload) {
      const { config, parentConfig, metadata } = payload as { [name: string]: JsonObject | undefined }
      const parent_id = idOf(parentConfig)
      const { step, source } = metadata ?? {}
      send('checkpoints', ns, { id: idOf(config), ...(parent_id ? { parent_id } : {}), step, source })
      release()
    },
    tools: (ns, payload, node) => send('tools', ns, toolOf(payload as JsonObject), { node }),
  }

  return {
    start: () => send('lifecycle', [], { event: 'running', graph_name: graph_id }),
    take(ns, mode, payload, node) {
      const comes = mode === 'checkpoints' && held !== null && held.ns.join('|') === ns.join('|')
      if (!comes) release()
      if (mode !== 'tasks' || outcomeOf(payload as JsonObject) !== 'unknown') settleDoubt()
      begin(ns)
      takers[mode]?.(ns, payload, node)
    },
    message(origin, message, metadata) {
      release()
      settleDoubt()
      begin(origin.graph)
      content.take(origin, message, metadata as JsonObject)
    },
    end(how, error) {
      release()
      if (how !== 'failed') settleDoubt()
      else content.fail(error ?? 'The run failed')
      content.finish([])
      for (const at of [...running.values()].reverse()) close(at, how, error)
      if (how === 'interrupted') sendInterrupts()
      send('lifecycle', [], { event: how, graph_name: graph_id, ...(error ? { error } : {}) }, { last: true })
    },
  }
}

/**
 * Returns how a task ended; null: it starts. The library reports a failed task like a task that wrote nothing: the next
 * event distinguishes them.
 */
function outcomeOf({ result, error, interrupts }: JsonObject): Ended | 'unknown' | null {
  if (error) return 'failed'
  if (result === undefined) return null
  if (Array.isArray(interrupts) && interrupts.length > 0) return 'interrupted'
  return isObject(result) && Object.keys(result).length === 0 ? 'unknown' : 'completed'
}

/** Returns the node of a segment `node:task-id`. */
const nameOf = (ns: Namespace): string => ns.at(-1)?.split(':', 1)[0] ?? ''

const idOf = (config: JsonObject | undefined): unknown =>
  (config?.configurable as JsonObject | undefined)?.checkpoint_id

const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Converts a callback of a tool to its form in the protocol. */
function toolOf({ event, toolCallId, name, input, data, output, error }: JsonObject): JsonObject {
  const tool_call_id = String(toolCallId ?? '')
  switch (event) {
    case 'on_tool_start':
      return { event: 'tool-started', tool_call_id, tool_name: String(name ?? 'unknown'), input }
    case 'on_tool_event':
      return { event: 'tool-output-delta', tool_call_id, delta: typeof data === 'string' ? data : render(data ?? '') }
    case 'on_tool_end':
      return { event: 'tool-finished', tool_call_id, output }
    default: {
      const { message } = (isObject(error) ? error : {}) as { message?: unknown }
      return { event: 'tool-error', tool_call_id, message: String(message ?? error ?? 'The tool failed') }
    }
  }
}
