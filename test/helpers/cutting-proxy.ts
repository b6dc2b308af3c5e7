/** A TCP proxy that resets connections in the middle of a response, as networks do. */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export interface CuttingProxy {
  url: string
  /** Cuts each of the next responses after this many bytes, one number per response. */
  cutAfter(...bytes: number[]): void
  /** Connections that were cut. */
  cuts(): number
  stop(): Promise<void>
}

/** In front of `url` (http, host and port). */
export async function cuttingProxy(url: string): Promise<CuttingProxy> {
  const { hostname, port } = new URL(url)
  const limits: number[] = []
  const sockets = new Set<Socket>()
  let cuts = 0
  const server = createServer(client => {
    const upstream = connect(Number(port), hostname)
    let limit = Infinity
    let passed = 0
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        sockets.delete(socket)
        client.destroy()
        upstream.destroy()
      })
    }
    client.on('data', () => {
      if (limit !== Infinity || limits.length === 0) return
      limit = limits.shift()!
      passed = 0
    })
    client.pipe(upstream)
    upstream.on('data', bytes => {
      const room = limit - passed
      passed += bytes.length
      if (bytes.length >= room) {
        cuts++
        upstream.pause()
        // The bytes below the limit are delivered, then the connection is reset.
        client.write(bytes.subarray(0, room), () => client.resetAndDestroy())
      } else if (!client.write(bytes)) {
        upstream.pause()
        client.once('drain', () => upstream.resume())
      }
    })
  })
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cutAfter: (...bytes) => void limits.push(...bytes),
    cuts: () => cuts,
    async stop() {
      for (const socket of sockets) socket.destroy()
      await new Promise(done => server.close(done))
    },
  }
}
