/**
 * Renders a run as events of protocol v2 (docs/spec/protocol-v2.md), beside the classic events, if the creator of the
 * run requested them. The events carry the output of each graph under the namespace of that graph, chat messages as
 * content blocks, and derived events: the lifecycle of the run and of its subgraphs, and the pending interrupts.
 */

import { isObject, type JsonObject } from '../../../schemas/json.js'
import type { Namespace } from '../../../schemas/protocols/v2.js'
import type { Interrupt } from '../../../schemas/threads.js'
import { render } from '../render.js'
import { type Content, contentOf, type StreamedMessage } from './content.js'
import { taskOf } from './debug.js'
import type { Origin } from './origins/task.js'
import type { EventBuffer } from './stream.js'
import { type Ended, followSubgraphs, outcomeOf } from './subgraphs.js'

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
  /** Interrupts by id. They are sent when the run ends, because a client cannot answer earlier. */
  const pendingInterrupts = new Map<string, { ns: Namespace; value: unknown }>()
  /** Values that wait for their checkpoint: clients expect the checkpoint before its state. */
  let held: { ns: Namespace; values: unknown } | null = null
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

  const subgraphs = followSubgraphs({
    started(at, tool_call_id) {
      const cause = tool_call_id === undefined ? {} : { cause: { type: 'toolCall', tool_call_id } }
      send('lifecycle', at, { event: 'started', graph_name: nameOf(at), ...cause })
    },
    ended(at, event, error) {
      send('lifecycle', at, { event, graph_name: nameOf(at), ...(error ? { error: String(error) } : {}) })
    },
    settling: at => content.finish(at),
  })

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
      const { id, name } = payload as JsonObject
      const how = outcomeOf(payload as JsonObject)
      if (how !== null && how !== 'unknown') content.finish([...ns, `${name}:${id}`])
      send('tasks', ns, taskOf(payload))
      subgraphs.task(ns, payload as JsonObject)
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
      subgraphs.see(ns, mode === 'tasks' ? (payload as JsonObject) : undefined)
      takers[mode]?.(ns, payload, node)
    },
    message(origin, message, metadata) {
      release()
      subgraphs.see(origin.graph)
      content.take(origin, message, metadata as JsonObject)
    },
    end(how, error) {
      release()
      if (how !== 'failed') subgraphs.settle()
      else content.fail(error ?? 'The run failed')
      content.finish([])
      subgraphs.end(how, error)
      if (how === 'interrupted') sendInterrupts()
      send('lifecycle', [], { event: how, graph_name: graph_id, ...(error ? { error } : {}) }, { last: true })
    },
  }
}

/** Returns the node of a segment `node:task-id`. */
const nameOf = (ns: Namespace): string => ns.at(-1)?.split(':', 1)[0] ?? ''

const idOf = (config: JsonObject | undefined): unknown =>
  (config?.configurable as JsonObject | undefined)?.checkpoint_id

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
