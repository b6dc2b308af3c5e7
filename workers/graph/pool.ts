/** The hosts of one graph worker: as many as the cores allow, restarted when they die, chosen by load. */
import { availableParallelism } from 'node:os'
import type { Log } from '../../bus/log.js'
import type { Frame } from './frames.js'
import { type GraphHost, startHost } from './host-process.js'
import type { Hello } from './protocol.js'

const MAX_SLOTS = 1_000
/** A host whose event loop is later than this gets no new run (design 2.8). */
const LATE_MS = 50
const RESTART_MS = 100
const RESTART_MAX_MS = 5_000

export interface HostPool {
  /** The first host's greeting: which graphs there are, or why there are none. */
  hello: Promise<Hello>
  /** The host to give the next run to; null when none is up. */
  choose(): GraphHost | null
  all(): readonly GraphHost[]
  stop(): Promise<void>
}

export interface PoolOptions {
  app: string
  /** 0 = one less than the cores, at least one. */
  count: number
  log: Log
  onFrame: (host: GraphHost, frame: Frame) => void
  /** The host is gone; what it ran must be given back. */
  onLost: (host: GraphHost, why: string) => void
  onReady: () => void
}

export function startPool({ app, count, log, onFrame, onLost, onReady }: PoolOptions): HostPool {
  const hosts = new Set<GraphHost>()
  const ready = new Set<GraphHost>()
  let stopping = false
  let pause = RESTART_MS

  function start(): GraphHost {
    const host = startHost({
      app,
      log,
      onFrame,
      onExit: (host, why) => {
        hosts.delete(host)
        const wasReady = ready.delete(host)
        if (stopping) return
        log.warn({ host: host.pid, why }, 'a graph host ended; starting another')
        onLost(host, why)
        pause = wasReady ? RESTART_MS : Math.min(pause * 2, RESTART_MAX_MS)
        setTimeout(() => stopping || start(), pause)
      },
    })
    hosts.add(host)
    void host.hello.then(hello => {
      if (hello.error !== null || !hosts.has(host)) return
      ready.add(host)
      onReady()
    })
    return host
  }

  const first = start()
  const wanted = count > 0 ? count : Math.max(1, availableParallelism() - 1)
  for (let n = 1; n < wanted; n++) start()

  return {
    hello: first.hello,
    choose() {
      let best: GraphHost | null = null
      for (const host of ready) {
        if (host.slots.size >= MAX_SLOTS) continue
        const load = host.slots.size + (host.late > LATE_MS ? MAX_SLOTS : 0)
        if (best === null || load < best.slots.size + (best.late > LATE_MS ? MAX_SLOTS : 0)) best = host
      }
      return best
    },
    all: () => [...hosts],
    async stop() {
      stopping = true
      await Promise.all([...hosts].map(host => host.stop()))
    },
  }
}
