/**
 * The way back into the edge for code of applications: sockets that nobody else can open. The app host of the built-in
 * application uses one; that of a deployment sends streams over the broker, which are connected to a socket for that
 * deployment alone, so its requests are for no other one. Such a socket exists while streams of the deployment do.
 */
import { connect } from 'node:net'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import type { Link } from '../../bus/connect.js'
import { relay, type Tunnels } from '../../bus/tunnel.js'
import { BUILT_IN_APP, token } from '../../schemas/ids.js'
import { openSocketFolder } from '../../workers/child/socket-folder.js'

/** Listens on the path for requests of the application. */
type Listen = (path: string, app: string) => Promise<{ close(): unknown }>

interface Inner {
  server: Promise<{ close(): unknown }>
  streams: number
}

interface Options {
  tunnels: Tunnels
  link: Link
  /** Connects to the routes of the built-in application; null when it has none. */
  routes: (() => Duplex) | null
}

/** Accepts streams of deployments and of resource workers until `close`; `listen` opens one more socket. */
export function openInner({ tunnels, link, routes }: Options, listen: Listen) {
  const folder = openSocketFolder(null)
  const inners = new Map<string, Inner>()
  const servers = new Set<{ close(): unknown }>()

  async function open(path: string, app: string) {
    const server = await listen(path, app)
    servers.add(server)
    return server
  }

  async function onStream(stream: Duplex, app: string): Promise<void> {
    const path = join(folder.path, `${app === BUILT_IN_APP ? 'built-in' : token('deployment', app)}.sock`)
    const inner = inners.get(app) ?? { server: open(path, app), streams: 0 }
    inners.set(app, inner)
    inner.streams++
    stream.once('close', () => {
      if (--inner.streams > 0 || inners.get(app) !== inner) return
      inners.delete(app)
      void inner.server.then(
        server => {
          servers.delete(server)
          server.close()
        },
        () => {},
      )
    })
    await inner.server
    relay(stream, connect({ path, allowHalfOpen: true }))
  }

  tunnels.serveEdge((stream, app, from) => {
    // A webhook that names a route of the built-in application.
    if (from === 'resources') return routes === null ? void stream.destroy() : relay(stream, routes())
    onStream(stream, app).catch(error => {
      link.log.warn({ err: error, app }, 'a stream of an application could not be accepted')
      stream.destroy()
    })
  })

  return {
    listen: open,
    close() {
      for (const server of servers) server.close()
      folder.remove()
    },
  }
}
