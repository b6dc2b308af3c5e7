/**
 * WebSockets of uWebSockets.js: refuses an upgrade before a socket is opened, and keeps the library's types inside.
 */
import type { TemplatedApp, WebSocket } from 'uWebSockets.js'
import type { CallHead } from '../schemas/calls.js'
import type { Edge } from './context.js'
import type { SocketPass } from './guard.js'
import type { Exchange } from './http/exchange.js'
import type { Route } from './routes.js'

/** The client of one connection. */
export interface Peer {
  /** False when its buffer is full: the text is sent all the same, and `onDrain` is called when there is room. */
  send(text: string | Uint8Array): boolean
  close(code: number, reason: string): void
}

/** The handler of one connection. */
export interface Socket {
  onMessage(bytes: Uint8Array): void
  onDrain(): void
  onClose(): void
}

export type OpenSocket = (head: CallHead, pass: SocketPass, peer: Peer) => Socket

export const MANY_STREAMS = 'Too many open streams of this address; WEFT_STREAMS_PER_ADDRESS sets the limit'

interface Connection {
  head: CallHead
  pass: SocketPass
  socket: Socket | null
  /** Gives its place among the streams of its address back. */
  release: () => void
}

/** Seconds without a frame, not even an answer to a ping, after which a connection is closed. */
const IDLE_SECS = 60
const NOTHING = new Uint8Array(0)

/** `admit` applies the checks of all requests to an upgrade; null when it was refused and answered. */
export function serveSockets(
  app: TemplatedApp,
  edge: Edge,
  admit: (
    ...request: Parameters<NonNullable<Parameters<TemplatedApp['ws']>[1]['upgrade']>>
  ) => { exchange: Exchange; route: Route } | null,
  openSocket: OpenSocket,
): void {
  const { log } = edge.link
  const guard = (work: () => void) => {
    try {
      work()
    } catch (error) {
      log.error({ err: error }, 'a WebSocket failed')
    }
  }
  app.ws<Connection>('/*', {
    // uWebSockets.js buffers an unfinished message where no budget counts it. Larger input is sent over HTTP.
    maxPayloadLength: Math.min(edge.config.socket_bytes, 2 ** 31 - 1),
    // Checked before a write: one event may be larger.
    maxBackpressure: edge.config.socket_bytes,
    closeOnBackpressureLimit: true,
    idleTimeout: IDLE_SECS,
    sendPingsAutomatically: true,
    upgrade(res, req, context) {
      const [key, protocol, extensions] = ['key', 'protocol', 'extensions'].map(name =>
        req.getHeader(`sec-websocket-${name}`),
      ) as [string, string, string]
      guard(() => {
        const admitted = admit(res, req, context)
        if (admitted === null) return
        const { exchange, route } = admitted
        const complete = () => {
          if (exchange.over) return
          // The exchange is over when the WebSocket is open.
          const release = edge.clients.openStream({ remoteAddress: exchange.remoteAddress })
          if (release === null) return exchange.refuse('too_many', MANY_STREAMS)
          const connection = { head: exchange.callHead(), pass: edge.guard.passOf(exchange), socket: null, release }
          exchange.handOver(() => res.upgrade<Connection>(connection, key, protocol, extensions, context))
        }
        const passed = edge.guard.admit(exchange, route, NOTHING)
        if (!(passed instanceof Promise)) return passed === null ? undefined : complete()
        passed.then(body => body !== null && exchange.cork(complete)).catch(error => exchange.fail(error))
      })
    },
    open: ws => guard(() => open(ws, openSocket)),
    // The bytes are only valid during the call.
    message: (ws, message) => guard(() => void ws.getUserData().socket?.onMessage(Buffer.from(message.slice(0)))),
    drain: ws => guard(() => ws.getUserData().socket?.onDrain()),
    close(ws) {
      const connection = ws.getUserData()
      guard(() => connection.socket?.onClose())
      connection.socket = null
      connection.release()
    },
  })
}

function open(ws: WebSocket<Connection>, openSocket: OpenSocket): void {
  const connection = ws.getUserData()
  connection.socket = openSocket(connection.head, connection.pass, {
    send: text => ws.send(text, false) === 1,
    close: (code, reason) => void ws.end(code, reason),
  })
}
