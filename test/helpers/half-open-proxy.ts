/** A TCP proxy whose connections can become half open: they stay established, and no byte passes. */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export interface HalfOpenProxy {
  /** `url` with the host and port of the proxy. */
  url: string
  /** No byte passes in either direction from now on, and new connections get no answer. */
  freeze(): void
  /** What was held back passes, in order. */
  thaw(): void
  stop(): Promise<void>
}

export async function halfOpenProxy(url: string): Promise<HalfOpenProxy> {
  const { hostname, port } = new URL(url)
  const sockets = new Set<Socket>()
  let frozen = false
  const server = createServer(client => {
    const upstream = connect(Number(port), hostname)
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(from)
      if (frozen) from.pause()
      from.on('data', bytes => {
        if (!to.write(bytes)) from.pause()
      })
      to.on('drain', () => {
        if (!frozen) from.resume()
      })
      from.on('error', () => {})
      from.on('close', () => {
        sockets.delete(from)
        to.destroy()
      })
    }
  })
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done))
  const own = new URL(url)
  own.host = `127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    url: own.href,
    freeze() {
      frozen = true
      for (const socket of sockets) socket.pause()
    },
    thaw() {
      frozen = false
      for (const socket of sockets) socket.resume()
    },
    async stop() {
      for (const socket of sockets) socket.destroy()
      await new Promise(done => server.close(done))
    },
  }
}
