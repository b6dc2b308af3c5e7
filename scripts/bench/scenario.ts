/** What a scenario is, and what it says of a server. */
import type { LimitKind } from './limit.js'
import type { Meter, Spread } from './load.js'
import type { Kind, Server } from './server.js'

export interface Bench {
  server: Server
  /** Null when the server was not started by us. */
  kind: Kind | null
  /** Seconds before and of a window. */
  warm: number
  seconds: number
  /** Fewer clients and shorter streams: shows that it works, not how fast. */
  quick: boolean
  meter: Meter
}

export interface Outcome {
  value: number
  latency?: Spread
  /** What happened within the meter's window, in units of `per`: the budget is divided by it. */
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
  /** What a budget is counted for. */
  per: string
  /** Needs a server that it may start by itself. */
  starts?: true
  /** Throws a Wrong when an answer is not what it must be. */
  run(bench: Bench): Promise<Outcome>
}
