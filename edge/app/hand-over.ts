/**
 * The part of a request that code of an application gets: everything but the credentials of Weft. In their place it gets the id and
 * the scopes of the key, and a ticket, which gives the request its caller back when the application passes it on to a
 * built-in route.
 */
import { CALLER, KEY_ID, KEY_SCOPES } from '../../schemas/app-host.js'
import { keyIdOf } from '../../schemas/auth/keys.js'
import type { Config } from '../../schemas/config.js'
import type { ControlKey } from '../control-key.js'
import { crosses, fateOf, OAUTH_COOKIE, openKeyFinder } from '../http/crossing.js'
import type { Exchange } from '../http/exchange.js'
import type { Penalty } from '../http/penalty.js'
import type { Key, Keys } from '../keys.js'

type Header = [name: string, value: string]

export interface Handed {
  headers: Header[]
  query: string
}

export interface HandOver {
  /** `app`: the application that gets a ticket; null: it passes nothing on. Rejects when nobody can tell whose key it is. */
  handedTo(app: string | null, exchange: Exchange): Handed | Promise<Handed>
  /** The key that the request carries or has carried; null for none, and for a wrong one after its penalty. */
  keyOf(exchange: Exchange): Key | null | Promise<Key | null>
}

interface Options {
  config: Config
  keys: Keys
  controlKey: ControlKey
  penalty: Penalty
}

/** A ticket that no key belongs to: the request carried a wrong key. */
const NOBODY = 'nobody'

export function openHandOver({ config, keys, controlKey, penalty }: Options): HandOver {
  const holdsKey = openKeyFinder(config)

  function keyOf(exchange: Exchange): Key | null | Promise<Key | null> {
    if (exchange.key !== null) return exchange.key
    const { received, requestId, ticket } = exchange
    const found =
      received.key === '' && ticket !== null ? keys.redeem(ticket, requestId) : keys.find(received.key, requestId)
    return found !== null && !(found instanceof Promise) ? found : penalty.check(exchange, found)
  }

  /** Whether the header is the key of the control plane of which this edge knows the digest only. */
  function isControlKey([name, value]: Header, requestId: string): boolean | Promise<boolean> {
    const text = name === 'x-api-key' ? value : name === 'authorization' ? (BEARER.exec(value)?.[1] ?? '') : ''
    return text !== '' && !holdsKey(text) && controlKey.isKey(Buffer.from(text, 'latin1').toString(), requestId)
  }

  return {
    keyOf,
    handedTo(app, exchange) {
      const { received, requestId, ticket } = exchange
      const all = received.all.filter(([name]) => crosses(name, 'app'))
      const isOurs = ticket !== null || keyIdOf(received.key) !== null
      const key = isOurs ? keyOf(exchange) : null
      const control = all.map(header => isControlKey(header, requestId))
      const make = (key: Key | null, control: readonly boolean[]): Handed => {
        const kept = all.flatMap(([name, value], i): Header[] => {
          const rest = control[i] ? '' : withoutKeys(name, value, holdsKey)
          return rest === '' && value !== '' ? [] : [[name, rest]]
        })
        const wasCleaned = isOurs || kept.length < all.length
        return {
          headers: [
            ...kept,
            ['x-request-id', requestId],
            ...(key === null ? [] : identityOf(key)),
            ...(app === null || !wasCleaned
              ? []
              : [[CALLER, key === null ? NOBODY : keys.ticketOf(key, app)] as Header]),
          ],
          query: withoutKeysInQuery(exchange.query, holdsKey),
        }
      }
      if (key instanceof Promise || control.some(one => one instanceof Promise))
        return Promise.all([key, Promise.all(control)]).then(([key, control]) => make(key, control))
      return make(key, control as boolean[])
    },
  }
}

const identityOf = ({ record: { id, scopes } }: Key): Header[] => [
  [KEY_ID, id],
  [KEY_SCOPES, scopes.join(',')],
]

const BEARER = /^bearer\s+(.+)$/i
const BASIC = /^basic\s+([\w+/=-]+)$/i

/** The value of the header without keys of Weft and cookies of its own; '' when nothing is left. */
function withoutKeys(name: string, value: string, holdsKey: (text: string) => boolean): string {
  if (fateOf(name, 'app') !== 'cleaned') return holdsKey(value) ? '' : value
  if (name === 'cookie') return listOf(value, ';', one => !holdsKey(one) && !OAUTH_COOKIE.test(one))
  if (name === 'sec-websocket-protocol') return listOf(value, ',', one => !holdsKey(one))
  const [, encoded] = BASIC.exec(value) ?? []
  return holdsKey(value) || (encoded !== undefined && holdsKey(Buffer.from(encoded, 'base64').toString())) ? '' : value
}

/** The list without what may not pass; the same text when all of it may. */
function listOf(value: string, separator: string, passes: (one: string) => boolean): string {
  const all = value.split(separator)
  const kept = all.filter(one => passes(one.trim()))
  return kept.length === all.length ? value : kept.join(separator).trim()
}

function withoutKeysInQuery(query: string, holdsKey: (text: string) => boolean): string {
  if (query === '') return query
  const passes = (one: string) => !holdsKey(one) && ![...new URLSearchParams(one)].flat().some(holdsKey)
  return listOf(query, '&', passes)
}
