/** Requests that may become a WebSocket. */
import type { AppRoutes } from '../app/host.js'
import type { Edge } from '../context.js'
import type { Cors } from '../http/cors.js'
import type { Exchange } from '../http/exchange.js'
import { framingFault, originAllowed } from '../http/guards.js'
import { openPolicy } from '../http/policy.js'
import { decodeParams } from '../http/router.js'
import type { Admitted } from '../upgrade.js'
import { CUSTOM, type Gate, NO_ORIGIN } from './gate.js'

/** Null: the request was refused and answered. May throw or reject. */
export type Admit = (exchange: Exchange) => Admitted | null | Promise<Admitted | null>

/** `cors`: the pages that may open one. */
export function openAdmission(edge: Edge, gate: Gate, cors: Cors): Admit {
  /** The policy of a deployment that was not asked for: the settings of the server. */
  const unknown = openPolicy(edge.config, null)

  function admit(exchange: Exchange): Admitted | null | Promise<Admitted | null> {
    const { path, received } = exchange
    const fault = framingFault(exchange.method, received)
    const host = gate.hostFault(received.host)
    if (fault !== null) exchange.refuseAndClose(400, fault)
    // uWebSockets.js would end its answer with the connection, and go on with a WebSocket that is gone.
    else if (received.close) exchange.refuseAndClose(400, 'A WebSocket begins with Connection: Upgrade')
    else if (host !== null) exchange.error(host.status, host.detail)
    else if (exchange.targetFault !== null) exchange.refuse('bad_request', exchange.targetFault)
    else if (!originAllowed(received, cors)) exchange.error(403, NO_ORIGIN)
    else if (gate.quiet || gate.isFull()) exchange.refuse('unavailable')
    else {
      const found = gate.routerOf(exchange).find(exchange.method, path)
      if (found !== null && typeof found !== 'string' && found.route.answer === 'socket') {
        exchange.params = decodeParams(found)
        if (exchange.mount !== null) exchange.keepHeaders(unknown)
        return edge.guard.refuses(exchange, found.route) ? null : { exchange, route: found.route, routes: null }
      }
      if (!gate.isForApplication(exchange)) return admitTo(exchange, null)
      if (exchange.mount === null) return admitTo(exchange, gate.custom)
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

  return admit
}
