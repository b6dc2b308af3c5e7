/**
 * The app host of an application that is not the one of an edge: it runs beside the graph worker, which has the files and
 * the variables of the application. Edges ask its `auth` by calls to the pool, and reach its `http.app` by streams.
 */
import { connect } from 'node:net'
import type { Link } from '../../bus/connect.js'
import { openTunnels, relay } from '../../bus/tunnel.js'
import type { AppHostSettings, AppPart, CheckCall } from '../../schemas/app-host.js'
import { fail } from '../../schemas/errors.js'
import type { Hello } from '../../schemas/host.js'
import type { Pool } from '../../schemas/ids.js'
import { unpack } from '../../schemas/packed.js'
import { type AppHostOptions, openAppHost } from '../child/app-host.js'
import { httpSocket, openSocketFolder } from '../child/socket-folder.js'
import { openWayBack } from './way-back.js'

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

interface Options extends Omit<AppHostOptions, 'parts' | 'sockets'> {
  link: Link
  pool: Pool
}

/**
 * Null when the application brings nothing that an app host runs. Throws an Error with one sentence when it cannot be
 * loaded: the application is not served without it.
 */
export async function startAppHost(options: Options, { auth = null, http }: Hello): Promise<GraphAppHost | null> {
  const hasHttp = http?.app != null
  const parts: AppPart[] = [...(auth === null ? [] : ['auth' as const]), ...(hasHttp ? ['http' as const] : [])]
  if (parts.length === 0) return null
  const sockets = hasHttp ? await openSockets(options) : null
  const host = openAppHost({ ...options, parts, ...(sockets === null ? {} : { sockets: sockets.path }) })
  const stop = async () => {
    sockets?.close()
    await host.stop()
  }
  const { error, http: routes } = await host.hello
  if (error !== null) {
    await stop()
    throw new Error(`the application cannot be served: ${error}`)
  }
  sockets?.serve(host.isReady)
  return {
    settings: { auth, routes },
    isReady: host.isReady,
    check(bytes) {
      const { head, rest } = readCheck(bytes)
      return host.call(head, rest)
    },
    stop,
  }
}

/**
 * The sockets of `http.app` and the streams of edges: each request of an edge is a connection to the application, and each
 * connection of its code to the edge is a stream to any edge.
 */
async function openSockets({ link, pool, user, log }: Options) {
  const folder = openSocketFolder(user)
  const tunnels = openTunnels(link)
  const back = await openWayBack(tunnels, folder, log)
  return {
    path: folder.path,
    serve(isReady: () => boolean) {
      tunnels.servePool(pool, stream => {
        if (!isReady()) return void stream.destroy()
        relay(stream, connect({ path: httpSocket(folder.path), allowHalfOpen: true }))
      })
    },
    close() {
      tunnels.close()
      back.close()
      folder.remove()
    },
  }
}

function readCheck(bytes: Uint8Array): { head: CheckCall; rest: Uint8Array } {
  try {
    const { head, rest } = unpack<CheckCall>(bytes)
    if (head.verb === 'check') return { head, rest }
  } catch {
    // Fails like a call of another kind.
  }
  throw fail('bad_request', 'The call is no check of a request')
}
