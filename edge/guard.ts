/**
 * Decides about the caller of every route but the public ones and the control plane: the `auth` of the application, else a
 * built-in key, else the server is open. Only this sets the identity and the filters of a call.
 */
import type { AuthEvent } from '../schemas/auth/auth.js'
import { allows, keyIdOf, type Scope, scopesFor } from '../schemas/auth/keys.js'
import type { CallHead } from '../schemas/calls.js'
import type { Config } from '../schemas/config.js'
import { isLoopback } from '../schemas/loopback.js'
import { cancelsByLeaving } from '../schemas/query.js'
import type { Asked, Check, Refused } from './app/check.js'
import type { HandOver } from './app/hand-over.js'
import type { Pages } from './app/pages.js'
import type { Exchange } from './http/exchange.js'
import { isExpired, type Key } from './keys.js'
import type { Route } from './routes.js'

export interface Guard {
  /** Whether requests that no `auth` decides about need a built-in key. */
  readonly needsKey: boolean
  /** The body to carry out, which a handler may have changed; null: the request was refused and answered. */
  admit(exchange: Exchange, route: Route, body: Uint8Array): Uint8Array | null | Promise<Uint8Array | null>
  /** True for a request without the key that it needs, before its body is read: it was answered. */
  refuses(exchange: Exchange, route: Route): boolean
  /** The pass of a WebSocket whose upgrade was admitted. */
  passOf(exchange: Exchange): SocketPass
  /** The key that the request carries; null for none or a wrong one. Its limits are not checked. */
  keyOf(exchange: Exchange): Promise<Key | null>
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
  /** Null: the built-in application has no `auth`. */
  check: Check | null
  /** Rejects for a deployment that is unknown or does not serve. */
  deployed: { find(exchange: Exchange): Promise<{ check: Check | null }> }
  handOver: HandOver
  pages: Pages
}

export const NO_KEY = 'This server needs a key in X-Api-Key or as Authorization: Bearer; `weft keys create` makes one'
const WRONG_KEY = 'This is not a key of this server, or it was revoked or has expired'
export const MANY_REQUESTS = 'Too many requests with this key'
export const MANY_KEY_STREAMS = 'Too many open streams of this key'
/** The error of a stream whose key is revoked or expires. */
export const REVOKED = { error: 'Unauthorized', message: 'The key of this stream was revoked or has expired' }
const CHALLENGE = { 'WWW-Authenticate': 'Bearer' }

/** The events of a command on a WebSocket. */
const COMMAND: readonly AuthEvent[] = ['threads:create_run', 'assistants:read', 'threads:read']

