/**
 * The `http` section of deployments, which their graph workers announce: asked of a resource worker, and kept for 5 s.
 * The edge has no file of a deployment, so a request waits for the answer before its route decides.
 */
import type { Caller } from '../bus/call.js'
import { validateAppInfo } from '../schemas/calls.js'
import type { Config } from '../schemas/config.js'
import { rpc } from '../schemas/subjects.js'
import type { Exchange } from './http/exchange.js'
import { openPolicy, type Policy } from './http/policy.js'
import type { Route } from './routes.js'

const CACHE_MS = 5_000
const MAX_KEPT = 1_000
const CALL_MS = 5_000
const decoder = new TextDecoder()

export interface Deployed {
  /** The policy of the deployment that the request names. Throws the refusal of the worker: unknown, being deployed. */
  policyOf(exchange: Exchange): Promise<Policy>
}

export function openDeployed(config: Config, caller: Caller): Deployed {
  const kept = new Map<string, { policy: Promise<Policy>; until: number }>()

  async function ask(exchange: Exchange): Promise<Policy> {
    const { body } = await caller.ask(rpc('system', 'info'), exchange.callHead(), undefined, { timeout: CALL_MS })
    const parsed = validateAppInfo(JSON.parse(decoder.decode(body)))
    return openPolicy(config, parsed.success ? (parsed.data.http ?? null) : null)
  }

  return {
    policyOf(exchange) {
      const name = JSON.stringify(exchange.mount)
      const known = kept.get(name)
      if (known !== undefined && known.until > Date.now()) return known.policy
      const policy = ask(exchange)
      if (kept.size >= MAX_KEPT) kept.clear()
      kept.set(name, { policy, until: Date.now() + CACHE_MS })
      // A refusal is not kept.
      policy.catch(() => kept.get(name)?.policy === policy && kept.delete(name))
      return policy
    },
  }
}

/** Continues with an admitted request for a deployment, if its application serves the route. */
export async function inDeployment(
  deployed: Deployed,
  exchange: Exchange,
  route: Route,
  answer: () => void | Promise<void>,
): Promise<void> {
  const policy = await deployed.policyOf(exchange)
  if (exchange.over) return
  exchange.keepHeaders(policy)
  if (!policy.serves(route.groups)) return exchange.refuse('not_found')
  await answer()
}
