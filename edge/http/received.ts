/** The part of the head of a request that the edge reads. uWebSockets.js gives the head only until the first await: it is copied. */
import type { HttpRequest } from 'uWebSockets.js'
import type { Policy } from './policy.js'

export type Headers = { [name: string]: string }

/** The headers that the edge reads; all others are ignored, x-weft-* above all. */
export interface Received {
  host: string
  /** The name of a header of SINGLE that the request has twice; '' for none. Such a request is refused. */
  repeated: string
  /** NaN when it is no number, −1 when absent. */
  length: number
  encodings: number
  encoding: string
  type: string
  origin: string
  /** Sec-Fetch-Site and Sec-Fetch-Mode: browsers send them with every request. */
  fetchSite: string
  fetchMode: string
  /** Service-Worker: a browser asks for the script of a service worker. */
  isWorker: boolean
  requestId: string
  traceparent: string
  lastEventId: string
  /** X-Api-Key, or the Bearer token of Authorization; '' when both are absent. */
  key: string
  ifMatch: string
  idempotencyKey: string
  /** The headers of a webhook of a git host; null: it is none. */
  push: Headers | null
  prefer: string
  /** X-Encryption-Context. */
  encryption: string
  accept: string
  /** MCP-Protocol-Version. */
  mcpVersion: string
  /** Mcp-Method and Mcp-Name. */
  mcpMethod: string
  mcpName: string
  /** A2A-Version. */
  a2aVersion: string
  /** A2A-Extensions, and X-A2A-Extensions of version 0.3: a comma list. */
  a2aExtensions: string
  /** LangGraph-A2A-History-Scope. */
  historyScope: string
  /** X-Forwarded-For; several of them are one list. */
  forwardedFor: string
  /** X-Forwarded-Proto and X-Forwarded-Host, as a proxy sets them. */
  forwardedProto: string
  forwardedHost: string
  acceptsGzip: boolean
  /** X-Deployment-Id. */
  deployment: string
  /** Several are one, as for Node.js. */
  cookie: string
  /** Headers for `config.configurable` of a run (docs/spec/application.md#headers); null: none. */
  configurable: Headers | null
  /** Headers that the log may show; null: none. */
  logged: Headers | null
  /**
   * All of them, by lower-case name, where the application authenticates its callers; [] elsewhere. A character of a value
   * is a byte, as in all of HTTP for Node.js, `fetch` and ASGI.
   */
  all: [name: string, value: string][]
  close: boolean
  preflight: boolean
  preflightHeaders: string
  /** Access-Control-Request-Private-Network: a page of the internet asks for a server on this machine or network. */
  asksForPrivate: boolean
}

/**
 * Headers with one value that decide something. Of two, this program, a proxy before it and the application behind it may
 * each take another one: a request with two is refused. Other headers that come twice are one list (RFC 9110, 5.3),
 * which is what all readers of `all` get.
 */
export const SINGLE = [
  // Where a request ends, and for whom it is.
  'Host',
  'Content-Length',
  'Transfer-Encoding',
  'Content-Type',
  'X-Deployment-Id',
  // Whose it is.
  'Authorization',
  'X-Api-Key',
  'X-Auth-Scheme',
  'X-Hub-Signature-256',
  'X-GitHub-Event',
  'X-GitLab-Token',
  'X-GitLab-Event',
  // Which page sends it.
  'Origin',
  'Sec-Fetch-Site',
  'Sec-Fetch-Mode',
  'Access-Control-Request-Method',
  // Headers for changes, and for how an answer is read.
  'Idempotency-Key',
  'If-Match',
  'X-Encryption-Context',
  'Last-Event-ID',
  'MCP-Protocol-Version',
  'Mcp-Method',
  'Mcp-Name',
  'A2A-Version',
  'LangGraph-A2A-History-Scope',
  'Sec-WebSocket-Key',
] as const
const PLACES: ReadonlyMap<string, number> = new Map(SINGLE.map((name, index) => [name.toLowerCase(), index]))

/** `gzip;q=0` refuses it. */
const GZIP = /(^|,)\s*gzip\s*(,|;\s*q=(1|0\.0*[1-9])|$)/i
const LENGTH = /^\d{1,15}$/

