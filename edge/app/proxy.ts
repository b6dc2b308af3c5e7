/**
 * Passes a request on to the `http.app` of the application and its answer back, both as streams; neither is
 * parsed. The answer has the speed of the client.
 */
import { type IncomingMessage, request as send } from 'node:http'
import { LOOPBACK } from '../../schemas/app-host.js'
import { ERRORS } from '../../schemas/errors.js'
import type { Budget } from '../http/body.js'
import type { Exchange } from '../http/exchange.js'
import { Outlet, type Stalls } from '../http/outlet.js'
import type { AppRoutes } from './host.js'

/** Headers of one connection, and those that the edge writes or answers itself. */
const OWN = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'expect',
  'date',
  'uwebsockets',
  'x-request-id',
  'x-content-type-options',
])
/** An answer up to this size is sent with its length. */
const SMALL = 1024 * 1024
/** Of an answer to a request without a length, which is collected: its connection can only be closed behind a length. */
const LARGEST = 64 * 1024 * 1024
const REARM_MS = 4_000
const MANY_BODIES = 'Too many request bodies at once'
export const STARTING = 'The code of the application that this request needs is being started'

interface ProxyDeps {
  stalls: Stalls
  bodies: Budget
  bodyLimit: number
}

/** `body`: the one of the request, if it was read already. */
export function forward(exchange: Exchange, { via, isReady }: AppRoutes, deps: ProxyDeps, body?: Uint8Array): void {
  const { stalls, bodies, bodyLimit } = deps
  if (!isReady()) return exchange.refuse('unavailable', STARTING)
  const { method, path, query, received } = exchange
  const headers = headersFor(exchange).flat()
  const target = query === '' ? path : `${path}?${query}`
  const outgoing = send({ ...via, method, path: target, headers: headers as never })
  let failed = false
  const fail = (status: number, detail: string) => {
    if (failed) return
    failed = true
    if (exchange.streaming) exchange.destroy()
    else exchange.error(status, detail)
    outgoing.destroy()
  }
  exchange.onAbort = () => outgoing.destroy()
  outgoing.on('error', () => fail(503, STARTING))
  outgoing.on('response', incoming => {
    // The application may answer before it has read the body.
    failed = true
    relay(exchange, incoming, stalls)
  })
  if (body !== undefined) return void outgoing.end(body)
  if (received.length > bodyLimit) return fail(413, ERRORS.too_large.sentence)
  if (received.length <= 0 && received.encodings === 0) return void outgoing.end()
  // What the application has not read yet is in memory: it counts as the bodies of other requests do.
  let bytes = 0
  const { onOver } = exchange
  exchange.onOver = () => {
    bodies.held -= bytes
    onOver?.()
  }
  exchange.onData((chunk, last) => {
    if (bytes + chunk.byteLength > bodyLimit) return fail(413, ERRORS.too_large.sentence)
    if (bodies.held + chunk.byteLength > bodies.most) return fail(429, MANY_BODIES)
    bytes += chunk.byteLength
    bodies.held += chunk.byteLength
    // The chunk is valid during the call only.
    if (chunk.byteLength > 0) outgoing.write(Buffer.from(new Uint8Array(chunk)))
    if (last) outgoing.end()
  })
}

/** The headers of the request as the application gets them. */
export const headersFor = ({ received, requestId }: Exchange): [name: string, value: string][] => [
  ...received.all.filter(([name]) => !OWN.has(name) && !name.startsWith('x-weft-') && name !== LOOPBACK),
  ['x-request-id', requestId],
]

/** The answer of the application. */
function relay(exchange: Exchange, incoming: IncomingMessage, stalls: Stalls): void {
  const { statusCode = 502, statusMessage = '', rawHeaders } = incoming
  const headers: [name: string, value: string][] = []
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!.toLowerCase()
    if (!OWN.has(name) && name !== 'content-length') headers.push([rawHeaders[i]!, rawHeaders[i + 1]!])
  }
  const length = Number(incoming.headers['content-length'] ?? Number.NaN)
  const status = `${statusCode} ${statusMessage.replace(/[^\x20-\x7e]/g, '')}`
  const isWhole = length <= SMALL || exchange.method === 'HEAD' || statusCode === 204 || statusCode === 304
  if (isWhole || exchange.received.close) {
    const parts: Buffer[] = []
    let size = 0
    incoming.on('data', (part: Buffer) => {
      parts.push(part)
      if ((size += part.length) > LARGEST) exchange.destroy()
    })
    incoming.on('end', () => exchange.relay(status, headers, Buffer.concat(parts)))
    incoming.on('error', () => exchange.destroy())
    return
  }
  if (!exchange.relay(status, headers, null)) return void incoming.destroy()
  const outlet = new Outlet(exchange, stalls, () => incoming.resume())
  // uWebSockets.js closes a connection that is silent for 10 s.
  const rearm = setInterval(() => exchange.rearm(), REARM_MS)
  const { onOver } = exchange
  exchange.onOver = () => {
    clearInterval(rearm)
    onOver?.()
  }
  exchange.onAbort = () => {
    outlet.drop()
    incoming.destroy()
  }
  incoming.on('data', (part: Buffer) => {
    outlet.write(part)
    if (!outlet.ready) incoming.pause()
  })
  incoming.on('end', () => outlet.end())
  incoming.on('error', () => exchange.destroy())
}
