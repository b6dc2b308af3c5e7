/**
 * One request and its one answer. The constructor copies the needed parts of the request, because they are invalid after
 * the first await; calls after an abort or after the answer are dropped. uWebSockets.js ends the process when a response
 * is used after its end, so no other code holds one.
 */
import type { HttpRequest, HttpResponse } from 'uWebSockets.js'
import { v7 as uuid } from 'uuid'
import type { AuthUser } from '../../schemas/auth/auth.js'
import type { CallHead } from '../../schemas/calls.js'
import { ERRORS, type ErrorCode, errorBody, fail, InvalidFields, WeftError } from '../../schemas/errors.js'
import { TRACEPARENT } from '../../schemas/trace.js'
import type { Key, Ticket } from '../keys.js'
import type { Cors } from './cors.js'
import { isMounted, type Mount, NO_PATH, routed, unmount } from './mount.js'
import type { Policies, Policy } from './policy.js'
import { type Headers, type Received, readHeaders } from './received.js'
import { plainQuery, targetFault } from './target.js'

export interface StreamError {
  error: string
  message: string
}

const REASONS: { [status: number]: string } = {
  200: 'OK',
  201: 'Created',
  202: 'Accepted',
  204: 'No Content',
  207: 'Multi-Status',
  303: 'See Other',
  307: 'Temporary Redirect',
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  408: 'Request Timeout',
  409: 'Conflict',
  412: 'Precondition Failed',
  413: 'Payload Too Large',
  415: 'Unsupported Media Type',
  421: 'Misdirected Request',
  422: 'Unprocessable Entity',
  426: 'Upgrade Required',
  429: 'Too Many Requests',
  500: 'Internal Server Error',
  501: 'Not Implemented',
  502: 'Bad Gateway',
  503: 'Service Unavailable',
}
const REQUEST_ID = /^[A-Za-z0-9._:-]{1,128}$/
/** RFC 7240: preferences are a comma list. */
const MINIMAL = /(^|[,;\s])return="?minimal"?($|[,;\s])/i
const MAX_IDEMPOTENCY_KEY = 256
const RETRY: Headers = { 'Retry-After': '1' }

export class Exchange {
  readonly method: string
  /** The path of the route table, within the deployment. */
  readonly path: string
  /** Why the target is refused; null: it means the same to everybody. */
  readonly targetFault: string | null
  readonly mount: Mount | null
  /** Without "?". A handler of authorization may change it. */
  query: string
  /** The path that the client asked for. */
  readonly url: string
  /** Made by code of the application for itself: nobody authenticates it. */
  isLoopback = false
  /** Beside isLoopback: the user of the run whose code makes the request, as whom it is authorized; null: of none. */
  runUser: AuthUser | null = null
  /** Made by this edge for the caller of another request, which counts among the streams. */
  isSelf = false
  /** Passed on by an application: the request that it was counts among the streams. */
  isPassedOn = false
  /** Stands for the key of the request in what an application passes on; null: it has none. */
  ticket: Ticket | null = null
  /** The caller, as authenticated: part of every call for this request. */
  caller: Pick<CallHead, 'identity' | 'filters' | 'checked' | 'key'> | null = null
  /** The key of the caller, if a key authenticated it. */
  key: Key | null = null
  readonly received: Received
  readonly requestId: string
  params: { [name: string]: string } = {}
  /** Which pages may read the answer: a stricter rule may replace it before the answer begins. */
  cors: Cors
  /** Called once when the client leaves (or we close the socket) before the answer is complete. */
  onAbort: (() => void) | null = null
  /** Called once, at any end. */
  onOver: (() => void) | null = null
  /** Called with each answer of status 400 or above. */
  onRefused: ((exchange: Exchange, status: number, body: string | Uint8Array | null) => void) | null = null
  /** Takes the request body out of the memory budget: a worker has answered its call. Safe to call twice. */
  releaseBody: () => void = () => {}
  /** True once the answer is complete, or the client left: nothing more can be sent. */
  over = false
  /** The id of the span of this request, else that of the client; '' for none. */
  traceparent: string
  /** The status of the answer; 0 while there is none. */
  status = 0
  /** When the head of the request had arrived, in ms of `performance.now()`. */
  readonly started = performance.now()
  private begun = false
  private isEvents = false
  private replying = false

