/**
 * WebSockets of uWebSockets.js: refuses an upgrade before a socket is opened, and keeps the library's types inside.
 */
import type { TemplatedApp, WebSocket } from 'uWebSockets.js'
import type { CallHead } from '../schemas/calls.js'
import type { AppRoutes } from './app/host.js'
import { openUpstream, type Upstream } from './app/sockets.js'
import type { Edge } from './context.js'
import type { SocketPass } from './guard.js'
import type { Exchange } from './http/exchange.js'
import type { Peer, Socket } from './http/socket.js'
import type { SpareResponse } from './http/spare-response.js'
import type { Route } from './routes.js'

export type OpenSocket = (head: CallHead, pass: SocketPass, peer: Peer) => Socket

export const MANY_STREAMS =
  'Too many open streams of this address; WEFT_TRUSTED_PROXIES tells the clients of a proxy apart'

/** An upgrade that may go on. */
export interface Admitted {
  exchange: Exchange
  /** Its caller is authenticated for this route; null: anybody may connect. */
  route: Route | null
  /** The application whose WebSocket it is; null: it is one of Weft. */
  routes: AppRoutes | null
}

interface Connection {
  open: (peer: Peer) => Socket
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
  ) => Admitted | null | Promise<Admitted | null>,
  openSocket: OpenSocket,
  spare: SpareResponse,
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
      const complete = (exchange: Exchange, { open, protocol: chosen, drop }: Upstream) => {
        if (exchange.over) return drop()
        // The exchange is over when the WebSocket is open.
        const release = edge.clients.openStream({ remoteAddress: exchange.remoteAddress })
        if (release === null) {
          drop()
          return exchange.refuse('too_many', MANY_STREAMS)
        }
        const connection = { open, socket: null, release }
        exchange.handOver(() => spare.cork(() => res.upgrade<Connection>(connection, key, chosen, extensions, context)))
      }
      const begin = async ({ exchange, route, routes }: Admitted) => {
        const passed = route === null ? NOTHING : edge.guard.admit(exchange, route, NOTHING)
        if ((passed instanceof Promise ? await passed : passed) === null || exchange.over) return
        const pass = edge.guard.passOf(exchange)
        if (routes !== null) {
          const upstream = await openUpstream(edge, exchange, routes, pass.hold)
          if (upstream !== null && exchange.over) upstream.drop()
          if (upstream !== null) complete(exchange, upstream)
          return
        }
        const head = exchange.callHead()
        const open = (peer: Peer) => openSocket(head, pass, peer)
        complete(exchange, { open, protocol, drop: () => {} })
      }
      guard(() => {
        const admitted = admit(res, req, context)
        const go = (found: Admitted | null) => {
          if (found !== null) begin(found).catch(error => found.exchange.fail(error))
        }
        if (admitted instanceof Promise) void admitted.then(go)
        else go(admitted)
      })
    },
    open: ws => guard(() => open(ws)),
    // The bytes are only valid during the call.
    message: (ws, message, isBinary) =>
      guard(() => void ws.getUserData().socket?.onMessage(Buffer.from(message.slice(0)), isBinary)),
    drain: ws => guard(() => ws.getUserData().socket?.onDrain()),
    close(ws, code, reason) {
      const connection = ws.getUserData()
      guard(() => connection.socket?.onClose(code, Buffer.from(reason).toString()))
      connection.socket = null
      connection.release()
    },
  })
}

function open(ws: WebSocket<Connection>): void {
  const connection = ws.getUserData()
  connection.socket = connection.open({
    send: (message, isBinary = false) => ws.send(message, isBinary) === 1,
    close: (code, reason) => void ws.end(code, reason),
  })
}