/** `deployment`: X-Deployment-Id, by which the policy was chosen. */
export function readHeaders(req: HttpRequest, policy: Policy, deployment: string): Received {
  let seen = 0
  const received: Received = {
    host: '',
    repeated: '',
    length: -1,
    encodings: 0,
    encoding: '',
    type: '',
    origin: '',
    fetchSite: '',
    fetchMode: '',
    isWorker: false,
    requestId: '',
    traceparent: '',
    lastEventId: '',
    key: '',
    ifMatch: '',
    idempotencyKey: '',
    push: null,
    prefer: '',
    encryption: '',
    accept: '',
    mcpVersion: '',
    mcpMethod: '',
    mcpName: '',
    a2aVersion: '',
    a2aExtensions: '',
    historyScope: '',
    forwardedFor: '',
    forwardedProto: '',
    forwardedHost: '',
    acceptsGzip: false,
    deployment,
    cookie: '',
    configurable: null,
    logged: null,
    all: [],
    close: false,
    preflight: false,
    preflightHeaders: '',
    asksForPrivate: false,
  }
  req.forEach((name, value) => {
    const place = PLACES.get(name)
    if (place !== undefined) {
      if ((seen & (1 << place)) !== 0) received.repeated = SINGLE[place]!
      seen |= 1 << place
    }
    if (policy.keepsHeaders) addTo(received.all, name, bytesOf(value))
    if (policy.isConfigurable(name) && !policy.holdsKey(value)) addMember((received.configurable ??= {}), name, value)
    if (policy.isLogged(name) && !policy.holdsKey(value)) addMember((received.logged ??= {}), name, value)
    switch (name) {
      case 'host':
        received.host = value
        break
      case 'content-length':
        received.length = LENGTH.test(value) ? Number(value) : NaN
        break
      case 'transfer-encoding':
        received.encodings++
        received.encoding = value
        break
      case 'content-type':
        received.type = value
        break
      case 'origin':
        received.origin = value
        break
      case 'sec-fetch-site':
        received.fetchSite = value
        break
      case 'sec-fetch-mode':
        received.fetchMode = value
        break
      case 'service-worker':
        received.isWorker = true
        break
      case 'x-request-id':
        received.requestId = joined(received.requestId, value)
        break
      case 'traceparent':
        received.traceparent = joined(received.traceparent, value)
        break
      case 'last-event-id':
        received.lastEventId = value
        break
      case 'x-api-key':
        if (value !== '') received.key = value
        break
      case 'authorization':
        if (received.key === '' && /^bearer /i.test(value)) received.key = value.slice(7).trim()
        break
      case 'cookie':
        received.cookie = joined(received.cookie, value, '; ')
        break
      case 'if-match':
        received.ifMatch = value
        break
      case 'accept-encoding':
        received.acceptsGzip ||= GZIP.test(value)
        break
      case 'accept':
        received.accept = joined(received.accept, value)
        break
      case 'mcp-protocol-version':
        received.mcpVersion = value
        break
      case 'mcp-method':
        received.mcpMethod = value
        break
      case 'mcp-name':
        received.mcpName = value
        break
      case 'a2a-version':
        received.a2aVersion = value
        break
      case 'a2a-extensions':
      case 'x-a2a-extensions':
        received.a2aExtensions = joined(received.a2aExtensions, value)
        break
      case 'langgraph-a2a-history-scope':
        received.historyScope = value
        break
      case 'x-forwarded-for':
        received.forwardedFor = received.forwardedFor === '' ? value : `${received.forwardedFor},${value}`
        break
      case 'x-forwarded-proto':
        received.forwardedProto = joined(received.forwardedProto, value)
        break
      case 'x-forwarded-host':
        received.forwardedHost = joined(received.forwardedHost, value)
        break
      case 'x-encryption-context':
        received.encryption = value
        break
      case 'prefer':
        received.prefer = joined(received.prefer, value)
        break
      case 'idempotency-key':
        received.idempotencyKey = value
        break
      case 'x-hub-signature-256':
      case 'x-github-event':
      case 'x-gitlab-token':
      case 'x-gitlab-event':
        received.push = { ...received.push, [name]: value }
        break
      case 'connection':
        // uWebSockets.js reads it in the same way.
        received.close ||= value.length === 'close'.length
        break
      case 'access-control-request-method':
        received.preflight = true
        break
      case 'access-control-request-headers':
        received.preflightHeaders = joined(received.preflightHeaders, value)
        break
      case 'access-control-request-private-network':
        received.asksForPrivate = value === 'true'
        break
    }
  })
  return received
}

const joined = (before: string, value: string, by = ', '): string => (before === '' ? value : `${before}${by}${value}`)
const separatorOf = (name: string): string => (name === 'cookie' ? '; ' : ', ')

/** uWebSockets.js decodes values as UTF-8. */
const bytesOf = (value: string): string => (BEYOND_ASCII.test(value) ? Buffer.from(value).toString('latin1') : value)
const BEYOND_ASCII = /[^\x00-\x7f]/

function addTo(all: Received['all'], name: string, value: string): void {
  for (const known of all)
    if (known[0] === name) {
      known[1] = joined(known[1], value, separatorOf(name))
      return
    }
  all.push([name, value])
}

function addMember(headers: Headers, name: string, value: string): void {
  headers[name] = Object.hasOwn(headers, name) ? joined(headers[name]!, value, separatorOf(name)) : value
}
