/**
 * The wrapper around uWebSockets.js. A handler that throws, or that returns without an answer and an abort handler, ends
 * the process, so every request passes through one catch-all here, and then through our router. The library's responses
 * stay in here, in http/exchange.ts and in upgrade.ts.
 */

import type { HttpRequest, HttpResponse, TemplatedApp, us_listen_socket, us_socket } from 'uWebSockets.js'
import { type AddressInfo, createServer } from 'node:net'
import { decodeJson } from '../bus/decode.js'
import type { Tracer } from '../bus/otlp/traces.js'
import { CALLER, LOOPBACK, RUN_USER } from '../schemas/app-host.js'
import type { AuthUser } from '../schemas/auth/auth.js'
import { BUILT_IN_APP } from '../schemas/ids.js'
import { isLoopback } from '../schemas/loopback.js'
import type { AppRoutes } from './app/host.js'
import { openInner } from './app/inner.js'
import { forward } from './app/proxy.js'
import type { Deployment, Edge } from './context.js'
import { CHALLENGE, NO_KEY } from './control/control.js'
import { readBody } from './http/body.js'
import { openClientAddress } from './http/client-address.js'
import { type Cors, openCors } from './http/cors.js'
import { Exchange } from './http/exchange.js'
import { framingFault, hostGuard, isPart, isStrictJson, originAllowed } from './http/guards.js'
import { uWS } from './http/library.js'
import { NO_PATH, withoutSlash } from './http/mount.js'
import { openDeployedPolicy, openPolicy, type Policies } from './http/policy.js'
import { openRefusalLog } from './http/refusal-log.js'
import { decodeParams, type Match, openRouter } from './http/router.js'
import { openSpareResponse } from './http/spare-response.js'
import type { Ticket } from './keys.js'
import { type AnswerKind, CONTROL, CONTROL_PREFIX, PAGES, ROUTES, type Route } from './routes.js'
import { type Admitted, MANY_STREAMS, type OpenSocket, serveSockets } from './upgrade.js'

export interface Server {
  port: number
  /** No new connections. */
  quiet(): void
  /** Closes every connection. */
  close(): void
}

/** Answers one request; `body` is empty where the method has none. May throw or reject. */
export type Answerer = (exchange: Exchange, route: Route, body: Uint8Array) => void | Promise<void>

