/**
 * What edges know of deployments: the `http` and `auth` sections that their graph workers announce, asked of a resource
 * worker and kept for 5 s, or until a deployment changes. The edge has no file of a deployment, so a request waits for the
 * answer before its caller is authenticated.
 */
import type { Caller } from '../bus/call.js'
import type { Link } from '../bus/connect.js'
import { type AppInfo, validateAppInfo } from '../schemas/calls.js'
import type { Config } from '../schemas/config.js'
import { fail } from '../schemas/errors.js'
import { token } from '../schemas/ids.js'
import { event, rpc } from '../schemas/subjects.js'
import { askPool } from './app/ask.js'
import { type Check, openCheck } from './app/check.js'
import type { Exchange } from './http/exchange.js'
import { openPolicy, type Policy } from './http/policy.js'
import type { Route } from './routes.js'

const CACHE_MS = 5_000
const MAX_KEPT = 1_000
const CALL_MS = 5_000
const decoder = new TextDecoder()

/** A deployment, or another application that graph workers announce under a name. */
export interface Deployment {
  policy: Policy
  /** Its `auth`; null: it has none. */
  check: Check | null
}

export interface Deployed {
  /** The deployment that the request names. Throws the refusal of the worker: unknown, being deployed. */
  find(exchange: Exchange): Promise<Deployment>
  close(): void
}

interface Options {
  config: Config
  link: Link
  caller: Caller
  /** Requests of LangGraph Studio pass without `authenticate`. */
  studio: boolean
}

export function openDeployed({ config, link, caller, studio }: Options): Deployed {
  const kept = new Map<string, { found: Promise<Deployment>; until: number }>()
  /** By application and pool: a check knows users, which must not be forgotten with the rest. */
  const checks = new Map<string, Check>()
  const changed = link.subscribe(event('deployments', 'changed'), () => kept.clear())

  async function ask(exchange: Exchange): Promise<Deployment> {
    const { body } = await caller.ask(rpc('system', 'info'), exchange.callHead(), undefined, { timeout: CALL_MS })
    const parsed = validateAppInfo(JSON.parse(decoder.decode(body)))
    if (!parsed.success) throw fail('unavailable', UNREADABLE)
    return { policy: openPolicy(config, parsed.data.http ?? null), check: checkOf(parsed.data) }
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

  return {
    find(exchange) {
      const name = JSON.stringify(exchange.mount)
      const known = kept.get(name)
      if (known !== undefined && known.until > Date.now()) return known.found
      const found = ask(exchange)
      if (kept.size >= MAX_KEPT) kept.clear()
      kept.set(name, { found, until: Date.now() + CACHE_MS })
      // A refusal is not kept.
      found.catch(() => kept.get(name)?.found === found && kept.delete(name))
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
