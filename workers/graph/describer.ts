/**
 * A host for questions about graphs: how they are drawn, and their schemas. It executes no runs, so an extraction that
 * is slow or blocks its event loop delays no run; it is started by the first question that no other host answers (pools.ts), and
 * stopped when idle.
 */
import type { Language } from '../../schemas/description.js'
import type { Program } from '../child/start.js'
import type { GraphHost, HostOptions } from './host-process.js'
import { startHost } from './host-process.js'

/** The host is stopped this time after its last question. */
const IDLE_MS = 60_000
/** A question that holds the event loop longer ends its host. */
const MAX_BLOCKED_MS = 30_000

export interface Describer {
  /** The host of a language, loaded. Null when the application cannot be loaded. */
  host(language: Language): Promise<GraphHost | null>
  stop(): Promise<void>
}

export interface DescriberOptions extends Omit<HostOptions, 'program' | 'onBlocked' | 'onRetire'> {
  programOf(language: Language): Program
}

export function openDescriber({ programOf, ...options }: DescriberOptions): Describer {
  const current = new Map<Language, GraphHost>()
  let timer: NodeJS.Timeout | undefined
  let stopping = false

  const stop = async () => {
    clearTimeout(timer)
    const hosts = [...current.values()]
    current.clear()
    await Promise.all(hosts.map(host => host.stop()))
  }

  function start(language: Language): GraphHost {
    const host = startHost({
      ...options,
      program: () => programOf(language),
      onBlocked(host, _slot, ms) {
        if (ms > MAX_BLOCKED_MS && !host.isLoading) host.kill()
      },
      // It executes no runs.
      onRetire() {},
      onExit(host, end) {
        if (current.get(language) === host) current.delete(language)
        options.onExit(host, end)
      },
    })
    current.set(language, host)
    return host
  }

  return {
    async host(language) {
      if (stopping) return null
      clearTimeout(timer)
      timer = setTimeout(() => void stop(), IDLE_MS)
      timer.unref()
      const host = current.get(language) ?? start(language)
      return (await host.hello).error === null ? host : null
    },
    stop() {
      stopping = true
      return stop()
    },
  }
}
