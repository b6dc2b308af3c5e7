/**
 * The routes of the control plane. It can run build commands on this machine, so it always needs its key, also on
 * loopback: a web page must not reach it (design 2.16).
 */

import { allows, keyIdOf } from '../schemas/auth/keys.js'
import type { Config } from '../schemas/config.js'
import { fail } from '../schemas/errors.js'
import { callThrough } from './calls.js'
import type { Edge } from './context.js'
import type { Exchange } from './http/exchange.js'
import type { Route } from './routes.js'

export const NO_KEY = 'The control plane needs its key in X-Api-Key or as Authorization: Bearer'
const WRONG_KEY = 'This is not the key of the control plane'
const MANY_KEYS = 'Too many requests with a wrong key from this address'
export const CHALLENGE = { 'WWW-Authenticate': 'Bearer' }

/** Answers a request that carries the key; refuses any other. */
export async function answerControl(edge: Edge, exchange: Exchange, route: Route, body: Uint8Array): Promise<void> {
  const { received, requestId } = exchange
  const { remoteAddress } = exchange
  if (!(await edge.penalty.admit(remoteAddress))) return exchange.refuse('too_many', MANY_KEYS)
  if (!(await mayControl(edge, received.key, requestId))) {
    if (edge.penalty.refused(remoteAddress))
      edge.link.log.warn({ remote_address: remoteAddress, request_id: requestId }, 'many wrong control keys')
    return exchange.refuse('unauthorized', WRONG_KEY, CHALLENGE)
  }
  if (route.answer !== 'json') throw fail('internal')
  await callThrough(edge, exchange, route, body, {
    origin: originOf(edge.config, received.host),
    if_match: received.ifMatch,
  })
}

/** The key of the control plane, or a key with the scope `deployments`. */
async function mayControl(edge: Edge, text: string, request_id: string): Promise<boolean> {
  const key = keyIdOf(text) === null ? null : await edge.keys.find(text, request_id)
  if (key !== null) return allows(key.record.scopes, ['deployments']) && key.take() === 0
  return edge.controlKey.matches(text, request_id)
}

/** Where clients reach this server: the operator's setting, else the Host that this client used. */
const originOf = ({ public_url }: Config, host: string): string => public_url || `http://${host}`
