/**
 * The app host of an application that is not the one of an edge: it runs beside the graph worker, which has the files and
 * the variables of the application, and edges ask it by calls to the pool.
 */
import type { AppHostSettings, CheckCall } from '../../schemas/app-host.js'
import { fail } from '../../schemas/errors.js'
import type { Hello } from '../../schemas/host.js'
import { unpack } from '../../schemas/packed.js'
import { type AppHostOptions, openAppHost } from '../child/app-host.js'

export interface GraphAppHost {
  settings: AppHostSettings
  isReady(): boolean
  /**
   * Passes a packed CheckCall on; resolves to the packed CheckAnswer. Rejects with `bad_request` for bytes that are none,
   * and as AppHost.call does.
   */
  check(bytes: Uint8Array): Promise<Uint8Array>
  stop(): Promise<void>
}

/**
 * Null when the application brings nothing that an app host runs. Throws an Error with one sentence when it cannot be
 * loaded: the application is not served without it.
 */
export async function startAppHost(
  options: Omit<AppHostOptions, 'parts' | 'sockets'>,
  { auth = null }: Hello,
): Promise<GraphAppHost | null> {
  if (auth === null) return null
  const host = openAppHost({ ...options, parts: ['auth'] })
  const { error } = await host.hello
  if (error !== null) {
    await host.stop()
    throw new Error(`the application cannot be served: ${error}`)
  }
  return {
    settings: { auth },
    isReady: host.isReady,
    check(bytes) {
      const { head, rest } = readCheck(bytes)
      return host.call(head, rest)
    },
    stop: host.stop,
  }
}

function readCheck(bytes: Uint8Array): { head: CheckCall; rest: Uint8Array } {
  try {
    const { head, rest } = unpack<CheckCall>(bytes)
    if (head.verb === 'check') return { head, rest }
  } catch {
    // As a call of another kind.
  }
  throw fail('bad_request', 'The call is no check of a request')
}
