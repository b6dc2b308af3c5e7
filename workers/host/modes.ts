/**
 * What a run streams: which modes are asked of the library, and how its chunks become events (API: event catalogue).
 * A mode that nobody requested never leaves, also when another one needs it.
 */
import type { JsonObject } from '../../schemas/json.js'
import type { StreamMode } from '../../schemas/runs.js'
import { checkpointOf, debugOf, taskOf } from './debug.js'
import type { RunEvents } from './events.js'
import { accumulated, onlyOnce } from './messages.js'
import { render } from './render.js'
import type { EventBuffer } from './stream.js'

export type Chunk = [ns: readonly string[], mode: string, payload: unknown]

export interface Modes {
  /** What to ask of the library. */
  library: string[]
  /** The library must say where each chunk comes from. */
  places: boolean
  /** Nothing but `custom`: with no other mode to keep order with, the writer may push by itself. */
  direct: boolean
  /** Callbacks are streamed too. */
  callbacks: boolean
  take(chunk: Chunk): void
  custom(ns: readonly string[], payload: unknown): void
  callback(event: { tags?: string[] }): void
}

export function modesOf(
  requested: readonly StreamMode[],
  subgraphs: boolean,
  { push }: EventBuffer,
  v2: RunEvents | null = null,
): Modes {
  const modes = new Set<StreamMode>(requested.length > 0 ? requested : ['values'])
  const send = (event: string, ns: readonly string[], payload: unknown) => {
    if (ns.length === 0 || subgraphs) push(nameOf(event, ns), render(payload))
  }
  const takers: { [mode: string]: (ns: readonly string[], payload: unknown) => void } = {}
  const shapes: [StreamMode, (payload: unknown) => unknown][] = [
    ['values', payload => payload],
    ['updates', withNulls],
    ['custom', payload => payload],
    ['tasks', taskOf],
    ['checkpoints', checkpointOf],
    ['debug', debugOf],
  ]
  for (const [mode, shape] of shapes)
    if (modes.has(mode)) takers[mode] = (ns, payload) => send(mode, ns, shape(payload))
  if (modes.has('tools')) takers.tools = (ns, payload) => send('tools', ns.slice(0, -1), payload)
  if (modes.has('messages') || modes.has('messages-tuple')) addMessages()

  /** Their namespace is that of the node: without its last part it is the graph's, which names the event. */
  function addMessages(): void {
    const whole = modes.has('messages') ? accumulated(push) : null
    const tuples = modes.has('messages-tuple')
    const isNew = onlyOnce()
    takers.messages = (ns, payload) => {
      const [message, metadata] = payload as [Parameters<typeof isNew>[0], unknown]
      if (!isNew(message)) return
      v2?.message(ns, message as never, metadata)
      // Tokens of subgraphs come also when nobody asked for subgraphs, under the bare name.
      if (tuples) push(nameOf('messages', subgraphs ? ns.slice(0, -1) : []), render(payload))
      whole?.chunk(message, metadata)
    }
    if (whole === null) return
    const { values } = takers
    takers.values = (ns, payload) => {
      values?.(ns, payload)
      if (ns.length === 0 || subgraphs) whole.values(ns.join('|'), payload)
    }
  }

  const library = Object.keys(takers)
  const callbacks = modes.has('events')
  return {
    library: library.length > 0 ? library : ['values'],
    // The library drops other chunks of subgraphs by itself, but not these.
    places: subgraphs || (modes.has('custom') && modes.size > 1) || modes.has('tools'),
    direct: modes.has('custom') && modes.size === 1,
    callbacks,
    take([ns, mode, payload]) {
      takers[mode]?.(ns, payload)
      if (mode !== 'messages') v2?.take(ns, mode, payload)
    },
    custom: (ns, payload) => send('custom', ns, payload),
    callback(event) {
      if (!event.tags?.includes('langsmith:hidden')) push('events', render(event))
    },
  }
}

/** API: the namespace follows the name; root events have the bare name. */
const nameOf = (event: string, ns: readonly string[]): string =>
  ns.length === 0 ? event : `${event}|${ns.join('|').replace(/[\r\n]/g, ' ')}`

/** A node without writes is `{node: null}`; the library makes it an empty object. */
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
