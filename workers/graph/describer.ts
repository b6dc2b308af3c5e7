/**
 * A host for questions about graphs: how they are drawn, and their schemas. It executes no runs, so an extraction that
 * is slow or blocks its event loop delays no run; it is started by the first question and stopped when idle.
 */
import type { GraphHost, HostOptions } from './host-process.js'
import { startHost } from './host-process.js'

/** The host is stopped this time after its last question. */
const IDLE_MS = 60_000
/** A question that holds the event loop longer ends its host. */
const MAX_BLOCKED_MS = 30_000

export interface Describer {
  /** The host, loaded. Null when the application cannot be loaded. */
  host(): Promise<GraphHost | null>
  stop(): Promise<void>
}

export function openDescriber(options: Omit<HostOptions, 'onBlocked'>): Describer {
  let current: GraphHost | null = null
  let timer: NodeJS.Timeout | undefined
  let stopping = false

  const stop = async () => {
    clearTimeout(timer)
    const host = current
    current = null
    await host?.stop()
  }

  return {
    async host() {
      if (stopping) return null
      clearTimeout(timer)
      timer = setTimeout(() => void stop(), IDLE_MS)
      timer.unref()
      current ??= startHost({
        ...options,
        onBlocked(host, _slot, ms) {
          if (ms > MAX_BLOCKED_MS) host.kill()
        },
        onExit(host, end) {
          if (current === host) current = null
          options.onExit(host, end)
        },
      })
      const host = current
      return (await host.hello).error === null ? host : null
    },
    stop() {
      stopping = true
      return stop()
    },
  }
}
