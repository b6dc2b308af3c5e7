/**
 * The routes of the control plane. It can run build commands on this machine, so it always needs its key, also on
 * loopback: a web page must not reach it (decision 018).
 */

import { allows, keyIdOf } from '../../schemas/auth/keys.js'
import type { CallHead } from '../../schemas/calls.js'
import type { Config } from '../../schemas/config.js'
import { fail } from '../../schemas/errors.js'
import { callThrough } from '../calls.js'
import type { Edge } from '../context.js'
import { MANY_KEY_STREAMS, MANY_REQUESTS, REVOKED, scopesOf } from '../guard.js'
import type { Exchange } from '../http/exchange.js'
import { checksHosts } from '../http/guards.js'
import type { Key } from '../keys.js'
import type { Route } from '../routes.js'
import { waitForConsent } from './oauth-wait.js'

export const NO_KEY = 'The control plane needs its key in X-Api-Key or as Authorization: Bearer'
const WRONG_KEY = 'This is not the key of the control plane, nor a key of this server'
export const CHALLENGE = { 'WWW-Authenticate': 'Bearer' }

const NO_KEYS_OF_KEYS =
  'The key of the control plane creates no keys where requests need one; `weft keys create NAME --scope admin` makes a key that does'

/** Answers a request that carries the key of the control plane, or a built-in key with the scope; refuses any other. */
export async function answerControl(edge: Edge, exchange: Exchange, route: Route, body: Uint8Array): Promise<void> {
  const { received } = exchange
  const key = await edge.controlPenalty.check(exchange, keyOf(edge, exchange))
  if (key === null) return exchange.refuse('unauthorized', WRONG_KEY, CHALLENGE)
  if (key !== CONTROL) {
    const [missing] = scopesOf(route).filter(scope => !allows(key.record.scopes, [scope]))
    if (missing !== undefined) return exchange.refuse('forbidden', `The key lacks the scope ${missing}`)
    const wait = key.take()
    if (wait > 0) return exchange.refuse('too_many', MANY_REQUESTS, { 'Retry-After': `${wait}` })
  } else if (route.scope === 'admin' && edge.guard.needsKey) return exchange.refuse('forbidden', NO_KEYS_OF_KEYS)
  const by = key === CONTROL ? CONTROL : key.record.id
  if (route.answer === 'oauth-wait') {
    if (key !== CONTROL && !exchange.hold(end => key.openStream(end), REVOKED))
      return exchange.refuse('too_many', MANY_KEY_STREAMS)
    return waitForConsent(edge, exchange, route, by)
  }
  if (route.answer !== 'json') throw fail('internal')
  await callThrough(edge, exchange, route, body, {
    by,
    ...originOf(edge.config, received.host),
    if_match: received.ifMatch,
  })
}

/** Stands for the key of the control plane, which has no record. */
const CONTROL = 'control'

/** The key of the request; null for a wrong one. */
async function keyOf({ keys, controlKey }: Edge, { received, requestId }: Exchange): Promise<Key | 'control' | null> {
  const key = keyIdOf(received.key) === null ? null : await keys.find(received.key, requestId)
  return key ?? ((await controlKey.matches(received.key, requestId)) ? CONTROL : null)
}

/** Where clients reach this server: the operator's setting, else the Host that this client used. */
function originOf(config: Config, host: string): Pick<CallHead, 'origin' | 'origin_is_claimed'> {
  if (config.public_url !== '') return { origin: config.public_url }
  return { origin: `http://${host}`, ...(checksHosts(config) ? {} : { origin_is_claimed: true }) }
}
