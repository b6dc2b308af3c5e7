/**
 * Which host gets the next run. Runs share the first hosts that are not blocked; hosts beyond the wanted number are
 * left to isolated graphs and to solo runs, or nothing would ever be empty under steady load. A run that needs an empty
 * host while all are in use waits for one that is drained for it, and after a limit shares that one: it never starves.
 */
import type { GraphHost } from './host-process.js'

export const MAX_SLOTS = 1_000
/** A host whose event loop is later than this gets no new run while another is ready (decision 008). */
const LATE_MS = 50
const STUCK_MS = 2_000
/**
 * A run waits this long for the end of a block, or for another host: a blocked host begins the runs it was given only
 * after the block, and they cannot be taken back.
 */
const HELD_MS = 2_000
/** A run waits this long for a host that is drained for it; then it shares the host with what is left in it. */
const SHARE_MS = 5_000
/** … while no other isolated or solo run got a host in this time: as long as one does, it waits for its turn. */
const TURN_MS = 10_000
/** A host is drained this long after the last run has asked for it: waiting runs ask every 5 s at least. */
const DRAIN_MS = 10_000
/** Marks a host that is reserved for a single run: no graph has this name. */
const SOLO = '\0'

/** shared: with any run. graph: with runs of its graph only. solo: with no other run. */
export type Isolation = 'shared' | 'graph' | 'solo'

export interface HostChoice {
  /** The host for the next run of this graph, which has waited for `waited_ms`; null: none yet. */
  pick(graph_id: string, isolation: Isolation, waited_ms: number): GraphHost | null
  /** A run of a graph that is isolated from now on is in this host: others start elsewhere for a while, if they can. */
  drain(host: GraphHost): void
  /** The host for a call, other than those that were `tried`; null when none is ready. */
  pickForCall(tried?: ReadonlySet<GraphHost>): GraphHost | null
}

export interface HostChoiceOptions {
  /** The hosts that take runs, in the order of their start. */
  ready: Iterable<GraphHost>
  /** The number of hosts that are always there. */
  wanted: number
  /** True when a host is starting, beside the first `promised` of them. */
  grow(promised?: number): boolean
  /** Milliseconds of a clock that never jumps. */
  now?: () => number
}

export function openHostChoice({ ready, wanted, grow, now = () => performance.now() }: HostChoiceOptions): HostChoice {
  const draining = new WeakMap<GraphHost, number>()
  let reserved_at = -TURN_MS

  const reservedFor = (host: GraphHost) => (host.slots.size > 0 ? host.reservedFor : null)
  const withFreeSlots = () => [...ready].filter(host => host.slots.size < MAX_SLOTS)
  const isDraining = (host: GraphHost) => host.slots.size > 0 && (draining.get(host) ?? 0) > now()

  function pick(graph_id: string, isolation: Isolation, waited_ms: number): GraphHost | null {
    const all = withFreeSlots()
    const unreserved = all.filter(host => reservedFor(host) === null)
    const isWorthWaiting = (host: GraphHost) => host.holder !== 0 && !host.blocked && waited_ms < HELD_MS
    if (isolation === 'shared') {
      const host = pickShared(unreserved.filter(host => !isDraining(host)))
      return host !== null && isWorthWaiting(host) ? null : host
    }
    const host = isolation === 'solo' ? reserve(SOLO, unreserved) : pickForGraph(graph_id, all, unreserved)
    if (host !== null && isWorthWaiting(host)) return null
    if (host !== null || waited_ms < SHARE_MS || isolation === 'solo' || now() - reserved_at < TURN_MS) return host
    return leastLoaded(unreserved.filter(isDraining)) ?? leastLoaded(unreserved)
  }

  /** A blocked host gets no new run while another is ready or can be started. */
  function pickShared(shared: GraphHost[]): GraphHost | null {
    const best = leastLoaded(shared.filter(host => !host.blocked).slice(0, wanted))
    if (best === null) return grow() ? null : leastLoaded(shared)
    best.reservedFor = null
    return best
  }

  function pickForGraph(graph_id: string, all: GraphHost[], unreserved: GraphHost[]): GraphHost | null {
    const own = all.filter(host => reservedFor(host) === graph_id)
    const responsive = leastLoaded(own.filter(host => !host.blocked))
    if (responsive !== null) return responsive
    const host = reserve(graph_id, unreserved)
    if (host !== null || grow(unreserved.length > 0 ? 0 : 1)) return host
    // More isolated graphs than hosts: they share hosts among themselves.
    return leastLoaded(own) ?? leastLoaded(all.filter(host => ![null, SOLO].includes(reservedFor(host))))
  }

  /** Reserves an empty host: the last one, for runs share the first ones. One host always stays shared. */
  function reserve(name: string, unreserved: GraphHost[]): GraphHost | null {
    if (unreserved.length > 1) {
      const host = unreserved.findLast(host => host.slots.size === 0 && !host.blocked)
      if (host !== undefined) {
        host.reservedFor = name
        reserved_at = now()
        return host
      }
    }
    if (!grow(unreserved.length > 0 ? 0 : 1) && unreserved.length > 1) {
      const host = unreserved.find(isDraining) ?? leastLoaded(unreserved.filter(host => !host.blocked))
      if (host !== null) draining.set(host, now() + DRAIN_MS)
    }
    return null
  }

  return {
    pick,
    drain(host) {
      const others = withFreeSlots().filter(one => one !== host && reservedFor(one) === null && !isDraining(one))
      if (others.length > 0 || grow()) draining.set(host, now() + DRAIN_MS)
    },
    pickForCall(tried = NONE) {
      const untried = withFreeSlots().filter(host => !tried.has(host))
      return leastLoaded(untried.filter(host => reservedFor(host) === null && !isStuck(host))) ?? leastLoaded(untried)
    },
  }
}

const NONE: ReadonlySet<GraphHost> = new Set()

/** Its event loop does not turn: what it is asked waits. */
export const isStuck = (host: GraphHost): boolean => host.blocked || host.late() > STUCK_MS

const loadOf = (host: GraphHost) => host.slots.size + (host.holder !== 0 || host.late() > LATE_MS ? MAX_SLOTS : 0)

function leastLoaded(hosts: GraphHost[]): GraphHost | null {
  let best: GraphHost | null = null
  for (const host of hosts) if (best === null || loadOf(host) < loadOf(best)) best = host
  return best
}