export function openGuard({ config, check, deployed, handOver, pages }: Options): Guard {
  // Routes that no `auth` guards are closed where others than this machine can reach it.
  const needsKey = config.require_keys || (check !== null && !isLoopback(config.host) && !config.insecure)

  /** The `auth` that decides about the request; null: none, or it is not known because the deployment is not. */
  const checkOf = (exchange: Exchange): Check | null | Promise<Check | null> =>
    exchange.mount === null
      ? check
      : deployed.find(exchange).then(
          found => found.check,
          error => {
            // A caller without a key does not learn which deployments exist; the others are told later.
            if (needsKey) return null
            throw error
          },
        )

  function decide(exchange: Exchange, route: Route, body: Uint8Array, check: Check | null) {
    const { runUser, caller } = exchange
    if (check === null && runUser !== null) {
      exchange.caller = { ...caller, identity: runUser }
      return body
    }
    if (check !== null) return ofApplication(check, exchange, route, body)
    if (!needsKey) return body
    return hasKey(exchange) ? ofKey(exchange, route, body) : refused(exchange, 401, NO_KEY, CHALLENGE)
  }

  async function ofApplication(
    check: Check,
    exchange: Exchange,
    { auth }: Route,
    body: Uint8Array,
  ): Promise<Uint8Array | null> {
    const answer = await check(await askedOf(exchange), auth as readonly AuthEvent[], body, exchange.runUser)
    if (exchange.over) return null
    if ('refused' in answer) {
      const { status, detail, headers = {} } = answer.refused
      return refused(exchange, status, detail, pages.refusalHeaders(exchange, headers))
    }
    exchange.caller = answer.head
    exchange.query = answer.query
    return answer.body
  }

  function ofKey(exchange: Exchange, route: Route, body: Uint8Array): Uint8Array | null | Promise<Uint8Array | null> {
    const decide = (key: Key | null) => {
      if (exchange.over) return null
      return key === null ? refused(exchange, 401, WRONG_KEY, CHALLENGE) : withKey(exchange, route, body, key)
    }
    const found = handOver.keyOf(exchange)
    return found instanceof Promise ? found.then(decide) : decide(found)
  }

  /** The request as the `auth` of the application gets it. */
  async function askedOf(exchange: Exchange): Promise<Asked> {
    const { method, url, params } = exchange
    const { headers, query } = await handOver.handedTo(null, exchange)
    return { method, url: url.replace(/\?.*$/s, query === '' ? '' : `?${query}`), headers, params, query }
  }

  return {
    needsKey,
    refuses(exchange, { auth }) {
      if (typeof auth === 'string' || !needsKey || hasKey(exchange)) return false
      // The `auth` of a deployment is known only when a worker was asked.
      if (exchange.mount !== null || check !== null) return false
      exchange.refuse('unauthorized', NO_KEY, CHALLENGE)
      return true
    },
    admit(exchange, route, body) {
      if (typeof route.auth === 'string') return body
      const found = checkOf(exchange)
      if (!(found instanceof Promise)) return decide(exchange, route, body, found)
      return found.then(check => (exchange.over ? null : decide(exchange, route, body, check)))
    },
    passOf(exchange) {
      const { key, caller } = exchange
      const head = caller ?? {}
      if (key !== null)
        return {
          async command(body) {
            if (isExpired(key.record)) return { refused: { status: 401, detail: WRONG_KEY } }
            const wait = key.take()
            return wait > 0 ? { refused: { status: 429, detail: MANY_REQUESTS } } : { head, body }
          },
          hold: end => key.openStream(end),
        }
      return {
        async command(body) {
          // Another revision of a deployment has another `auth`.
          const by = await checkOf(exchange)
          return by === null ? { head, body } : by(await askedOf(exchange), COMMAND, body)
        },
        hold: () => () => {},
      }
    },
    async keyOf(exchange) {
      return exchange.ticket === null && keyIdOf(exchange.received.key) === null ? null : handOver.keyOf(exchange)
    },
  }
}

/** The request passes if the key has the scopes of the route and is within its limits. */
function withKey(exchange: Exchange, route: Route, body: Uint8Array, key: Key): Uint8Array | null {
  const { id, name, scopes, limits } = key.record
  const wanted = cancels(route, exchange) ? CANCEL : scopesOf(route)
  if (!allows(scopes, wanted))
    return refused(exchange, 403, `The key lacks the scope ${wanted.find(one => !allows(scopes, [one]))}`)
  const wait = key.take()
  if (wait > 0) return refused(exchange, 429, MANY_REQUESTS, { 'Retry-After': `${wait}` })
  exchange.key = key
  // Read-only calls carry no identity, which keeps them small.
  if (wanted.some(scope => scope !== 'read'))
    exchange.caller = {
      identity: { identity: id, display_name: name, permissions: scopes, is_authenticated: true },
      key: { id, running_runs: limits.running_runs },
    }
  // The request that this edge makes for another one is part of that stream.
  if (route.long && !exchange.isSelf && !exchange.hold(end => key.openStream(end), REVOKED))
    return refused(exchange, 429, MANY_KEY_STREAMS)
  return body
}

/** The scope that a key needs to cancel a run. */
const CANCEL: readonly Scope[] = ['run']
const cancels = ({ answer }: Route, { query }: Exchange): boolean =>
  (answer === 'join-stream' || answer === 'join-wait') && cancelsByLeaving(new URLSearchParams(query))

const needed = new WeakMap<Route, Scope[]>()

/** The scopes that a key needs for the route, all of them. */
export function scopesOf(route: Route): Scope[] {
  let found = needed.get(route)
  if (found === undefined) needed.set(route, (found = scopesFor(route)))
  return found
}

const hasKey = ({ received, ticket }: Exchange): boolean => received.key !== '' || ticket !== null

function refused(exchange: Exchange, status: number, detail: string, headers?: { [name: string]: string }): null {
  exchange.error(status, detail, headers)
  return null
}
