/** The state of one run in its slot, shared by the files that execute it. */
import type { Graph } from './application.js'
import type { RunEvents } from './host-events.js'
import type { Host } from './host-port.js'
import type { EventBuffer } from './host-stream.js'
import type { StartHead } from './protocol.js'
import type { WeftSaver } from './saver.js'

export interface RunState {
  host: Host
  slot: number
  start: StartHead
  abort: AbortController
  events: EventBuffer
  /** Null unless the run's creator asked for events of protocol v2. */
  v2: RunEvents | null
  /** Null for a temporary run. */
  saver: WeftSaver | null
  graph: Graph | null
  /** The last values that the graph yielded. */
  values: { last: unknown } | null
  /** The graph yielded an interrupt: the state tells which. */
  paused: boolean
  /** A later attempt holds the run. */
  lost: boolean
  /** Why the run cannot go on: a save failed, or something became too large. */
  broken: { error: unknown } | null
  over: boolean
}
