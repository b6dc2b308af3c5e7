/**
 * Decides about the caller of every route but the public ones and the control plane: the `auth` of the built-in
 * application, else a built-in key, else the server is open. Only this sets the identity and the filters of a call.
 */
import type { AuthEvent } from '../schemas/auth/auth.js'
import { allows, type Scope, scopesFor } from '../schemas/auth/keys.js'
import type { CallHead } from '../schemas/calls.js'
import type { Config } from '../schemas/config.js'
import { isLoopback } from '../schemas/loopback.js'
import type { Asked, Check, Refused } from './app/check.js'
import type { Exchange } from './http/exchange.js'
import type { Penalty } from './http/penalty.js'
import type { Key, Keys } from './keys.js'
import type { Route } from './routes.js'

export interface Guard {
  /** The body to carry out, which a handler may have changed; null: the request was refused and answered. */
  admit(exchange: Exchange, route: Route, body: Uint8Array): Uint8Array | null | Promise<Uint8Array | null>
  /** True for a request without the key that it needs, before its body is read: it was answered. */
  refuses(exchange: Exchange, route: Route): boolean
  /** The pass of a WebSocket whose upgrade was admitted. */
  passOf(exchange: Exchange): SocketPass
}

/** Whom a WebSocket belongs to. */
export interface SocketPass {
  /** Decides about one command. Rejects with a WeftError when nobody can. */
  command(bytes: Uint8Array): Promise<{ head: Partial<CallHead>; body: Uint8Array } | Refused>
  /** Calls `end` when its key is revoked. The returned function ends that. Null: the key has too many streams. */
  hold(end: () => void): (() => void) | null
}

interface Options {
  config: Config
  /** Null: the application has no `auth`. */
  check: Check | null
  keys: Keys
  penalty: Penalty
}

export const NO_KEY = 'This server needs a key in X-Api-Key or as Authorization: Bearer; `weft keys create` makes one'
const WRONG_KEY = 'This is not a key of this server, or it was revoked or has expired'
const MANY_KEYS = 'Too many requests with a wrong key from this address'
const MANY_REQUESTS = 'Too many requests with this key'
const MANY_STREAMS = 'Too many open streams of this key'
/** The error of a stream whose key is revoked or expires. */
export const REVOKED = { error: 'Unauthorized', message: 'The key of this stream was revoked or has expired' }
const CHALLENGE = { 'WWW-Authenticate': 'Bearer' }

/** The events of a command on a WebSocket. */
const COMMAND: readonly AuthEvent[] = ['threads:create_run', 'assistants:read', 'threads:read']

export function openGuard({ config, check, keys, penalty }: Options): Guard {
  // What no `auth` guards is closed where others than this machine can reach it.
  const needsKey = config.require_keys || (check !== null && !isLoopback(config.host) && !config.insecure)
  const byApplication = ({ mount }: Exchange) => mount === null && check !== null

  async function ofApplication(exchange: Exchange, { auth }: Route, body: Uint8Array): Promise<Uint8Array | null> {
    const answer = await check!(askedOf(exchange), auth as readonly AuthEvent[], body)
    if (exchange.over) return null
    if ('refused' in answer) return refuse(exchange, answer)
    exchange.caller = answer.head
    exchange.query = answer.query
    return answer.body
  }

  function ofKey(exchange: Exchange, route: Route, body: Uint8Array): Uint8Array | null | Promise<Uint8Array | null> {
    const { received, requestId } = exchange
    const found = keys.find(received.key, requestId)
    if (found !== null && !(found instanceof Promise)) return withKey(exchange, route, body, found)
    return (async () => {
      const { remoteAddress } = exchange
      if (!(await penalty.admit(remoteAddress))) return refused(exchange, 429, MANY_KEYS)
      const key = await found
      if (exchange.over) return null
      if (key !== null) return withKey(exchange, route, body, key)
      penalty.refused(remoteAddress)
      return refused(exchange, 401, WRONG_KEY, CHALLENGE)
    })()
  }

  return {
    refuses(exchange, { auth }) {
      if (typeof auth === 'string' || byApplication(exchange) || !needsKey || exchange.received.key !== '') return false
      exchange.refuse('unauthorized', NO_KEY, CHALLENGE)
      return true
    },
    admit(exchange, route, body) {
      if (typeof route.auth === 'string') return body
      if (byApplication(exchange)) return ofApplication(exchange, route, body)
      return needsKey ? ofKey(exchange, route, body) : body
    },
    passOf(exchange) {
      const { key, caller } = exchange
      const head = caller ?? {}
      if (key !== null)
        return {
          async command(body) {
            const wait = key.take()
            return wait > 0 ? { refused: { status: 429, detail: MANY_REQUESTS } } : { head, body }
          },
          hold: end => key.openStream(end),
        }
      const asked = byApplication(exchange) ? askedOf(exchange) : null
      return {
        async command(body) {
          return asked === null ? { head, body } : check!(asked, COMMAND, body)
        },
        hold: () => () => {},
      }
    },
  }
}

/** The request passes if the key has the scopes of the route and is within its limits. */
function withKey(exchange: Exchange, route: Route, body: Uint8Array, key: Key): Uint8Array | null {
  const { id, name, scopes, limits } = key.record
  const wanted = scopesOf(route)
  if (!allows(scopes, wanted))
    return refused(exchange, 403, `The key has not the scope ${wanted.find(one => !allows(scopes, [one]))}`)
  const wait = key.take()
  if (wait > 0) return refused(exchange, 429, MANY_REQUESTS, { 'Retry-After': `${wait}` })
  exchange.key = key
  // What only reads needs no identity: it would be part of every call.
  if (wanted.some(scope => scope !== 'read'))
    exchange.caller = {
      identity: { identity: id, display_name: name, permissions: scopes, is_authenticated: true },
      ...(limits.running_runs === null ? {} : { key: { id, running_runs: limits.running_runs } }),
    }
  if (route.long && !exchange.hold(end => key.openStream(end), REVOKED)) return refused(exchange, 429, MANY_STREAMS)
  return body
}

const needed = new WeakMap<Route, Scope[]>()

function scopesOf(route: Route): Scope[] {
  let found = needed.get(route)
  if (found === undefined) needed.set(route, (found = scopesFor(route)))
  return found
}

/** The headers of a client that nobody else may set are not passed on. */
const askedOf = ({ method, url, received, params, query }: Exchange): Asked => ({
  method,
  url,
  headers: received.all.filter(([name]) => !name.startsWith('x-weft-')),
  params,
  query,
})

function refuse(exchange: Exchange, { refused: { status, detail, headers } }: Refused): null {
  return refused(exchange, status, detail, headers)
}

function refused(exchange: Exchange, status: number, detail: string, headers?: { [name: string]: string }): null {
  exchange.error(status, detail, headers)
  return null
}
