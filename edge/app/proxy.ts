/**
 * Passes a request on to the `http.app` of the application and its answer back, both as streams; neither is
 * parsed. The answer has the speed of the client.
 */
import { type ClientRequest, type IncomingMessage, request as send } from 'node:http'
import { ERRORS } from '../../schemas/errors.js'
import type { Budget } from '../http/body.js'
import type { Exchange } from '../http/exchange.js'
import { Outlet, type Stalls } from '../http/outlet.js'
import type { Handed, HandOver } from './hand-over.js'
import type { AppRoutes } from './host.js'
import type { Pages } from './pages.js'

/** An answer up to this size is sent with its length. */
const SMALL = 1024 * 1024
/** Size limit of an answer to a request without a length, which is collected: its connection can only be closed behind a length. */
const LARGEST = 64 * 1024 * 1024
const REARM_MS = 4_000
const MANY_BODIES = 'Too many request bodies at once'
export const STARTING = 'The code of the application that this request needs is being started'

interface ProxyDeps {
  stalls: Stalls
  bodies: Budget
  bodyLimit: number
  handOver: HandOver
  pages: Pages
}

/** `body`: the one of the request, if it was read already. Rejects when nobody can tell whose key the request has. */
export function forward(
  exchange: Exchange,
  routes: AppRoutes,
  deps: ProxyDeps,
  body?: Uint8Array,
): void | Promise<void> {
  const { via, application } = routes
  const { bodies, bodyLimit, handOver } = deps
  if (!routes.isReady()) return exchange.refuse('unavailable', STARTING)
  const { method, path, received } = exchange
  const outgoing = new Outgoing()
  let failed = false
  const fail = (status: number, detail: string) => {
    if (failed) return
    failed = true
    if (exchange.streaming) exchange.destroy()
    else exchange.error(status, detail)
    outgoing.destroy()
  }
  const begin = ({ headers, query }: Handed) => {
    if (exchange.over || failed) return
    const target = query === '' ? path : `${path}?${query}`
    const request = send({ ...via, method, path: target, headers: headers.flat() as never })
    request.on('error', () => fail(503, STARTING))
    request.on('response', incoming => {
      // The application may answer before it has read the body.
      failed = true
      relay(exchange, incoming, deps)
    })
    outgoing.begin(request)
  }
  exchange.onAbort = () => outgoing.destroy()
  const handed = handOver.handedTo(application, exchange)
  const begun = handed instanceof Promise ? handed.then(begin) : begin(handed)
  if (body !== undefined || (received.length <= 0 && received.encodings === 0)) outgoing.end(body)
  else if (received.length > bodyLimit) fail(413, ERRORS.too_large.sentence)
  else sendBody(exchange, outgoing, { bodies, bodyLimit, fail })
  return begun
}

/** Bytes that the application has not read yet are in memory: they count as the bodies of other requests do. */
function sendBody(
  exchange: Exchange,
  outgoing: Outgoing,
  { bodies, bodyLimit, fail }: Pick<ProxyDeps, 'bodies' | 'bodyLimit'> & { fail(status: number, detail: string): void },
): void {
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

/** The body of a request to the application. It arrives while a worker may still be asked whose key the request has. */
class Outgoing {
  private request: ClientRequest | null = null
  private readonly early: Uint8Array[] = []
  private ended = false

  begin(request: ClientRequest): void {
    this.request = request
    for (const part of this.early.splice(0)) request.write(part)
    if (this.ended) request.end()
  }

  write(part: Uint8Array): void {
    if (this.request === null) this.early.push(part)
    else this.request.write(part)
  }

  end(part?: Uint8Array): void {
    if (this.request !== null) return void this.request.end(part)
    if (part !== undefined) this.early.push(part)
    this.ended = true
  }

  destroy(): void {
    this.request?.destroy()
  }
}

/** The answer of the application. */
function relay(exchange: Exchange, incoming: IncomingMessage, { stalls, pages }: ProxyDeps): void {
  const { statusCode = 502, statusMessage = '', rawHeaders } = incoming
  const given: [name: string, value: string][] = []
  for (let i = 0; i < rawHeaders.length; i += 2) given.push([rawHeaders[i]!, rawHeaders[i + 1]!])
  const headers = pages.answerHeaders(exchange, given)
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