/** Listens, or throws an Error with one sentence. */
export async function listen(edge: Edge, answer: Answerer, openSocket: OpenSocket): Promise<Server> {
  const { config, link } = edge
  const hasAuth = edge.application?.auth != null
  const custom = edge.appHost?.http ?? null
  const isClosed = config.require_keys || hasAuth
  if (!isLoopback(config.host) && !config.insecure && !isClosed) throw new Error(openBind(config.host))
  const policy = openPolicy(config, edge.application?.http ?? null, { isClosed, keepsHeaders: edge.appHost !== null })
  const { cors } = policy
  const policies: Policies = {
    clientAddress: openClientAddress(config.trusted_proxies),
    own: policy,
    deployed: openDeployedPolicy(config, policy, { isClosed, keepsHeaders: true }),
  }
  /** The policy of a deployment that was not asked for: the settings of the server. */
  const unknown = openPolicy(config, null)
  const servesPages = policy.serves(['meta'])
  const routes = ROUTES.filter(route => !route.test || config.test)
  const router = openRouter(routes)
  const own = openRouter(routes, route => policy.serves(route.groups))
  const routerOf = ({ mount, isSelf }: Exchange) => (mount === null && !isSelf ? own : router)
  const strictCors = openCors(config.cors_origins, { wildcards: false })
  const hostFault = hostGuard(config)
  const refused = openRefusalLog(link.log)
  let quiet = false

  /** `isInner`: it comes from the app host. */
  function onRequest(exchange: Exchange, isInner = false) {
    const { received } = exchange
    const fault = framingFault(exchange.method, received)
    if (fault !== null) return exchange.refuseAndClose(400, fault)
    // A client that uses the connection again would meet its end.
    if (quiet || edge.leaving.aborted) received.close = true
    const host = hostFault(received.host)
    if (host !== null) return exchange.error(host.status, host.detail)
    if (exchange.targetFault !== null) return exchange.refuse('bad_request', exchange.targetFault)
    if (!isInner && isFull()) return exchange.refuseAndClose(503, FULL)
    if (CONTROL.test(exchange.path)) exchange.cors = strictCors
    if (isInner || !isForApplication(exchange)) return onRoute(exchange, null)
    if (exchange.mount === null) return onRoute(exchange, custom)
    const known = edge.deployed.known(exchange)
    if (known !== undefined) return onDeployed(exchange, known)
    const whenKnown = (body: Uint8Array) =>
      edge.deployed.find(exchange).then(
        found => onDeployed(exchange, found, body),
        // Its refusal is for callers that the guard lets pass.
        () => onRoute(exchange, null, body),
      )
    const later = (body: Uint8Array) => void whenKnown(body).catch(error => failed(exchange, error))
    if (received.length <= 0 && received.encodings === 0) return later(NOTHING)
    readBody(exchange, config.body_limit, edge.bodies, later)
  }

  /** Which pages may call is what the file of the deployment says. */
  function onDeployed(exchange: Exchange, { policy, routes }: Deployment, read?: Uint8Array) {
    exchange.cors = policy.cors
    onRoute(exchange, routes, read)
  }

  const isPreflight = ({ method, received: { preflight, origin } }: Exchange) =>
    method === 'OPTIONS' && preflight && origin !== ''

  /** `routes`: those of the application, which come first. `read`: the body, if it was read already. */
  function onRoute(exchange: Exchange, routes: AppRoutes | null, read?: Uint8Array) {
    if (exchange.over) return
    const { path, received } = exchange
    const router = routerOf(exchange)
    const found = router.find(exchange.method, path)
    const match = found === null || typeof found === 'string' ? null : found
    const isCustom = routes !== null && isForRoutes(routes, path, match)
    if (exchange.method === 'OPTIONS' && (!isCustom || isPreflight(exchange)))
      return onOptions(exchange, found === null ? null : router.find('', path))
    // Pages of a deployment have no origin, so that each of their parts comes from another site.
    const isOwnPart = exchange.mount !== null && isCustom && found === null && isPart(exchange.method, received)
    if (!isOwnPart && !originAllowed(received, exchange.cors)) return exchange.error(403, NO_ORIGIN)
    if (received.isWorker && !(isCustom && edge.pages.mayServeWorker(exchange))) return exchange.error(403, NO_WORKER)
    if (isCustom) return passOn(exchange, routes, match?.route ?? null, read)
    if (found === null) {
      const place = withoutSlash(path)
      const isKnown = place !== null && router.find(exchange.method, place.path) !== null
      if (isKnown)
        return exchange.reply(307, null, { Location: place.reference + (exchange.query && `?${exchange.query}`) })
      return exchange.refuse('not_found')
    }
    if (typeof found === 'string') return exchange.refuse('method_not_allowed', undefined, { Allow: found })
    const { route } = found
    countWhenOver(exchange, route)
    if (edge.tracer !== null) trace(edge.tracer, exchange, route)
    exchange.params = decodeParams(found)
    if (route.auth === 'control' && received.key === '') return exchange.refuse('unauthorized', NO_KEY, CHALLENGE)
    if (!exchange.isLoopback && edge.guard.refuses(exchange, route)) return
    // A GET is answered without waiting for a body: a reconnecting SDK repeats the headers of its POST.
    if (route.method === 'GET') return run(exchange, route, NOTHING)
    // Reads its body itself, a part at a time.
    if (route.answer === 'upload') return run(exchange, route, NOTHING)
    // Elsewhere a body is JSON whatever its type says, as for other servers of this API: `curl -d` sends another one. Pages
    // were checked by their origin.
    if (route.control && (received.length > 0 || received.encodings > 0) && !isStrictJson(received.type))
      return exchange.refuse('unsupported_media_type')
    const limit = Math.min(bodyLimit(route), config.body_limit)
    if (read === undefined) return readBody(exchange, limit, edge.bodies, body => run(exchange, route, body))
    if (read.length > limit) return exchange.refuse('too_large')
    run(exchange, route, read)
  }

  /**
   * `http.app` handles requests of its application, but never those of the control plane, which carry its key, nor the
   * pages where a person enters one, and the built-in one none that name another application, even if its name is none.
   */
  const isForApplication = ({ path, mount, received: { deployment } }: Exchange) =>
    !CONTROL.test(path) &&
    !path.startsWith(`${CONTROL_PREFIX}/`) &&
    path !== NO_PATH &&
    !(servesPages && PAGES.test(path)) &&
    (mount !== null || deployment === '')

  /**
   * Whether the application gets the request. With `enable_custom_route_auth` it gets none whose caller is unknown: what
   * route of its own it finds for a path is not known here, so Weft answers its public routes itself.
   */
  const isForRoutes = ({ mayHandle, enable_custom_route_auth }: AppRoutes, path: string, match: Match | null) =>
    mayHandle(path) && !(enable_custom_route_auth && match?.route.auth === 'public')

  /** `route`: the built-in route that the application may wrap or replace. It is authenticated when it is reached. */
  function passOn(exchange: Exchange, routes: AppRoutes, route: Route | null, read?: Uint8Array): void {
    const { middleware_order, enable_custom_route_auth } = routes
    if (route?.long && !takePlace(exchange)) return exchange.refuse('too_many', MANY_STREAMS)
    const isFirst =
      enable_custom_route_auth || (middleware_order === 'auth_first' && route !== null && route.auth !== 'public')
    const { stalls, bodies, handOver, pages } = edge
    const deps = { stalls, bodies, bodyLimit: config.body_limit, handOver, pages }
    const go = (body: Uint8Array | null | undefined) => {
      if (body !== null) forward(exchange, routes, deps, body)?.catch(error => failed(exchange, error))
    }
    if (!isFirst) return go(read)
    if (edge.guard.refuses(exchange, CUSTOM)) return
    const decide = (body: Uint8Array) => {
      const admitted = edge.guard.admit(exchange, CUSTOM, body)
      if (admitted instanceof Promise) admitted.then(go).catch(error => failed(exchange, error))
      else go(admitted)
    }
    if (read !== undefined) decide(read)
    else readBody(exchange, config.body_limit, edge.bodies, decide)
  }

  /** A request that may become a WebSocket; null: it was refused and answered. */
  function admit(exchange: Exchange): Admitted | null | Promise<Admitted | null> {
    const { path, received } = exchange
    const fault = framingFault(exchange.method, received)
    const host = hostFault(received.host)
    if (fault !== null) exchange.refuseAndClose(400, fault)
    // uWebSockets.js would end its answer with the connection, and go on with a WebSocket that is gone.
    else if (received.close) exchange.refuseAndClose(400, 'A WebSocket begins with Connection: Upgrade')
    else if (host !== null) exchange.error(host.status, host.detail)
    else if (exchange.targetFault !== null) exchange.refuse('bad_request', exchange.targetFault)
    else if (!originAllowed(received, cors)) exchange.error(403, NO_ORIGIN)
    else if (quiet || isFull()) exchange.refuse('unavailable')
    else {
      const found = routerOf(exchange).find(exchange.method, path)
      if (found !== null && typeof found !== 'string' && found.route.answer === 'socket') {
        exchange.params = decodeParams(found)
        if (exchange.mount !== null) exchange.keepHeaders(unknown)
        return edge.guard.refuses(exchange, found.route) ? null : { exchange, route: found.route, routes: null }
      }
      if (!isForApplication(exchange)) return admitTo(exchange, null)
      if (exchange.mount === null) return admitTo(exchange, custom)
      const known = edge.deployed.known(exchange)
      if (known !== undefined) return admitTo(exchange, known.routes)
      return edge.deployed.find(exchange).then(
        ({ routes }) => admitTo(exchange, routes),
        () => admitTo(exchange, null),
      )
    }
    return null
  }

  /** To a WebSocket of the application. */
  function admitTo(exchange: Exchange, routes: AppRoutes | null): Admitted | null {
    if (routes === null || !routes.mayHandle(exchange.path)) {
      exchange.refuse('not_found', 'There is no WebSocket here')
      return null
    }
    const route = routes.enable_custom_route_auth ? CUSTOM : null
    return route !== null && edge.guard.refuses(exchange, route) ? null : { exchange, route, routes }
  }

  const isFull = () => edge.open.size + edge.sockets.size > config.max_connections

  function onOptions(exchange: Exchange, allow: unknown) {
    const { origin, preflight, preflightHeaders, asksForPrivate } = exchange.received
    if (origin !== '' && preflight)
      return exchange.reply(204, null, pairs(exchange.cors.preflight(origin, preflightHeaders, asksForPrivate)))
    if (typeof allow !== 'string') return exchange.refuse('not_found')
    exchange.reply(204, null, { Allow: allow })
  }

  function run(exchange: Exchange, route: Route, body: Uint8Array): void {
    const isCounted = exchange.isSelf || (exchange.isPassedOn && !exchange.isLoopback)
    if (route.long && !isCounted && !exchange.over && !takePlace(exchange))
      return exchange.refuse('too_many', MANY_STREAMS)
    try {
      void answer(exchange, route, body)?.catch(error => failed(exchange, error))
    } catch (error) {
      failed(exchange, error)
    }
  }

  function countWhenOver(exchange: Exchange, route: Route): void {
    const { onOver } = exchange
    exchange.onOver = () => {
      edge.traffic.count(route, exchange)
      onOver?.()
    }
  }

  function takePlace(exchange: Exchange): boolean {
    const release = edge.clients.openStream(exchange)
    if (release === null) return false
    const { onOver } = exchange
    exchange.onOver = () => {
      release()
      onOver?.()
    }
    return true
  }

  function failed(exchange: Exchange, error: unknown): void {
    if (exchange.fail(error)) link.log.error({ err: error, request_id: exchange.requestId }, 'a request failed')
  }

  /** A request is open until its end. */
  function opened(res: HttpResponse, req: HttpRequest, of: Policies): Exchange {
    const exchange = new Exchange(res, req, of, failed)
    edge.open.add(exchange)
    exchange.onOver = () => edge.open.delete(exchange)
    exchange.onRefused = refused
    return exchange
  }

  /** An app whose requests `begin` takes. */
  const appOf = (of: Policies, begin: (exchange: Exchange) => void): TemplatedApp =>
    uWS.App().any('/*', (res, req) => {
      let exchange: Exchange | null = null
      try {
        exchange = opened(res, req, of)
        begin(exchange)
      } catch (error) {
        if (exchange !== null) failed(exchange, error)
        else link.log.error({ err: error }, 'a request could not be read')
      }
    })

  const app = appOf(policies, exchange => onRequest(exchange))
  const spare = await openSpareResponse()
  serveSockets(
    app,
    edge,
    (res, req) => {
      const exchange = opened(res, req, policies)
      try {
        return admit(exchange)
      } catch (error) {
        failed(exchange, error)
        return null
      }
    },
    openSocket,
    spare,
  )

  /** Listens for what an application passes on, and for the requests of its own code, which carry no credentials. */
  async function listenForApplication(path: string, app: string): Promise<TemplatedApp> {
    const policyOfInner = {
      ...policies,
      own: { ...policies.own, prefix: '', cors: NO_CORS },
      deployed: { ...policies.deployed, cors: NO_CORS },
      ...(app === BUILT_IN_APP ? {} : { mount: { id: app } }),
    }
    const inner = appOf(policyOfInner, exchange => {
      // The code of an application has no rights in another one.
      const isOwn = app !== BUILT_IN_APP || exchange.mount === null
      exchange.isLoopback = isOwn && exchange.received.all.some(([name]) => name === LOOPBACK)
      exchange.isPassedOn = true
      if (isOwn) exchange.ticket = ticketIn(exchange, app)
      if (exchange.isLoopback) {
        exchange.caller = { checked: app }
        exchange.runUser = runUserIn(exchange)
      }
      onRequest(exchange, true)
    })
    const listening = await new Promise(done => inner.listen_unix(done, path))
    if (!listening) throw new Error(`the socket ${path} of http.app cannot be listened on`)
    return inner
  }

  const selfApp = appOf({ ...policies, own: { ...policies.own, prefix: '' } }, exchange => {
    exchange.isSelf = true
    const { mount } = exchange
    exchange.ticket = ticketIn(exchange, mount !== null && 'id' in mount ? mount.id : BUILT_IN_APP)
    onRequest(exchange, true)
  })
  await edge.self.serve(selfApp)

  const { tunnels } = edge
  const inner = openInner({ tunnels, link, routes: custom?.connect ?? null }, listenForApplication)
  if (custom !== null) {
    await inner.listen(edge.appHost!.edgeSocket, BUILT_IN_APP)
    edge.appHost!.admit()
  }

  // A shared listen takes a port whose last process died a moment ago (its connections linger for a minute), but also
  // one of a living server, and then gets half of its connections: so the port is probed first. When the system chooses
  // the port, the probe chooses it: uWebSockets.js shares named ports only, and a restart needs the same one.
  const wanted = await probePort(config.host.replace(/^\[|\]$/g, ''), config.port)
  const socket = await new Promise<us_listen_socket | false>(done => {
    if (wanted === null) done(false)
    else app.listen(wanted.host, wanted.port, done)
  })
  if (socket === false) {
    inner.close()
    selfApp.close()
    spare.close()
    throw new Error(`port ${config.port} of ${config.host} cannot be listened on: is it in use?`)
  }
  const port = uWS.us_socket_local_port(socket as unknown as us_socket)

  return {
    port,
    quiet() {
      if (!quiet) uWS.us_listen_socket_close(socket)
      quiet = true
    },
    close() {
      inner.close()
      selfApp.close()
      spare.close()
      app.close()
    },
  }
}

