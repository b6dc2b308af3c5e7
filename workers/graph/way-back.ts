/**
 * The way from code of graphs and of app hosts into the API: a socket in their folder, whose connections are streams to any
 * edge, for the application of this graph worker alone.
 */
import { createServer } from 'node:net'
import { join } from 'node:path'
import type { Link } from '../../bus/connect.js'
import type { Log } from '../../bus/log.js'
import { openTunnels, relay, type Tunnels } from '../../bus/tunnel.js'
import { EDGE_SOCKET } from '../../schemas/app-host.js'
import type { HostUser } from '../child/process.js'
import { openSocketFolder, type SocketFolder } from '../child/socket-folder.js'

/** Listens in the folder for requests of the application. */
export async function openWayBack(tunnels: Tunnels, folder: SocketFolder, log: Log): Promise<{ close(): void }> {
  const back = createServer({ allowHalfOpen: true }, socket => {
    // Without a listener an error of the connection would end this process.
    socket.on('error', () => {})
    try {
      relay(tunnels.open('any edge'), socket)
    } catch (error) {
      log.warn({ err: error }, 'a request of the application could not be passed on')
      socket.destroy()
    }
  })
  const path = join(folder.path, EDGE_SOCKET)
  await new Promise<void>((resolve, reject) => back.once('error', reject).listen(path, resolve))
  folder.admit(EDGE_SOCKET)
  return { close: () => void back.close() }
}

/** The same with a folder of its own, for graph hosts. */
export async function openHostSockets(link: Link, user: HostUser | null, log: Log) {
  const folder = openSocketFolder(user)
  const tunnels = openTunnels(link)
  const back = await openWayBack(tunnels, folder, log)
  return {
    path: folder.path,
    async close() {
      tunnels.close()
      back.close()
      folder.remove()
    },
  }
}
