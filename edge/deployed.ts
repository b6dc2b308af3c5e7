/**
 * The settings of deployments that edges know: the `http` and `auth` sections that their graph workers announce, asked of a resource
 * worker and kept for 5 s, or until a deployment changes. The edge has no file of a deployment, so a request waits for the
 * answer before its caller is authenticated.
 */
import type { Caller } from '../bus/call.js'
import type { Link } from '../bus/connect.js'
import type { Tunnels } from '../bus/tunnel.js'
import { type AppInfo, validateAppInfo } from '../schemas/calls.js'
import type { Config } from '../schemas/config.js'
import { fail } from '../schemas/errors.js'
import { token } from '../schemas/ids.js'
import { event, rpc } from '../schemas/subjects.js'
import { askPool } from './app/ask.js'
import { type Check, openCheck } from './app/check.js'
import { type AppRoutes, handlerOf } from './app/host.js'
import type { Deployed, Deployment } from './context.js'
import type { Exchange } from './http/exchange.js'
import { openPolicy } from './http/policy.js'
import type { Route } from './routes.js'

const CACHE_MS = 5_000
const MAX_KEPT = 1_000
const CALL_MS = 5_000
const decoder = new TextDecoder()

interface Options {
  config: Config
  link: Link
  caller: Caller
  tunnels: Tunnels
  /** The server asks callers for a credential. */
  isClosed: boolean
  /** Requests of LangGraph Studio pass without `authenticate`. */
  studio: boolean
}

export function openDeployed({ config, link, caller, tunnels, isClosed, studio }: Options): Deployed {
  const kept = new Map<string, { found: Promise<Deployment>; value?: Deployment; until: number }>()
  /** By application and pool: a check knows users, which must not be forgotten with the rest. */
  const checks = new Map<string, Check>()
  const changed = link.subscribe(event('deployments', 'changed'), () => kept.clear())

  async function ask(exchange: Exchange): Promise<Deployment> {
    const { body } = await caller.ask(rpc('system', 'info'), exchange.callHead(), undefined, { timeout: CALL_MS })
    const parsed = validateAppInfo(JSON.parse(decoder.decode(body)))
    if (!parsed.success) throw fail('unavailable', UNREADABLE)
    const { data } = parsed
    const check = checkOf(data)
    const policy = openPolicy(config, data.http ?? null, { isClosed: isClosed || check !== null })
    return { policy, slug: data.slug ?? null, check, routes: routesOf(data) }
  }

  function checkOf({ app, pool, app_host }: AppInfo): Check | null {
    const auth = app_host?.auth ?? null
    if (auth === null || pool === null) return null
    const name = JSON.stringify([app, pool, auth])
    const known = checks.get(name)
    if (known !== undefined) return known
    const check = openCheck(askPool(caller, token('pool', pool)), { app, auth, studio })
    if (checks.size >= MAX_KEPT) checks.delete(checks.keys().next().value!)
    checks.set(name, check)
    return check
  }

  function routesOf({ app, pool, app_host, http }: AppInfo): AppRoutes | null {
    const prefixes = app_host?.routes ?? null
    if (prefixes === null || pool === null || !http) return null
    const to = token('pool', pool)
    return {
      ...http,
      application: app,
      mayHandle: handlerOf(prefixes),
      // A stream of the broker costs a message, so none is kept between requests.
      via: { createConnection: () => tunnels.open(to) },
      connect: () => tunnels.open(to),
      isReady: () => true,
    }
  }

  return {
    known(exchange) {
      const found = kept.get(JSON.stringify(exchange.mount))
      return found !== undefined && found.until > performance.now() ? found.value : undefined
    },
    find(exchange) {
      const name = JSON.stringify(exchange.mount)
      const known = kept.get(name)
      if (known !== undefined && known.until > performance.now()) return known.found
      const found = ask(exchange)
      if (kept.size >= MAX_KEPT) kept.clear()
      const mine: { found: Promise<Deployment>; value?: Deployment; until: number } = {
        found,
        until: performance.now() + CACHE_MS,
      }
      kept.set(name, mine)
      // A refusal is not kept.
      found.then(
        value => (mine.value = value),
        () => kept.get(name) === mine && kept.delete(name),
      )
      return found
    },
    close: () => changed.unsubscribe(),
  }
}

const UNREADABLE = 'A resource worker of another version answered: update all processes'

/** Continues with an admitted request for a deployment, if its application serves the route. */
export async function inDeployment(
  deployed: Deployed,
  exchange: Exchange,
  route: Route,
  answer: () => void | Promise<void>,
): Promise<void> {
  const { policy } = await deployed.find(exchange)
  if (exchange.over) return
  exchange.keepHeaders(policy)
  if (!policy.serves(route.groups)) return exchange.refuse('not_found')
  await answer()
}
