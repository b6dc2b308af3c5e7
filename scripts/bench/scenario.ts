/** The type of a scenario and of its result. */
import type { LimitKind } from './limit.js'
import type { Meter, Spread } from './load.js'
import type { Kind, Server } from './server.js'

/** The runs that measure one graph host over its pipe: the kinds without checkpoints, and its memory. */
export type HostKind = Exclude<LimitKind, 'invoke-saver' | 'steps-saver'> | 'idle' | 'waiting'

export interface Bench {
  server: Server
  /** Null when the bench did not start the server. */
  kind: Kind | null
  /** Seconds before a window, and of the window. */
  warm: number
  seconds: number
  /** Fewer clients and shorter streams: checks correctness, not speed. */
  quick: boolean
  /** Length of a load over time. */
  minutes: number
  /** Rows of the larger server in rows about growth; null: that of the scenario. */
  size: number | null
  meter: Meter
}

export interface Outcome {
  value: number
  latency?: Spread
  /** Units of `per` in the meter's window; the budget is divided by it. */
  operations?: number
  /** Further figures by name. */
  also?: { [name: string]: number }
  /** Figures over time by name; x in seconds since the begin of the load. */
  series?: { [name: string]: [x: number, y: number][] }
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
  /** The same in a graph host without a server. */
  host?: HostKind
  /** The unit of a budget. */
  per: string
  /** Needs a server that it can start itself. */
  starts?: true
  /** One round: it takes minutes, and compares within itself. Not for development servers. */
  once?: true
  /** Needs a server with several pools. */
  pools?: true
  /** Throws a Wrong for a wrong answer. */
  run(bench: Bench): Promise<Outcome>
}
