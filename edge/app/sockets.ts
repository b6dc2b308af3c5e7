/**
 * WebSockets of `http.app`: the edge is the server of its client and a client of the application, and passes messages on in
 * both directions. The application answers first, so its refusal and its subprotocol are those that the client gets.
 */
import type { IncomingMessage } from 'node:http'
import { WebSocket } from 'ws'
import type { Config } from '../../schemas/config.js'
import type { Exchange } from '../http/exchange.js'
import type { Peer, Socket } from '../http/socket.js'
import type { HandOver } from './hand-over.js'
import type { AppRoutes } from './host.js'
import { STARTING } from './proxy.js'

/** The application has this time to accept a connection. */
const OPEN_MS = 10_000
const MAX_REFUSAL = 64 * 1024
const GOING_AWAY = 1001
const BROKEN = 1011
const OVERLOADED = 1013
/** The same close code as that of the WebSockets of Weft. */
const REVOKED = 4401

interface Deps {
  config: Config
  handOver: HandOver
  sockets: Set<{ restart(): void }>
}

/** The other side of an upgrade: what opens its socket once the client has its answer. */
export interface Upstream {
  /** The subprotocol of the answer. */
  protocol: string
  open(peer: Peer): Socket
  /** The client is gone before that. */
  drop(): void
}

/** Takes a place of the caller's key, which calls `end` when it is revoked; null: there is none. */
type Hold = (end: () => void) => (() => void) | null

/** Opens the WebSocket of the application that the request asks for; null: it was refused, and the request is answered. */
export async function openUpstream(
  deps: Deps,
  exchange: Exchange,
  routes: AppRoutes,
  hold: Hold,
): Promise<Upstream | null> {
  if (!routes.isReady()) {
    exchange.refuse('unavailable', STARTING)
    return null
  }
  const { path } = exchange
  const { headers: all, query } = await deps.handOver.handedTo(routes.application, exchange)
  if (exchange.over) return null
  const headers = Object.fromEntries(all.filter(([name]) => !name.startsWith('sec-websocket-')))
  const protocols = all.find(([name]) => name === 'sec-websocket-protocol')?.[1].split(/\s*,\s*/) ?? []
  if (!protocols.every(isToken) || new Set(protocols).size < protocols.length) {
    exchange.refuse('bad_request', 'Sec-WebSocket-Protocol: expected names without a repetition, separated by commas')
    return null
  }
  const upstream = new WebSocket(`ws://localhost${query === '' ? path : `${path}?${query}`}`, protocols, {
    headers,
    createConnection: routes.connect,
    handshakeTimeout: OPEN_MS,
    maxPayload: deps.config.socket_bytes,
    perMessageDeflate: false,
  })
  return new Promise(resolve => {
    const refuse = (answer: () => void) => {
      answer()
      upstream.terminate()
      resolve(null)
    }
    exchange.onAbort = () => refuse(() => {})
    upstream.on('error', () => refuse(() => exchange.refuse('unavailable', STARTING)))
    upstream.on('unexpected-response', (_, incoming) => {
      collect(incoming).then(
        body => refuse(() => exchange.error(incoming.statusCode ?? 502, body)),
        () => refuse(() => exchange.refuse('unavailable', STARTING)),
      )
    })
    upstream.on('open', () => {
      // Messages that it sends from now on wait for the client's socket.
      upstream.pause()
      resolve({
        protocol: upstream.protocol,
        open: peer => new Relay(deps, upstream, peer, hold),
        drop: () => upstream.terminate(),
      })
    })
  })
}

/** RFC 6455, 4.1: a token of HTTP. */
const isToken = (name: string): boolean => /^[\w!#$%&'*+.^`|~-]+$/.test(name)

/** The text of a refusal. */
async function collect(incoming: IncomingMessage): Promise<string> {
  let text = ''
  for await (const part of incoming) if ((text += part).length > MAX_REFUSAL) break
  return text
}

class Relay implements Socket {
  private over = false
  private readonly release: (() => void) | null

  constructor(
    private readonly deps: Deps,
    private readonly upstream: WebSocket,
    private readonly peer: Peer,
    hold: Hold,
  ) {
    this.release = hold(() => this.end(REVOKED, 'the key was revoked or has expired'))
    if (this.release === null) {
      this.over = true
      upstream.terminate()
      peer.close(OVERLOADED, 'too many open streams of this key')
      return
    }
    deps.sockets.add(this)
    upstream.on('message', (bytes, isBinary) => {
      if (this.over) return
      if (!this.peer.send(bytes, isBinary)) upstream.pause()
      // A message that was already read may take the waiting bytes along: then no drain is reported.
      else upstream.resume()
    })
    upstream.on('close', (code, reason) => this.end(isSendable(code) ? code : BROKEN, reason.toString()))
    upstream.resume()
  }

  onMessage(bytes: Uint8Array, isBinary: boolean): void {
    // A client cannot be paused: what the application does not take in time would fill the memory.
    if (this.upstream.bufferedAmount + bytes.length > this.deps.config.socket_bytes)
      return this.end(OVERLOADED, 'the application is too slow')
    this.upstream.send(bytes, { binary: isBinary })
  }

  onDrain(): void {
    this.upstream.resume()
  }

  onClose(code: number, reason: string): void {
    this.over = true
    this.deps.sockets.delete(this)
    this.release?.()
    this.upstream.resume()
    this.upstream.close(isSendable(code) ? code : GOING_AWAY, reason)
  }

  /** The edge stops. */
  restart(): void {
    this.end(GOING_AWAY, 'the server is restarting')
  }

  private end(code: number, reason: string): void {
    if (!this.over) this.peer.close(code, reason)
  }
}

/** Codes such as 1005 and 1006 say that none was sent. */
const isSendable = (code: number): boolean =>
  (code >= 1000 && code <= 1014 && ![1004, 1005, 1006].includes(code)) || (code >= 3000 && code <= 4999)