/** The user of the run whose code makes the request. Throws for a header that names none. */
function runUserIn({ received }: Exchange): AuthUser | null {
  const text = received.all.find(([name]) => name === RUN_USER)?.[1]
  return text === undefined ? null : (decodeJson(Buffer.from(text, 'base64'), { quote: false }) as AuthUser)
}

/** The ticket that a request on a socket of the edge brings back, for this application. */
function ticketIn({ received }: Exchange, app: string): Ticket | null {
  const text = received.all.find(([name]) => name === CALLER)?.[1]
  return text === undefined ? null : { text, app }
}

const openBind = (host: string): string =>
  `without authentication Weft listens on other than loopback (${host}) only with --insecure: WEFT_REQUIRE_KEYS=1 asks for keys of \`weft keys create\`, or langgraph.json names an "auth"`
const NOTHING = new Uint8Array(0)
/** Stands for the routes of `http.app`: whoever is authenticated may call them. */
const CUSTOM: Route = {
  ...ROUTES[0]!,
  path: '/*',
  auth: [],
}
/** The outer request has the headers for browsers. */
const NO_CORS: Cors = { allows: () => true, answer: () => [], preflight: () => [] }
const NO_ORIGIN = 'Pages of this origin may not call this server; CORS_ALLOW_ORIGINS names the ones that may'
const NO_WORKER =
  'A service worker here would control pages of this server; an application serves one below a folder, as /app/worker.js'
