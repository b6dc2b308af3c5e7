/**
 * The hosts of one graph worker: as many as the cores allow, restarted when they die, chosen by load. A graph that
 * blocked an event loop, or whose run was charged with the death of a host, runs alone from then on: in a host without
 * runs of other graphs, of which more are started on demand. A run that has ended a host gets its next ones to itself.
 */
import { availableParallelism } from 'node:os'
import type { Log } from '../../bus/log.js'
import type { Hello } from '../../schemas/host.js'
import type { Frame } from '../pipe.js'
import type { HostEnd } from './host-end.js'
import { type GraphHost, startHost } from './host-process.js'

const MAX_SLOTS = 1_000
/** A host whose event loop is later than this gets no new run while another is there (design 2.8). */
const LATE_MS = 50
/** Before a host that never got ready is started again: doubled each time. */
const RESTART_MS = 100
const RESTART_MAX_MS = 5_000
/** A host beyond the wanted number that had nothing to do for so long is stopped. */
const SPARE_MS = 30_000
const REAP_MS = 10_000
/** Kept for a single run: no graph has this name. */
const SOLO = '\0'

export interface HostPool {
  /** The first host's greeting: which graphs there are, or why there are none. */
  hello: Promise<Hello>
  /** At least one host takes runs. */
  open(): boolean
  /**
   * The host for the next run of this graph; null: none yet, and `onChange` will tell. `solo`: it shares with no other
   * run, unless it waited long for that.
   */
  place(graph_id: string, solo: 'no' | 'yes' | 'given up'): GraphHost | null
  /** The host for a question; null when none is up. */
  choose(): GraphHost | null
  /** The graph runs alone from now on. */
  isolate(graph_id: string, why: string): void
  all(): readonly GraphHost[]
  /** Starts no host any more. */
  quiet(): void
  stop(): Promise<void>
}

export interface PoolOptions {
  app: string
  /** The variables that hosts see; this process's own, without what is ours, when absent. */
  env?: { [name: string]: string | undefined }
  /** 0 = one less than the cores, at least one. */
  count: number
  memory_mb: number
  log: Log
  onFrame: (host: GraphHost, frame: Frame) => void
  onBlocked: (host: GraphHost, slot: number, ms: number) => void
  /** The host is gone; what it ran must be given back. */
  onLost: (host: GraphHost, end: HostEnd) => void
  /** There is another host, or room for one: `place` may know a place now. */
  onChange: () => void
}

export function startPool({
  app,
  env,
  count,
  memory_mb,
  log,
  onFrame,
  onBlocked,
  onLost,
  onChange,
}: PoolOptions): HostPool {
  const hosts = new Set<GraphHost>()
  const starting = new Set<GraphHost>()
  const ready = new Set<GraphHost>()
  const alone = new Set<string>()
  const wanted = count > 0 ? count : Math.max(1, availableParallelism() - 1)
  const most = Math.max(wanted, availableParallelism()) + 1
  let graphs = 0
  let waiting = 0
  let stopping = false
  let pause = RESTART_MS

  function start(): GraphHost {
    const host = startHost({ app, ...(env === undefined ? {} : { env }), memory_mb, log, onFrame, onBlocked, onExit })
    hosts.add(host)
    starting.add(host)
    void host.hello.then(hello => {
      starting.delete(host)
      if (hello.error !== null || !hosts.has(host)) return
      graphs = hello.graphs.length
      ready.add(host)
      pause = RESTART_MS
      onChange()
    })
    return host
  }

  function onExit(host: GraphHost, end: HostEnd): void {
    const wasReady = ready.delete(host)
    hosts.delete(host)
    if (stopping) return onLost(host, end)
    if (end.slot !== 0) log.warn({ host: host.pid, error: end.error, why: end.message }, 'a graph host ended')
    if (wasReady && hosts.size + waiting < wanted) start()
    onLost(host, end)
    onChange()
    // One that never got ready fails again: not at once, and not for ever at full speed.
    if (wasReady || hosts.size + waiting >= wanted) return
    waiting++
    setTimeout(() => {
      waiting--
      if (!stopping) start()
    }, pause)
    pause = Math.min(pause * 2, RESTART_MAX_MS)
  }

  /** True when another host is on its way, beside those that are spoken for. */
  function grow(spoken = 0): boolean {
    if (starting.size > spoken) return true
    if (stopping || hosts.size + waiting >= most) return false
    start()
    return true
  }

  const kept = (host: GraphHost) => (host.slots.size > 0 ? host.only : null)
  /** A host that is free to be kept for somebody. One always stays for the others. */
  const empty = (shared: GraphHost[]) =>
    shared.length > 1 ? shared.find(host => host.slots.size === 0 && !host.blocked) : undefined
  const up = () => [...ready].filter(host => host.slots.size < MAX_SLOTS)

  function place(graph_id: string, solo: 'no' | 'yes' | 'given up'): GraphHost | null {
    const all = up()
    const shared = all.filter(host => kept(host) === null)
    if (solo === 'yes') {
      const host = empty(shared)
      if (host !== undefined) host.only = SOLO
      else grow(shared.length > 0 ? 0 : 1)
      return host ?? null
    }
    return alone.has(graph_id) || solo === 'given up' ? apart(graph_id, all, shared) : among(shared)
  }

  /** A blocked host gets nothing new while another is there or can be. */
  function among(shared: GraphHost[]): GraphHost | null {
    const best = least(shared.filter(host => !host.blocked))
    if (best === null) return grow() ? null : least(shared)
    best.only = null
    return best
  }

  function apart(graph_id: string, all: GraphHost[], shared: GraphHost[]): GraphHost | null {
    const own = all.filter(host => kept(host) === graph_id)
    const awake = least(own.filter(host => !host.blocked))
    if (awake !== null) return awake
    const host = empty(shared)
    if (host !== undefined) {
      host.only = graph_id
      return host
    }
    if (grow(shared.length > 0 ? 0 : 1)) return null
    // More such graphs than hosts: they share among themselves.
    return least(own) ?? least(all.filter(host => kept(host) !== null && host.only !== SOLO))
  }

  const reaper = setInterval(() => {
    const now = Date.now()
    for (const host of ready) {
      if (ready.size <= wanted) return
      if (host.slots.size > 0 || host.idle_since > now - SPARE_MS) continue
      ready.delete(host)
      void host.stop()
    }
  }, REAP_MS)
  reaper.unref()

  const first = start()
  for (let n = 1; n < wanted; n++) start()

  return {
    hello: first.hello,
    open: () => ready.size > 0,
    place,
    choose: () => least(up().filter(host => kept(host) === null)) ?? least(up()),
    isolate(graph_id, why) {
      if (alone.has(graph_id) || graphs === 1) return
      alone.add(graph_id)
      log.warn({ graph_id, why }, 'this graph runs in a host of its own from now on')
    },
    all: () => [...hosts],
    quiet() {
      stopping = true
    },
    async stop() {
      stopping = true
      clearInterval(reaper)
      await Promise.all([...hosts].map(host => host.stop()))
    },
  }
}

const loadOf = (host: GraphHost) => host.slots.size + (host.holder !== 0 || host.late() > LATE_MS ? MAX_SLOTS : 0)

function least(hosts: GraphHost[]): GraphHost | null {
  let best: GraphHost | null = null
  for (const host of hosts) if (best === null || loadOf(host) < loadOf(best)) best = host
  return best
}
