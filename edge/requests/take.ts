/** Requests on their way to a route of Weft, or to the code of an application. */
import type { AppRoutes } from '../app/host.js'
import { forward } from '../app/proxy.js'
import type { Deployment, Edge } from '../context.js'
import { CHALLENGE, NO_KEY } from '../control/control.js'
import { readBody } from '../http/body.js'
import { openCors } from '../http/cors.js'
import type { Exchange } from '../http/exchange.js'
import { framingFault, isPart, isStrictJson, originAllowed } from '../http/guards.js'
import { withoutSlash } from '../http/mount.js'
import { decodeParams, type Match } from '../http/router.js'
import { CONTROL, type Route } from '../routes.js'
import { MANY_STREAMS } from '../upgrade.js'
import { bodyLimit } from './body-limit.js'
import { countAtEnd, endSpanAtEnd, takePlace } from './ends.js'
import { CUSTOM, type Gate, NO_ORIGIN } from './gate.js'

/** Answers one request; `body` is empty where the method has none. May throw or reject. */
export type Answerer = (exchange: Exchange, route: Route, body: Uint8Array) => void | Promise<void>

export interface Requests {
  /** Answers a request, now or later. `isInner`: it comes from the app host. May throw. */
  take(exchange: Exchange, isInner?: boolean): void
  /** Answers a request whose handler has failed, and logs the error. */
  failed(exchange: Exchange, error: unknown): void
}

export function openRequests(edge: Edge, gate: Gate, answer: Answerer): Requests {
  const { config, link } = edge
  const strictCors = openCors(config.cors_origins, { wildcards: false })

  function take(exchange: Exchange, isInner = false) {
    const { received } = exchange
    const fault = framingFault(exchange.method, received)
    if (fault !== null) return exchange.refuseAndClose(400, fault)
    // A client that uses the connection again would meet its end.
    if (gate.quiet || edge.leaving.aborted) received.close = true
    const host = gate.hostFault(received.host)
    if (host !== null) return exchange.error(host.status, host.detail)
    if (exchange.targetFault !== null) return exchange.refuse('bad_request', exchange.targetFault)
    if (!isInner && gate.isFull()) return exchange.refuseAndClose(503, FULL)
    if (CONTROL.test(exchange.path)) exchange.cors = strictCors
    if (isInner || !gate.isForApplication(exchange)) return onRoute(exchange, null)
    if (exchange.mount === null) return onRoute(exchange, gate.custom)
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

  /** `routes`: those of the application, which come first. `read`: the body, if it was read already. */
  function onRoute(exchange: Exchange, routes: AppRoutes | null, read?: Uint8Array) {
    if (exchange.over) return
    const { path, received } = exchange
    const router = gate.routerOf(exchange)
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
    countAtEnd(edge, exchange, route)
    if (edge.tracer !== null) endSpanAtEnd(edge.tracer, exchange, route)
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

  /** `route`: the built-in route that the application may wrap or replace. It is authenticated when it is reached. */
  function passOn(exchange: Exchange, routes: AppRoutes, route: Route | null, read?: Uint8Array): void {
    const { middleware_order, enable_custom_route_auth } = routes
    if (route?.long && !takePlace(edge.clients, exchange)) return exchange.refuse('too_many', MANY_STREAMS)
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

  function run(exchange: Exchange, route: Route, body: Uint8Array): void {
    const isCounted = exchange.isSelf || (exchange.isPassedOn && !exchange.isLoopback)
    if (route.long && !isCounted && !exchange.over && !takePlace(edge.clients, exchange))
      return exchange.refuse('too_many', MANY_STREAMS)
    try {
      void answer(exchange, route, body)?.catch(error => failed(exchange, error))
    } catch (error) {
      failed(exchange, error)
    }
  }

  function failed(exchange: Exchange, error: unknown): void {
    if (exchange.fail(error)) link.log.error({ err: error, request_id: exchange.requestId }, 'a request failed')
  }

  return { take, failed }
}

/**
 * Whether the application gets the request. With `enable_custom_route_auth` it gets none whose caller is unknown: what
 * route of its own it finds for a path is not known here, so Weft answers its public routes itself.
 */
const isForRoutes = ({ mayHandle, enable_custom_route_auth }: AppRoutes, path: string, match: Match | null) =>
  mayHandle(path) && !(enable_custom_route_auth && match?.route.auth === 'public')

const isPreflight = ({ method, received: { preflight, origin } }: Exchange) =>
  method === 'OPTIONS' && preflight && origin !== ''

function onOptions(exchange: Exchange, allow: unknown) {
  const { origin, preflight, preflightHeaders, asksForPrivate } = exchange.received
  if (origin !== '' && preflight)
    return exchange.reply(204, null, pairs(exchange.cors.preflight(origin, preflightHeaders, asksForPrivate)))
  if (typeof allow !== 'string') return exchange.refuse('not_found')
  exchange.reply(204, null, { Allow: allow })
}

function pairs(flat: readonly string[]): { [name: string]: string } {
  const headers: { [name: string]: string } = {}
  for (let i = 0; i < flat.length; i += 2) headers[flat[i]!] = flat[i + 1]!
  return headers
}

const NOTHING = new Uint8Array(0)
const NO_WORKER =
  'A service worker here would control pages of this server; an application serves one below a folder, as /app/worker.js'
const FULL = 'Too many open connections; WEFT_MAX_CONNECTIONS sets the limit'