const FULL = 'Too many open connections; WEFT_MAX_CONNECTIONS sets the limit'
/**
 * Largest body of a route that takes no values of graphs: 1 MB of characters of an assistant, 512 KiB of secrets of a
 * deployment and 10,000 ids of a search fit. Each MB blocks the resource worker for about 10 ms.
 */
const SHORT_BODY = 4 * 1024 * 1024

/**
 * Largest bodies of routes that the edge itself parses: each MB blocks all of its streams for about 5 ms. The arguments of
 * MCP are written by a model, of which 4 MB is a million tokens; a message of A2A carries files, 12 MB of them in base64.
 */
const PARSED: { readonly [answer in AnswerKind]?: number } = {
  ui: 128 * 1024,
  mcp: SHORT_BODY,
  a2a: 16 * 1024 * 1024,
}

const bodyLimit = ({ answer, values }: Route): number =>
  PARSED[answer] ?? (values ? Number.POSITIVE_INFINITY : SHORT_BODY)

/** The span of a request lasts as long as its answer; what the request causes is part of it. */
function trace(tracer: Tracer, exchange: Exchange, { method, path }: Route): void {
  const span = tracer.start(`${method} ${path}`, {
    kind: 'server',
    parent: exchange.traceparent || undefined,
    attributes: { 'http.request.method': method, 'http.route': path, 'weft.request_id': exchange.requestId },
  })
  exchange.traceparent = span.traceparent
  const { onOver } = exchange
  exchange.onOver = () => {
    span.end(exchange.status >= 500 ? `status ${exchange.status}` : null)
    onOver?.()
  }
}

/** The port, or one that the system chooses for 0; null when it is not free. */
const probePort = (host: string, port: number): Promise<{ host: string; port: number } | null> =>
  new Promise(done => {
    const probe = createServer()
    probe.once('error', () => done(null))
    probe.listen({ host, port, exclusive: true }, () => {
      const { port } = probe.address() as AddressInfo
      probe.close(() => done({ host, port }))
    })
  })

function pairs(flat: readonly string[]): { [name: string]: string } {
  const headers: { [name: string]: string } = {}
  for (let i = 0; i < flat.length; i += 2) headers[flat[i]!] = flat[i + 1]!
  return headers
}
