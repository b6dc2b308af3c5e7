/**
 * A TCP proxy with the faults of networks: connections are reset, delayed, or become half open, which means that they stay
 * established and no byte passes, in both directions or in one.
 */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** Seen from the client of the proxy. */
export type Direction = 'out' | 'in' | 'both'

export interface HalfOpenProxy {
  /** `url` with the host and port of the proxy. */
  url: string
  /** No byte passes in this direction from now on, and new connections get no answer. */
  freeze(direction?: Direction): void
  /** The bytes that were held back pass, in order. */
  thaw(): void
  /** Resets all connections; new ones are accepted. */
  cut(): void
  /** Bytes that arrive from now on pass after this many milliseconds, in both directions. */
  delay(ms: number): void
  stop(): Promise<void>
}

export async function halfOpenProxy(url: string): Promise<HalfOpenProxy> {
  const { hostname, port } = new URL(url)
  const sockets = new Map<Socket, 'out' | 'in'>()
  let frozen: Direction | null = null
  let late = 0
  const isFrozen = (direction: 'out' | 'in') => frozen === 'both' || frozen === direction
  const server = createServer(client => {
    const upstream = connect(Number(port), hostname)
    for (const [from, to, direction] of [
      [client, upstream, 'out'],
      [upstream, client, 'in'],
    ] as const) {
      sockets.set(from, direction)
      if (isFrozen(direction)) from.pause()
      from.on('data', bytes => {
        const pass = () => {
          if (!to.write(bytes)) from.pause()
        }
        if (late === 0) pass()
        else setTimeout(pass, late)
      })
      to.on('drain', () => {
        if (!isFrozen(direction)) from.resume()
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
    freeze(direction = 'both') {
      frozen = direction
      for (const [socket, its] of sockets) if (isFrozen(its)) socket.pause()
    },
    thaw() {
      frozen = null
      for (const socket of sockets.keys()) socket.resume()
    },
    cut() {
      for (const socket of sockets.keys()) socket.resetAndDestroy()
    },
    delay(ms) {
      late = ms
    },
    async stop() {
      for (const socket of sockets.keys()) socket.destroy()
      await new Promise(done => server.close(done))
    },
  }
}
