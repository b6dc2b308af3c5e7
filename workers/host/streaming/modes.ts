/**
 * Selects the modes that a run requests from the library and converts the library's chunks to events
 * (docs/spec/streams.md#events). A mode that no client requested is never sent, even if another mode needs it.
 * Subgraphs are requested from the library only if the client requested them: since 1.7 this decides which tokens of
 * subgraphs the library sends.
 */
import type { JsonObject } from '../../../schemas/json.js'
import type { StreamMode } from '../../../schemas/runs.js'
import { render } from '../render.js'
import { checkpointOf, debugOf, taskOf } from './debug.js'
import type { RunEvents } from './events.js'
import type { Lifecycle } from './lifecycle.js'
import { accumulated, onlyOnce } from './messages.js'
import { CustomChunk } from './origins/custom.js'
import { originOf } from './origins/task.js'
import { type ToolOrigins, toolOrigins } from './origins/tool.js'
import { type EventBuffer, eventName } from './stream.js'

export type Chunk = [ns: readonly string[], mode: string, payload: unknown]

export interface Modes {
  /** The modes to request from the library. */
  library: string[]
  /** Only `custom` is requested: no other mode needs the same order, so the writer may push directly. */
  direct: boolean
  /** The library must deliver custom chunks as CustomChunk. */
  custom_origins: boolean
  /** The callback handler for the tools of the run. */
  tools: ToolOrigins | null
  /** Callbacks are also streamed. */
  callbacks: boolean
  take(chunk: Chunk): void
  custom(chunk: CustomChunk): void
  callback(event: { tags?: string[] }): void
}

export interface ModeOptions {
  requested: readonly StreamMode[]
  subgraphs: boolean
  /** The library has the modes `tasks` and `checkpoints`. */
  task_modes: boolean
  events: EventBuffer
  /** Null: the run sends no events of protocol v2. */
  v2: RunEvents | null
  /** Null unless the mode `lifecycle` is requested. It needs the chunks of subgraphs, which then arrive in all modes. */
  lifecycle: Lifecycle | null
  /** Receives the id of each checkpoint of the root graph, behind the events before it; null: nobody asks for them. */
  onCheckpoint: ((id: string) => void) | null
}

export function modesOf({
  requested,
  subgraphs,
  task_modes,
  events: { push },
  v2,
  lifecycle,
  onCheckpoint,
}: ModeOptions): Modes {
  const modes = new Set<StreamMode>(requested.length > 0 ? requested : ['values'])
  const send = (event: string, ns: readonly string[], payload: unknown) => {
    if (ns.length === 0 || subgraphs) push(eventName(event, ns), render(payload))
  }
  const takers: { [mode: string]: (ns: readonly string[], payload: unknown) => void } = {}
  const shapes: [StreamMode, (payload: unknown) => unknown][] = [
    ['values', payload => payload],
    ['updates', withNulls],
    ['custom', payload => payload],
    ['tasks', taskOf],
    ['checkpoints', checkpointOf],
    ['debug', debugOf],
    ['tools', payload => payload],
  ]
  for (const [mode, shape] of shapes)
    if (modes.has(mode)) takers[mode] = (ns, payload) => send(mode, ns, shape(payload))
  if (modes.has('messages') || modes.has('messages-tuple')) addMessages()
  const tools = modes.has('tools') ? toolOrigins({ subgraphs }) : null

  function addMessages(): void {
    const whole = modes.has('messages') ? accumulated(push) : null
    const tuples = modes.has('messages-tuple')
    const isNew = onlyOnce()
    takers.messages = (_, payload) => {
      const [message, metadata] = payload as [Parameters<typeof isNew>[0], JsonObject | undefined]
      if (!isNew(message)) return
      const origin = originOf(metadata)
      lifecycle?.take(origin.graph, 'messages', message)
      if (lifecycle !== null && !subgraphs && origin.graph.length > 0) return
      v2?.message(origin, message as never, metadata)
      // Versions before 1.7 send tokens of subgraphs under the bare name, even if the client did not request subgraphs.
      if (tuples) push(eventName('messages', subgraphs ? origin.graph : []), render(payload))
      whole?.chunk(message, metadata)
    }
    if (whole === null) return
    const { values } = takers
    takers.values = (ns, payload) => {
      values?.(ns, payload)
      if (ns.length === 0 || subgraphs) whole.values(ns.join('|'), payload)
    }
  }

  function take(ns: readonly string[], mode: string, payload: unknown, node?: string): void {
    lifecycle?.take(ns, mode, payload)
    takers[mode]?.(ns, payload)
    v2?.take(ns, mode, payload, node)
    if (onCheckpoint === null || mode !== 'checkpoints' || ns.length > 0) return
    const id = idOf(payload)
    if (id !== undefined) onCheckpoint(id)
  }

  const needed = Object.keys(takers)
  if (lifecycle !== null) needed.push('tasks')
  // In older versions only `debug` has them, which costs more than it brings.
  if (onCheckpoint !== null && task_modes) needed.push('checkpoints')
  const library = needed.map(mode => (!task_modes && IN_DEBUG.has(mode) ? 'debug' : mode))
  const direct = modes.has('custom') && modes.size === 1
  return {
    library: library.length > 0 ? [...new Set(library)] : ['values'],
    direct,
    custom_origins: modes.has('custom') && !direct,
    tools,
    callbacks: modes.has('events'),
    take([ns, mode, payload]) {
      if (mode === 'messages') return takers.messages?.(ns, payload)
      if (payload instanceof CustomChunk) return take(payload.origin.graph, mode, payload.value)
      if (mode === 'tools' && tools !== null) {
        const origin = tools.take(ns, payload)
        return origin === null ? undefined : take(origin.graph, mode, payload, origin.node)
      }
      take(ns, mode, payload)
      if (mode === 'debug' && !task_modes) {
        const { type, payload: inner } = payload as { type: string; payload: unknown }
        take(ns, type === 'checkpoint' ? 'checkpoints' : 'tasks', inner)
      }
    },
    custom: ({ origin, value }) => send('custom', origin.graph, value),
    callback(event) {
      if (!event.tags?.includes('langsmith:hidden')) push('events', render(event))
    },
  }
}

/** Modes that older versions of the library send only inside of `debug`, with the same payloads. */
const IN_DEBUG: ReadonlySet<string> = new Set(['tasks', 'checkpoints'])

/** A graph with a stream of its own may leave out the place of a checkpoint. */
const idOf = (payload: unknown): string | undefined =>
  (payload as { config?: { configurable?: { checkpoint_id?: string } } }).config?.configurable?.checkpoint_id

/** A node without writes is `{node: null}`; the library sends an empty object. */
function withNulls(payload: unknown): unknown {
  if (typeof payload !== 'object' || payload === null) return payload
  const updates = payload as JsonObject
  if (!Object.values(updates).some(isNothing)) return payload
  return Object.fromEntries(Object.entries(updates).map(([node, update]) => [node, isNothing(update) ? null : update]))
}

function isNothing(update: unknown): boolean {
  if (typeof update !== 'object' || update === null) return update === undefined
  if (Array.isArray(update)) return false
  for (const _ in update) return false
  return Object.getPrototypeOf(update) === Object.prototype
}