  constructor(
    private readonly res: HttpResponse,
    req: HttpRequest,
    private readonly policies: Policies,
    private readonly onFault: (exchange: Exchange, error: unknown) => void,
  ) {
    const target = req.getUrl()
    const deployment = req.getHeader('x-deployment-id')
    const isDeployed = policies.mount !== undefined || isMounted(target, deployment)
    const policy = isDeployed ? policies.deployed : policies.own
    this.cors = policy.cors
    res.onAborted(() => {
      const { onAbort } = this
      this.guard(() => {
        this.close()
        onAbort?.()
      })
    })
    this.method = req.getCaseSensitiveMethod()
    // Undefined for a URL without "?", whatever its type says.
    this.query = plainQuery(req.getQuery() ?? '')
    this.received = readHeaders(req, policy, deployment)
    const { path, mount } =
      policies.mount === undefined
        ? unmount(target, deployment, policy.prefix)
        : { path: routed(target), mount: policies.mount }
    this.targetFault = targetFault(target) ?? (path === target || path === NO_PATH ? null : targetFault(path))
    this.path = path
    this.mount = mount
    this.url = `http://${this.received.host}${target}${this.query === '' ? '' : `?${this.query}`}`
    const { requestId, traceparent } = this.received
    this.traceparent = TRACEPARENT.test(traceparent) ? traceparent : ''
    this.requestId = REQUEST_ID.test(requestId) ? requestId : uuid()
    if (this.isChunked) this.received.close = true
  }

  /** Below a deployment: keeps the headers that its graphs may read, and those that the log may show. */
  keepHeaders({ isConfigurable, isLogged }: Policy): void {
    const all = Object.entries(this.received.configurable ?? {})
    const those = (has: (name: string) => boolean) => {
      const kept = all.filter(([name]) => has(name))
      return kept.length === 0 ? null : Object.fromEntries(kept)
    }
    this.received.configurable = those(isConfigurable)
    this.received.logged = those(isLogged)
  }

  /** True between `begin` and the end. */
  get streaming(): boolean {
    return this.begun && !this.over
  }

  /**
   * uWebSockets.js reads chunk extensions as digits of the size and trailers as the next request. So the connection of a
   * chunked request is closed behind its answer, and an answer waits one turn: a request in the same segment then finds
   * it missing, and uWebSockets.js closes the socket without an answer to what may be smuggled.
   */
  private get isChunked(): boolean {
    return this.received.encodings > 0
  }

  /** The head of a call made for this request. */
  callHead(): CallHead {
    const head: CallHead = { request_id: this.requestId, params: this.params, ...this.caller }
    if (this.mount !== null) head.deployment = this.mount
    // Never the built-in application for a client that names another one.
    else if (this.received.deployment !== '')
      throw fail('invalid', 'X-Deployment-Id: expected 1 to 64 letters, digits, "_" or "-"')
    if (this.query !== '') head.query = this.query
    if (this.received.configurable !== null) head.headers = this.received.configurable
    if (this.traceparent !== '') head.traceparent = this.traceparent
    const { idempotencyKey } = this.received
    if (idempotencyKey.length > MAX_IDEMPOTENCY_KEY)
      throw fail(
        'invalid',
        `Idempotency-Key: expected at most ${MAX_IDEMPOTENCY_KEY} characters, got ${idempotencyKey.length}`,
      )
    if (idempotencyKey !== '') head.idempotency_key = idempotencyKey
    if (this.received.encryption !== '') head.encryption = this.received.encryption
    if (this.received.prefer !== '' && MINIMAL.test(this.received.prefer)) head.minimal = true
    return head
  }

