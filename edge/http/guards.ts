/**
 * Checks before routing. uWebSockets.js itself refuses Content-Length with Transfer-Encoding, malformed lengths (400),
 * HTTP/1.0 (505) and large headers (431), and drops requests without Host. It takes the first of two Content-Length
 * headers, and any Transfer-Encoding as chunked, which behind a proxy is a way to smuggle a request: those are refused
 * here. It also misreads chunk extensions and trailers: a chunked request is refused where no body is expected, and
 * elsewhere its connection is closed behind the answer (exchange.ts).
 */
import type { Config } from '../../schemas/config.js'
import { isLoopback } from '../../schemas/loopback.js'
import type { Cors } from './cors.js'
import type { Received } from './received.js'

/** Node.js and `fetch` on the way to an application make `GET` of `get`, and have no requests of the others. */
const METHOD = /^(?!(?:CONNECT|TRACE|TRACK)$)[A-Z]+(?:-[A-Z]+)*$/
const BODILESS = new Set(['GET', 'HEAD', 'OPTIONS', 'DELETE'])

/** One sentence when the framing is ambiguous, else null. Such a request is answered 400 and its connection closed. */
export function framingFault(method: string, received: Received): string | null {
  const { host, repeated, length, encodings, encoding } = received
  if (!METHOD.test(method)) return 'The method is expected in upper case, and to be none of CONNECT, TRACE and TRACK'
  if (repeated !== '') return `More than one ${repeated} header`
  if (host === '') return 'A Host header is required'
  if (Number.isNaN(length)) return 'Content-Length is not a number'
  if (encodings === 0) return null
  if (encoding !== 'chunked') return 'The only Transfer-Encoding accepted is chunked'
  if (BODILESS.has(method)) return `${method} with Transfer-Encoding is not accepted`
  return length === -1 ? null : 'Content-Length and Transfer-Encoding together'
}

/** JSON only: a page cannot send it without a preflight (docs/spec/control-plane.md#transport). */
export const isStrictJson = (type: string): boolean => /^application\/json\s*(;|$)/i.test(type.trim())

const HOST = /^(\[[0-9a-f:.]+\]|[\w-]+(?:\.[\w-]+)*\.?)(?::\d{1,5})?$/i
const NO_FORM = { status: 400, detail: 'Host: expected a name or an address, and a port if there is one' }
const FOREIGN = {
  status: 403,
  detail: 'This Host is not served here; WEFT_ALLOWED_HOSTS names the ones that are',
}

/** The names that the operator lists. */
const namesOf = ({ allowed_hosts }: Config): string[] =>
  allowed_hosts.split(',').flatMap(name => name.trim().toLowerCase() || [])

const consoleOf = ({ console_url }: Config): string[] => (console_url === '' ? [] : [new URL(console_url).hostname])

/** Whether only hosts that the operator knows are served: then a Host header is one of them. */
export function checksHosts(config: Config): boolean {
  const names = namesOf(config)
  return !names.includes('*') && (names.length > 0 || isLoopback(config.host))
}

/**
 * Why a Host header is refused, else null: it is not `host[:port]`, so what is made of it would be another address; or it
 * may not reach this server. A page of another name that resolves to 127.0.0.1 (DNS rebinding) sends its name. Bound to
 * other than loopback, the operator lists the names; without a list each is served.
 */
export function hostGuard(config: Config): (header: string) => { status: number; detail: string } | null {
  const { host } = config
  const names = namesOf(config)
  const isOpen = !checksHosts(config)
  const allowed = new Set([host.toLowerCase(), ...names, ...consoleOf(config)])
  let last = ''
  return header => {
    if (header === last) return null
    const bare = HOST.exec(header)?.[1]
      ?.toLowerCase()
      .replace(/^\[|\]$/g, '')
    // A port beyond 65535, or an IPv6 address that is none.
    if (bare === undefined || !URL.canParse(`http://${header}`)) return NO_FORM
    if (!isOpen && !isLoopback(bare) && !allowed.has(bare) && !allowed.has(header.toLowerCase())) return FOREIGN
    last = header
    return null
  }
}

/**
 * Whether a page may send this request. Programs send no Origin; a page must be ours, or one that may read the answers:
 * a request without a preflight has its effect even when the page cannot read the answer. A browser that sends no Origin
 * says in Sec-Fetch-Site that another site asks; then only a navigation passes, such as a link to a page of this server.
 */
export function originAllowed({ origin, host, fetchSite, fetchMode }: Received, cors: Cors): boolean {
  if (origin !== '') return sameHost(origin, host) || cors.allows(origin)
  return fetchSite !== 'cross-site' || fetchMode === 'navigate' || cors.allows(origin)
}

/** A part of a page, which loads without being read: a link to it has the same effect. */
export const isPart = (method: string, { origin, fetchMode }: Received): boolean =>
  (method === 'GET' || method === 'HEAD') && origin === '' && fetchMode === 'no-cors'

function sameHost(origin: string, host: string): boolean {
  try {
    return new URL(origin).host === host.toLowerCase()
  } catch {
    return false
  }
}
