/**
 * The door of the control plane. It can run build commands on this machine, so it always wants its key, also on
 * loopback: a web page must not reach it (design 2.16). The key itself is known where it was made; an edge elsewhere
 * asks for its SHA-256, so that the key never travels.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { Caller } from '../bus/call.js'
import type { Config } from '../schemas/config.js'
import { fail } from '../schemas/errors.js'
import { rpc } from '../schemas/subjects.js'
import { callThrough } from './calls.js'
import type { Edge } from './context.js'
import type { Exchange } from './exchange.js'
import type { Route } from './routes.js'

export interface Control {
  /** Whether this is the key; rejects with `unavailable` when nobody can tell. */
  admits(key: string, request_id: string): Promise<boolean>
}

export const NO_KEY = 'The control plane needs its key in X-Api-Key or as Authorization: Bearer'
const WRONG_KEY = 'This is not the key of the control plane'
export const CHALLENGE = { 'WWW-Authenticate': 'Bearer' }
/** What we were told counts for so long: a key that was replaced opens nothing after that. */
const KEPT_MS = 30_000
/** A key that does not fit may be newer than what we were told; asked again at most so often. */
const ASK_AGAIN_MS = 1_000

export function openControl({ control_key }: Config, caller: Caller): Control {
  const given = control_key === '' ? null : sha256(control_key)
  let told: Buffer | null = null
  let asked = 0
  return {
    async admits(key, request_id) {
      const digest = sha256(key)
      if (given !== null) return timingSafeEqual(digest, given)
      const age = Date.now() - asked
      if (told !== null && age < KEPT_MS) {
        if (timingSafeEqual(digest, told)) return true
        if (age < ASK_AGAIN_MS) return false
      }
      const { body } = await caller.ask(rpc('control', 'key'), { request_id })
      told = Buffer.from((JSON.parse(Buffer.from(body).toString()) as { sha256: string }).sha256, 'hex')
      asked = Date.now()
      return timingSafeEqual(digest, told)
    },
  }
}

const sha256 = (text: string): Buffer => createHash('sha256').update(text).digest()

/** Answers a route of the control plane to who has the key. */
export async function controlled(edge: Edge, exchange: Exchange, route: Route, body: Uint8Array): Promise<void> {
  const { received, requestId } = exchange
  if (!(await edge.control.admits(received.key, requestId)))
    return exchange.refuse('unauthorized', WRONG_KEY, CHALLENGE)
  if (route.answer !== 'json') throw fail('internal')
  await callThrough(edge, exchange, route, body, {
    origin: originOf(edge.config, received.host),
    if_match: received.ifMatch,
  })
}

/** Where clients reach this server: what the operator says, else what this one used. */
const originOf = ({ public_url }: Config, host: string): string => public_url || `http://${host}`