  /** Address of the client, which trusted proxies name. Empty once the exchange is over, and on a socket of the server itself. */
  get remoteAddress(): string {
    if (this.over) return ''
    const peer = Buffer.from(this.res.getRemoteAddressAsText()).toString()
    return this.policies.clientAddress(peer, this.received.forwardedFor)
  }

  /** The whole answer at once; null means no body. A body is JSON unless `headers` give its Content-Type. */
  reply(status: number, body: string | Uint8Array | null, headers?: Headers): void {
    if (this.over || this.begun || this.replying) return
    this.replying = true
    if (status >= 400) this.onRefused?.(this, status, body)
    if (this.isChunked) setImmediate(() => this.guard(() => this.sendReply(status, body, headers)))
    else this.sendReply(status, body, headers)
  }

  private sendReply(status: number, body: string | Uint8Array | null, headers?: Headers): void {
    if (this.over) return
    this.res.cork(() => {
      this.writeHead(status, headers)
      if (body !== null && headers?.['Content-Type'] === undefined)
        this.res.writeHeader('Content-Type', 'application/json')
      if (this.method === 'HEAD' || (body === null && status === 204)) this.endEmpty()
      // Sends Content-Length: 0; without it a client waits for the connection to close.
      else if (body === null) this.res.end('', this.received.close)
      else this.res.end(body, this.received.close)
    })
    this.close()
  }

  /** An error of the table; one that a client may repeat carries Retry-After. */
  refuse(code: ErrorCode, detail?: string, headers?: Headers): void {
    this.error(ERRORS[code].status, detail ?? ERRORS[code].sentence, headers)
  }

  error(status: number, detail: string, headers?: Headers): void {
    const retry = status === 503 || status === 429
    this.reply(status, errorBody(detail), retry ? { ...RETRY, ...headers } : headers)
  }

  /** A thrown error: a known one as it is, any other as `internal` without its message. True when it was unknown. */
  fail(error: unknown): boolean {
    if (this.begun) this.destroy()
    else if (error instanceof InvalidFields) this.reply(error.status, error.body)
    else if (error instanceof WeftError) this.error(error.status, error.message)
    else this.refuse('internal')
    return !(error instanceof WeftError)
  }

  /**
   * An error, and the end of the connection. It waits one turn, for the same reason as the answer to a chunked request.
   */
  refuseAndClose(status: number, detail: string): void {
    this.received.close = true
    setImmediate(() => this.error(status, detail))
  }

  /** The request becomes a WebSocket: `work` answers it, and this exchange is over. */
  handOver(work: () => void): void {
    if (this.over || this.begun || this.replying) return
    this.close()
    work()
  }

  /**
   * Begins an answer of unknown length. `first` must not be empty: only with it do the headers leave at once. Behind
   * `Connection: close` the `fetch` of Node.js takes a stream that is cut for a whole one: its head does not say it, unless
   * the client sent a chunked request and would use the connection again.
   */
  begin(headers: Headers, first: string): boolean {
    if (this.over || this.begun || this.replying) return false
    this.begun = true
    this.isEvents = headers['Content-Type'] === 'text/event-stream'
    this.res.cork(() => {
      this.writeHead(200, headers)
      if (this.received.close && (!this.isEvents || this.isChunked)) this.res.writeHeader('Connection', 'close')
      this.res.write(first)
    })
    return true
  }

  /**
   * The answer of another server, with its head: the whole of it, or with null its head, after which parts are written.
   * False when the exchange is over. CORS headers are those of the answer, or else ours.
   */
  relay(status: string, headers: readonly [name: string, value: string][], body: Uint8Array | null): boolean {
    if (this.over || this.begun || this.replying) return false
    this.begun = true
    this.status = Number.parseInt(status, 10)
    const { res } = this
    res.cork(() => {
      res.writeStatus(status)
      res.writeHeader('x-request-id', this.requestId)
      const hasCors = headers.some(([name]) => name.toLowerCase() === 'access-control-allow-origin')
      const cors = hasCors ? [] : this.cors.answer(this.received.origin)
      for (let i = 0; i < cors.length; i += 2) res.writeHeader(cors[i]!, cors[i + 1]!)
      for (const [name, value] of headers) res.writeHeader(name, value)
      if (body === null) return
      if (this.method === 'HEAD' || this.status === 204 || this.status === 304) this.endEmpty()
      else res.end(body, this.received.close)
    })
    if (body !== null) this.close()
    return true
  }

