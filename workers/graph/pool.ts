/**
 * The hosts of one graph worker: as many as the cores allow, restarted when they end, picked by load. A graph that
 * blocked an event loop, or whose run was charged with the end of a host, is isolated from then on: it runs in a host
 * without runs of other graphs, and further hosts are started on demand. A run that has ended a host runs solo in its
 * next attempts: in a host without any other run.
 */
import { availableParallelism } from 'node:os'
import type { Log } from '../../bus/log.js'
import type { Hello } from '../../schemas/host.js'
import type { HostUser } from '../child/process.js'
import type { Sandbox } from '../child/sandbox.js'
import type { Frame } from '../pipe.js'
import { isStuck, openHostChoice } from './host-choice.js'
import type { HostEnd } from './host-end.js'
import { type GraphHost, type HostOptions, startHost } from './host-process.js'

/** Pause before a host that never became ready is started again: doubled each time. */
const RESTART_MS = 100
const RESTART_MAX_MS = 5_000
/** A host beyond the wanted number is stopped after this time without a run. */
const SPARE_MS = 30_000
const REAP_MS = 10_000
/** A run that has ended a host waits this long for a host without other runs. */
const SOLO_MS = 10_000

export interface HostPool {
  /** The first host's greeting: which graphs there are, or why there are none. */
  hello: Promise<Hello>
  /** At least one host takes runs. */
  hasReadyHost(): boolean
  /**
   * The host for the next run of this graph, which has waited for `waited_ms`; null: none yet, `onChange` is called when
   * there may be one. A suspect has ended or blocked a host: it shares its next host with no other run, or, when it has
   * waited too long for that, with runs of its graph.
   */
  pick(graph_id: string, isSuspect: boolean, waited_ms: number): GraphHost | null
  /** The host for a call to this graph, other than those that were `tried`; null when none is ready. */
  pickForCall(graph_id: string, tried?: ReadonlySet<GraphHost>): GraphHost | null
  /** A host can answer a call now. */
  canAnswer(): boolean
  /** The graph shares no host with other graphs from now on; repeatable. `host`: one that has a run of it. */
  isolate(graph_id: string, why: string, host?: GraphHost): void
  all(): readonly GraphHost[]
  /** No host is started from now on. */
  quiet(): void
  stop(): Promise<void>
}

export interface PoolOptions {
  program: HostOptions['program']
  app: string
  /** The variables of hosts; those of this process without ours, when absent. */
  env?: { [name: string]: string | undefined }
  /** 0 = one less than the cores, at least one. */
  count: number
  memory_mb: number
  user: HostUser | null
  sandbox: Sandbox | null
  log: Log
  onFrame: (host: GraphHost, frame: Frame) => void
  onBlocked: (host: GraphHost, slot: number, ms: number) => void
  /** The host has ended; its runs must be given back. */
  onHostEnd: (host: GraphHost, end: HostEnd) => void
  /** A host became ready, has ended, or its event loop stands or turns: `pick` may return another answer now. */
  onChange: () => void
  onLine?: HostOptions['onLine']
}

export function startPool({
  program,
  app,
  env,
  count,
  memory_mb,
  user,
  sandbox,
  log,
  onFrame,
  onBlocked,
  onHostEnd,
  onChange,
  onLine,
}: PoolOptions): HostPool {
  const hosts = new Set<GraphHost>()
  const starting = new Set<GraphHost>()
  const ready = new Set<GraphHost>()
  const retired = new Set<GraphHost>()
  const isolated = new Set<string>()
  const wanted = count > 0 ? count : Math.max(1, availableParallelism() - 1)
  const most = Math.max(wanted, availableParallelism()) + 1
  let graphCount = 0
  let restarts = 0
  let stopping = false
  let pause = RESTART_MS

  function start(): GraphHost {
    const host = startHost({
      program,
      app,
      ...(env === undefined ? {} : { env }),
      memory_mb,
      user,
      sandbox,
      log,
      onFrame,
      onBlocked,
      onTurn: onChange,
      onLine,
      onRetire: retire,
      onExit,
    })
    hosts.add(host)
    starting.add(host)
    void host.hello.then(hello => {
      starting.delete(host)
      if (hello.error !== null || !hosts.has(host)) return
      graphCount = hello.graphs.length
      ready.add(host)
      pause = RESTART_MS
      onChange()
    })
    return host
  }

  const countHosts = () => hosts.size - retired.size + restarts

  function onExit(host: GraphHost, end: HostEnd): void {
    const wasReady = ready.delete(host)
    hosts.delete(host)
    // Its replacement was started when it retired.
    if (retired.delete(host)) return onHostEnd(host, end)
    if (stopping) return onHostEnd(host, end)
    if (end.slot !== 0) log.warn({ host: host.pid, error: end.error, why: end.message }, 'a graph host ended')
    if (wasReady && countHosts() < wanted) start()
    onHostEnd(host, end)
    onChange()
    // A host that never became ready fails again: the pause limits the rate of restarts.
    if (wasReady || countHosts() >= wanted) return
    restarts++
    setTimeout(() => {
      restarts--
      if (!stopping) start()
    }, pause)
    pause = Math.min(pause * 2, RESTART_MAX_MS)
  }

  /** The host takes no further runs, is replaced, and is stopped when it has no run. */
  function retire(host: GraphHost): void {
    if (!ready.delete(host)) return
    retired.add(host)
    log.warn({ host: host.pid }, 'nodes of ended runs occupy this graph host; it is replaced')
    if (!stopping) start()
  }

  /** True when a host is starting, beside the first `promised` of them. */
  function grow(promised = 0): boolean {
    if (starting.size > promised) return true
    if (stopping || countHosts() >= most) return false
    start()
    return true
  }

  const choice = openHostChoice({ ready, wanted, grow })

  const reaper = setInterval(() => {
    const now = performance.now()
    for (const host of retired) if (host.slots.size === 0) void host.stop()
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
    hasReadyHost: () => ready.size > 0,
    pick(graph_id, isSuspect, waited_ms) {
      const isolation = isSuspect
        ? waited_ms < SOLO_MS
          ? 'solo'
          : 'graph'
        : isolated.has(graph_id)
          ? 'graph'
          : 'shared'
      return choice.pick(graph_id, isolation, waited_ms)
    },
    pickForCall: (_, tried) => choice.pickForCall(tried),
    canAnswer: () => [...ready].some(host => !isStuck(host)),
    isolate(graph_id, why, host) {
      if (graphCount === 1) return
      // Runs of it that began before it was isolated are in a host with others.
      if (host !== undefined && host.reservedFor !== graph_id && !stopping) choice.drain(host)
      if (isolated.has(graph_id)) return
      isolated.add(graph_id)
      log.warn({ graph_id, why }, 'this graph shares no host with other graphs from now on')
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
