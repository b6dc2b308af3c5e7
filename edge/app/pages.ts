/**
 * The rights of pages of applications on the origin of this server, where a person also enters keys into the console. Those
 * of deployments have no origin at all. Those of the built-in application have the one of the server, unless the console
 * has one of its own (WEFT_CONSOLE_URL), on which all pages of applications have none.
 */
import type { Config } from '../../schemas/config.js'
import { crosses, OAUTH_COOKIE } from '../http/crossing.js'
import type { Exchange } from '../http/exchange.js'
import { PREFIX } from '../http/mount.js'
import type { Headers } from '../http/received.js'

type Header = [name: string, value: string]

export interface Pages {
  /** Whether the request is for the origin that the console has for itself. */
  isConsole(exchange: Exchange): boolean
  /** The headers of an answer of an application as the client gets them. */
  answerHeaders(exchange: Exchange, given: readonly Header[]): Header[]
  /** The same for a refusal of `auth`, whose body is ours. */
  refusalHeaders(exchange: Exchange, given: Headers): Headers
  /** Whether the application may serve a service worker at its path: one that can control pages of its own only. */
  mayServeWorker(exchange: Exchange): boolean
}

/** A document gets an origin that is equal to no other one: no storage, no cookies, no service workers. */
const SANDBOX: Header = [
  'Content-Security-Policy',
  'sandbox allow-scripts allow-forms allow-modals allow-downloads allow-popups allow-popups-to-escape-sandbox',
]

export function openPages({ console_url }: Config): Pages {
  const console = console_url === '' ? null : new URL(console_url)
  /** Clients may write the default port. */
  const names = console === null ? [] : [console.host, `${console.hostname}:${console.port || PORTS[console.protocol]}`]

  const isConsole = ({ received }: Exchange) => names.includes(received.host.toLowerCase())
  const isConfined = (exchange: Exchange) => exchange.mount !== null || isConsole(exchange)

  function answerHeaders(exchange: Exchange, given: readonly Header[]): Header[] {
    const confined = isConfined(exchange)
    const passed = given.flatMap(([name, value]): Header[] => {
      const lower = name.toLowerCase()
      if (!crosses(lower, 'client')) return []
      if (lower !== 'set-cookie') return [[name, value]]
      const cookie = confined ? cookieWithin(value, exchange, isConsole(exchange)) : value
      return cookie === null || isOurs(cookie) ? [] : [[name, cookie]]
    })
    return confined ? [...passed, SANDBOX] : passed
  }

  return {
    isConsole,
    answerHeaders,
    refusalHeaders(exchange, given) {
      const valid = Object.entries(given).filter(
        ([name, value]) => NAME.test(name) && VALUE.test(value) && !OF_BODY.test(name),
      )
      return Object.fromEntries(answerHeaders(exchange, valid))
    },
    mayServeWorker: exchange => !isConfined(exchange) && exchange.path.lastIndexOf('/') > 0,
  }
}

const PORTS: { readonly [protocol: string]: string } = { 'http:': '80', 'https:': '443' }
/** Checks the text that a process with code of an application writes into a head of ours. */
const NAME = /^[\w!#$%&'*+.^`|~-]+$/
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/
const OF_BODY = /^content-(?!security-policy)/i

/** Browsers send a cookie without a name as its value alone, which then looks like one with a name. */
const isOurs = (cookie: string): boolean => OAUTH_COOKIE.test(cookie.replace(/^[\s=]+/, ''))

/** The cookie for paths of its deployment alone, which does not know its own prefix; null: no path is its own. */
function cookieWithin(value: string, { mount, path }: Exchange, isForConsole: boolean): string | null {
  if (mount === null || !('slug' in mount) || isForConsole) return null
  const prefix = PREFIX + mount.slug
  const attributes = value.split(';')
  const kept = attributes.filter((one, i) => i === 0 || !/^\s*(path|domain)\s*(=|$)/i.test(one))
  const given = attributes.findLast((one, i) => i > 0 && /^\s*path\s*=/i.test(one))
  const wanted = given?.slice(given.indexOf('=') + 1).trim() ?? ''
  // RFC 6265, 5.1.4.
  const inner = wanted.startsWith('/') ? wanted : path.slice(0, path.lastIndexOf('/'))
  const isWithin = inner === prefix || inner.startsWith(`${prefix}/`)
  return [...kept, ` Path=${isWithin ? inner : prefix + (inner === '/' ? '' : inner)}`].join(';')
}