  /** A part of a begun answer; false when the client is too slow (this part is buffered: write no more). */
  write(bytes: Uint8Array): boolean {
    return this.over || this.res.write(bytes)
  }

  cork(work: () => void): void {
    if (!this.over) this.res.cork(work)
  }

  /**
   * The regular end of a begun answer. uWebSockets.js would write a header into the body to close the connection, so its
   * head said that it closes. Nothing more is read from it, and it ends with its client, or after an idle 10 s.
   */
  end(last?: string): void {
    if (this.over || !this.begun) return
    this.res.cork(() => {
      if (this.received.close) this.res.pause()
      this.res.end(last)
    })
    this.close()
  }

  onWritable(handler: () => void): void {
    this.res.onWritable(() => {
      if (!this.over) this.guard(handler)
      return true
    })
  }

  /** uWebSockets.js closes a socket 10 s after a refused write; this starts those 10 s anew. */
  rearm(): void {
    if (this.over) return
    this.res.pause()
    this.res.resume()
  }

  /** `open` takes a place that lasts until the end of this exchange, and may end it with `error`. False: there is no place. */
  hold(open: (end: () => void) => (() => void) | null, error: StreamError): boolean {
    const release = open(() => this.revoke(error))
    if (release === null) return false
    const { onOver } = this
    this.onOver = () => {
      release()
      onOver?.()
    }
    return true
  }

  /** Ends the answer early, with a last event or a document that says why. */
  private revoke(error: StreamError): void {
    if (!this.begun) return this.error(401, error.message)
    if (this.over) return
    const { onAbort } = this
    const text = JSON.stringify(error)
    this.end(this.isEvents ? `event: error\ndata: ${text}\n\n` : `{"__error__":${text}}`)
    onAbort?.()
  }

  /** Cuts the connection: the client sees a network error, never a clean end. */
  destroy(): void {
    if (!this.over) this.res.close()
  }

  /** Bytes of the body as they arrive; the chunk is only valid during the call. */
  onData(handler: (chunk: ArrayBuffer, last: boolean) => void): void {
    this.res.onData((chunk, last) => {
      if (!this.over && !this.replying) this.guard(() => handler(chunk, last))
    })
  }

  /** Stops and continues the arrival of bytes; `onData` may still get those that have arrived. */
  pause(): void {
    if (!this.over) this.res.pause()
  }

  resume(): void {
    if (!this.over) this.res.resume()
  }

  private writeHead(status: number, headers: Headers | undefined): void {
    const { res } = this
    this.status = status
    res.writeStatus(`${status} ${REASONS[status] ?? 'Status'}`)
    res.writeHeader('x-request-id', this.requestId)
    res.writeHeader('X-Content-Type-Options', 'nosniff')
    const cors = this.cors.answer(this.received.origin)
    for (let i = 0; i < cors.length; i += 2) res.writeHeader(cors[i]!, cors[i + 1]!)
    for (const name in headers) res.writeHeader(name, headers[name]!)
  }

  private endEmpty(): void {
    // endWithoutBody(undefined, true) would announce 2⁶³ bytes.
    if (this.received.close) this.res.end(undefined, true)
    else this.res.endWithoutBody()
  }

  /** An exception that leaves a handler of uWebSockets.js ends the process. */
  private guard(work: () => void): void {
    try {
      work()
    } catch (error) {
      this.onFault(this, error)
    }
  }

  private close(): void {
    this.over = true
    const { onOver } = this
    this.onOver = null
    this.onAbort = null
    onOver?.()
  }
}
