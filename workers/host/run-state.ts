/** The state of one run in its slot, shared by the modules that execute it. */

import type { StartHead } from '../../schemas/host.js'
import type { NodeGate } from './guards/node-gate.js'
import type { Graph } from './library/types.js'
import type { Host } from './port.js'
import type { Spans } from './spans.js'
import type { WeftSaver } from './storage/saver.js'
import type { RunEvents } from './streaming/events.js'
import type { Lifecycle } from './streaming/lifecycle.js'
import type { EventBuffer } from './streaming/stream.js'

export interface RunState {
  host: Host
  slot: number
  start: StartHead
  abort: AbortController
  gate: NodeGate
  events: EventBuffer
  /** Null unless the creator of the run requested events of protocol v2. */
  v2: RunEvents | null
  /** Null unless the stream mode `lifecycle` was requested. */
  lifecycle: Lifecycle | null
  /** Null for a temporary run. */
  saver: WeftSaver | null
  graph: Graph | null
  /** Null unless its parts are recorded. */
  spans: Spans | null
  /** The last values that the graph yielded. */
  values: { last: unknown } | null
  /** The graph yielded an interrupt; the state holds the interrupt. */
  paused: boolean
  /** URLs for feedback, by their keys; null: none were asked for, or LangSmith gave none. */
  feedback: { [key: string]: string } | null
  /** A later attempt holds the run. */
  lost: boolean
  /** The reason that the run cannot continue: a save failed, or a value exceeded its limit. */
  broken: { error: unknown } | null
  /** Nothing more is published: the run finishes. */
  ended: boolean
}
