/** The checks of requests and of upgrades to WebSockets before their route: limits, the host, and whose code handles the path. */
import type { AppRoutes } from '../app/host.js'
import type { Edge } from '../context.js'
import type { Exchange } from '../http/exchange.js'
import { hostGuard } from '../http/guards.js'
import { NO_PATH } from '../http/mount.js'
import type { Policy } from '../http/policy.js'
import { openRouter, type Router } from '../http/router.js'
import { CONTROL, CONTROL_PREFIX, PAGES, ROUTES, type Route } from '../routes.js'

export interface Gate {
  /** The routes of the application that this edge serves beside its own; null: it has none. */
  custom: AppRoutes | null
  /** No new requests are taken. */
  quiet: boolean
  hostFault: ReturnType<typeof hostGuard>
  isFull(): boolean
  routerOf(exchange: Exchange): Router
  isForApplication(exchange: Exchange): boolean
}

/** `policy`: that of the application which the edge serves without a deployment. */
export function openGate(edge: Edge, policy: Policy): Gate {
  const { config } = edge
  const servesPages = policy.serves(['meta'])
  const routes = ROUTES.filter(route => !route.test || config.test)
  const router = openRouter(routes)
  const own = openRouter(routes, route => policy.serves(route.groups))
  return {
    custom: edge.appHost?.http ?? null,
    quiet: false,
    hostFault: hostGuard(config),
    isFull: () => edge.open.size + edge.sockets.size > config.max_connections,
    routerOf: ({ mount, isSelf }) => (mount === null && !isSelf ? own : router),
    /**
     * The `http.app` of an application handles requests for that application. It never handles requests of the control plane,
     * which carry its key, or pages on which a person enters a key. The `http.app` of the built-in application handles no
     * request that names a deployment, whether that deployment exists or not.
     */
    isForApplication: ({ path, mount, received: { deployment } }) =>
      !CONTROL.test(path) &&
      !path.startsWith(`${CONTROL_PREFIX}/`) &&
      path !== NO_PATH &&
      !(servesPages && PAGES.test(path)) &&
      (mount !== null || deployment === ''),
  }
}

/** Stands for the routes of `http.app`: whoever is authenticated may call them. */
export const CUSTOM: Route = {
  ...ROUTES[0]!,
  path: '/*',
  auth: [],
}
export const NO_ORIGIN = 'Pages of this origin may not call this server; CORS_ALLOW_ORIGINS names the ones that may'
