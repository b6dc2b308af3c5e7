/**
 * One request to Weft, and the head of its answer. Both bodies are streams that nothing collects: what Weft sends is passed on
 * at once, and a client that disconnects ends the request, which may cancel its run.
 */
import { type ClientRequest, Agent as HttpAgent, type IncomingMessage, request as sendHttp } from 'node:http'
import { Agent as HttpsAgent, request as sendHttps } from 'node:https'
import { ERRORS, errorBody } from '../schemas/errors.js'
import { openServer } from './server.js'
import type { AddedHeaders, HandlerOptions, Weft } from './types.js'

export interface Forwarded {
  method: string
  /** Path and query, as the server around has received them. */
  target: string
  /** In front of those of the API. */
  basePath: string
  headers: { [name: string]: string | string[] | undefined }
  /** Aborts when the client disconnects. */
  signal: AbortSignal
  /** Sends the body, if there is one, and ends the request. */
  send(request: ClientRequest): void
}

export interface Answer {
  status: number
  /** Names and values in turn, without those of one connection. */
  headers: [name: string, value: string][]
  body: IncomingMessage
}

/** An answer of the handler itself. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    detail: string,
  ) {
    super(detail)
  }
  get body(): string {
    return errorBody(this.message)
  }
}

export const JSON_TYPE = 'application/json'

/** They belong to one connection (RFC 9110, 7.6.1). */
const OF_CONNECTION = ['connection', 'keep-alive', 'proxy-connection', 'te', 'trailer', 'transfer-encoding', 'upgrade']
/** Written anew, or answered by the server around. */
const OF_SERVER = ['host', 'expect', 'proxy-authorization']

/** The edge closes an unused connection after 10 s: a request on one that is about to be closed would fail. */
const POOL = { keepAlive: true, timeout: 4_000 }
const http = { agent: new HttpAgent(POOL), send: sendHttp }
const https = { agent: new HttpsAgent(POOL), send: sendHttps }

export type Forward = (request: Forwarded) => Promise<Answer>

export interface Gate {
  weft: Weft
  forward: Forward
}

/** Rejects with a Refusal. */
export function openGate(options: HandlerOptions): Gate {
  const weft = openServer(options)
  return {
    weft,
    async forward(request) {
      const path = pathOf(request)
      const url = await weft.ready().catch(error => {
        throw new Refusal(ERRORS.unavailable.status, (error as Error).message)
      })
      return ask(`${url}${path}`, request)
    },
  }
}

function ask(url: string, { method, headers, signal, send, basePath }: Forwarded): Promise<Answer> {
  return new Promise((done, failed) => {
    const way = url.startsWith('https:') ? https : http
    const outgoing = way.send(url, { method, agent: way.agent, headers, signal })
    let isConnected = false
    outgoing.once('socket', socket => {
      isConnected = !socket.connecting
      if (socket.connecting) socket.once(way === https ? 'secureConnect' : 'connect', () => (isConnected = true))
    })
    outgoing.on('error', () => failed(isConnected ? BROKEN : UNREACHABLE))
    outgoing.on('response', body => done({ status: body.statusCode!, headers: answered(body, basePath), body }))
    send(outgoing)
  })
}

const UNREACHABLE = new Refusal(ERRORS.unavailable.status, 'Weft cannot be reached at the moment')
const BROKEN = new Refusal(ERRORS.bad_gateway.status, 'Weft has closed the connection before it answered')
const NOT_FOUND = new Refusal(ERRORS.not_found.status, ERRORS.not_found.sentence)

/** The path and the query at Weft. Dots are resolved here: nobody behind may take them as a way out of the base path. */
function pathOf({ target, basePath }: Forwarded): string {
  const whole = target.startsWith('/') ? `http://weft${target}` : target
  if (!URL.canParse(whole)) throw new Refusal(ERRORS.bad_request.status, ERRORS.bad_request.sentence)
  const { pathname, search } = new URL(whole)
  const base = basePath.replace(/\/+$/, '')
  if (pathname === base) return `/${search}`
  if (!pathname.startsWith(`${base}/`)) throw NOT_FOUND
  return pathname.slice(base.length) + search
}

/**
 * The headers of a request for Weft. A page of the server around is one of Weft, too, which has another host: its Origin is
 * left out, and that of other pages stays, for Weft's own rules.
 */
export function headersFor(
  received: Iterable<readonly [name: string, value: string | string[] | undefined]>,
  host: string,
  added: AddedHeaders[],
): Forwarded['headers'] {
  const headers = Object.fromEntries(received)
  const named = `${headers.connection ?? ''}`.toLowerCase().split(/\s*,\s*/)
  const origin = `${headers.origin ?? ''}`
  const isOwn = URL.canParse(origin) && new URL(origin).host === host.toLowerCase()
  for (const name of [...OF_CONNECTION, ...OF_SERVER, ...named, ...(isOwn ? ['origin', 'sec-fetch-site'] : [])])
    delete headers[name]
  for (const name of Object.keys(headers)) if (name.startsWith(':')) delete headers[name]
  for (const [name, value] of added.flatMap(Object.entries))
    if (value == null) delete headers[name.toLowerCase()]
    else headers[name.toLowerCase()] = value
  return headers
}

/**
 * The headers of an answer. Those of the API that name a path are relative to the URL that a client was given, which has
 * the base path (docs/spec/runs.md): only a redirect, which a browser follows, gets it.
 */
function answered({ rawHeaders, headers, statusCode = 0 }: IncomingMessage, basePath: string): Answer['headers'] {
  const dropped = new Set([...OF_CONNECTION, ...`${headers.connection ?? ''}`.toLowerCase().split(/\s*,\s*/)])
  const kept: Answer['headers'] = []
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const [name, value] = [rawHeaders[i]!, rawHeaders[i + 1]!]
    if (dropped.has(name.toLowerCase())) continue
    const isRedirect = statusCode >= 300 && statusCode < 400 && name.toLowerCase() === 'location'
    kept.push([name, isRedirect && /^\/(?!\/)/.test(value) ? basePath.replace(/\/+$/, '') + value : value])
  }
  return kept
}

/** The headers that the options and one call add. */
export async function addedTo(
  request: Request | IncomingMessage,
  { headers }: HandlerOptions,
  more: object | undefined,
): Promise<AddedHeaders[]> {
  const own = typeof headers === 'function' ? await headers(request) : (headers ?? {})
  const { headers: given } = (more ?? {}) as { headers?: AddedHeaders }
  return [own, given ?? {}]
}
