/** What the edge reads of the head of a request. uWebSockets.js gives the head only until the first await: it is copied. */
import type { HttpRequest } from 'uWebSockets.js'
import type { Policy } from './policy.js'

export type Headers = { [name: string]: string }

/** The headers that the edge reads; all others are ignored, x-weft-* above all. */
export interface Received {
  host: string
  hosts: number
  lengths: number
  /** NaN when it is no number, −1 when absent. */
  length: number
  encodings: number
  encoding: string
  type: string
  origin: string
  /** Sec-Fetch-Site and Sec-Fetch-Mode: browsers send them with every request. */
  fetchSite: string
  fetchMode: string
  requestId: string
  traceparent: string
  lastEventId: string
  /** X-Api-Key, or the Bearer token of Authorization; '' when both are absent. */
  key: string
  ifMatch: string
  idempotencyKey: string
  /** What the webhook of a git host says about itself; null: it is none. */
  push: Headers | null
  prefer: string
  /** X-Encryption-Context. */
  encryption: string
  accept: string
  /** MCP-Protocol-Version. */
  mcpVersion: string
  /** A2A-Version. */
  a2aVersion: string
  /** LangGraph-A2A-History-Scope. */
  historyScope: string
  /** X-Forwarded-Proto and X-Forwarded-Host, as a proxy sets them. */
  forwardedProto: string
  forwardedHost: string
  acceptsGzip: boolean
  /** X-Deployment-Id. */
  deployment: string
  cookie: string
  /** Headers for `config.configurable` of a run (API: assistants-crons-store 7.3); null: none. */
  configurable: Headers | null
  /** Headers that the log may show; null: none. */
  logged: Headers | null
  /** All of them, by lower-case name, where the application authenticates its callers; [] elsewhere. */
  all: [name: string, value: string][]
  close: boolean
  preflight: boolean
  preflightHeaders: string
}

/** `gzip;q=0` refuses it. */
const GZIP = /(^|,)\s*gzip\s*(,|;\s*q=(1|0\.0*[1-9])|$)/i
const LENGTH = /^\d{1,15}$/

export function readHeaders(req: HttpRequest, policy: Policy): Received {
  const received: Received = {
    host: '',
    hosts: 0,
    lengths: 0,
    length: -1,
    encodings: 0,
    encoding: '',
    type: '',
    origin: '',
    fetchSite: '',
    fetchMode: '',
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
    a2aVersion: '',
    historyScope: '',
    forwardedProto: '',
    forwardedHost: '',
    acceptsGzip: false,
    deployment: '',
    cookie: '',
    configurable: null,
    logged: null,
    all: [],
    close: false,
    preflight: false,
    preflightHeaders: '',
  }
  req.forEach((name, value) => {
    if (policy.keepsHeaders) received.all.push([name, value])
    if (policy.isConfigurable(name)) (received.configurable ??= {})[name] = value
    if (policy.isLogged(name)) (received.logged ??= {})[name] = value
    switch (name) {
      case 'host':
        received.hosts++
        received.host = value
        break
      case 'content-length':
        received.lengths++
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
      case 'x-request-id':
        received.requestId = value
        break
      case 'traceparent':
        received.traceparent = value
        break
      case 'last-event-id':
        received.lastEventId = value
        break
      case 'x-api-key':
        received.key = value
        break
      case 'authorization':
        if (received.key === '' && /^bearer /i.test(value)) received.key = value.slice(7).trim()
        break
      case 'cookie':
        received.cookie = value
        break
      case 'if-match':
        received.ifMatch = value
        break
      case 'accept-encoding':
        received.acceptsGzip = GZIP.test(value)
        break
      case 'accept':
        received.accept = value
        break
      case 'mcp-protocol-version':
        received.mcpVersion = value
        break
      case 'a2a-version':
        received.a2aVersion = value
        break
      case 'langgraph-a2a-history-scope':
        received.historyScope = value
        break
      case 'x-forwarded-proto':
        received.forwardedProto = value
        break
      case 'x-forwarded-host':
        received.forwardedHost = value
        break
      case 'x-encryption-context':
        received.encryption = value
        break
      case 'prefer':
        received.prefer = value
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
      case 'x-deployment-id':
        received.deployment = value
        break
      case 'connection':
        // As uWebSockets.js reads it.
        received.close ||= value.length === 'close'.length
        break
      case 'access-control-request-method':
        received.preflight = true
        break
      case 'access-control-request-headers':
        received.preflightHeaders = value
        break
    }
  })
  return received
}
