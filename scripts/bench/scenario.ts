/** The type of a scenario and of its result. */
import type { LimitKind } from './limit.js'
import type { Meter, Spread } from './load.js'
import type { Kind, Server } from './server.js'

export interface Bench {
  server: Server
  /** Null when the bench did not start the server. */
  kind: Kind | null
  /** Seconds before a window, and of the window. */
  warm: number
  seconds: number
  /** Fewer clients and shorter streams: checks correctness, not speed. */
  quick: boolean
  meter: Meter
}

export interface Outcome {
  value: number
  latency?: Spread
  /** Units of `per` in the meter's window; the budget is divided by it. */
  operations?: number
  /** Further figures by name. */
  also?: { [name: string]: number }
}

export interface Scenario {
  name: string
  what: string
  unit: string
  better: 'more' | 'less'
  /** First target on two cores with the client on them. */
  target?: number
  /** The same graph invoked directly, without a server. */
  limit?: LimitKind
  /** The unit of a budget. */
  per: string
  /** Needs a server that it can start itself. */
  starts?: true
  /** Throws a Wrong for a wrong answer. */
  run(bench: Bench): Promise<Outcome>
}
