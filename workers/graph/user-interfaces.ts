/**
 * Bundles of user interfaces (`ui` of langgraph.json), made by an app host, which has the rights of the application. It is
 * started by the first question and stopped when idle: resource workers keep the answers.
 */
import type { UiCall } from '../../schemas/app-host.js'
import { fail } from '../../schemas/errors.js'
import { type AppHost, type AppHostOptions, openAppHost } from '../child/app-host.js'

/** The caller waits a little longer (resources/state/ask-graph.ts). */
const BUNDLE_MS = 30_000
const IDLE_MS = 60_000

export interface UserInterfaces {
  /** A packed UiHead and the files. Throws as AppHost.call. */
  bundle(call: UiCall): Promise<Uint8Array>
  stop(): Promise<void>
}

export function openUserInterfaces(options: Omit<AppHostOptions, 'parts'>): UserInterfaces {
  let host: AppHost | null = null
  let timer: NodeJS.Timeout | undefined

  const stop = async () => {
    clearTimeout(timer)
    const current = host
    host = null
    await current?.stop()
  }

  return {
    async bundle(call) {
      clearTimeout(timer)
      timer = setTimeout(() => void stop(), IDLE_MS)
      timer.unref()
      const current = (host ??= openAppHost({ ...options, parts: ['ui'] }))
      const { error } = await current.hello
      if (error !== null && !current.isReady()) throw fail('unavailable', error)
      return current.call(call, undefined, BUNDLE_MS)
    },
    stop,
  }
}
