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

const BODILESS = new Set(['GET', 'HEAD', 'OPTIONS', 'DELETE'])

/** One sentence when the framing is ambiguous, else null. Such a request is answered 400 and its connection closed. */
export function framingFault(method: string, received: Received): string | null {
  if (received.hosts !== 1 || received.host === '') return 'Exactly one Host header is required'
  if (received.lengths > 1) return 'More than one Content-Length header'
  if (Number.isNaN(received.length)) return 'Content-Length is not a number'
  if (received.encodings > 1 || (received.encodings === 1 && received.encoding !== 'chunked'))
    return 'The only Transfer-Encoding accepted is chunked'
  if (received.encodings === 1 && BODILESS.has(method)) return `${method} with Transfer-Encoding is not accepted`
  if (received.encodings === 1 && received.lengths === 1) return 'Content-Length and Transfer-Encoding together'
  return null
}

/** JSON, or a type that browsers and SDKs send in its place (API: threads-and-runs 1). */
export function isJson(type: string): boolean {
  if (type === '' || type === 'application/json') return true
  const essence = type.split(';', 1)[0]!.trim().toLowerCase()
  return essence === 'application/json' || essence === 'text/plain' || essence === ''
}

/** JSON only: a page cannot send it without a preflight (API: control-plane 2.1). */
export const isStrictJson = (type: string): boolean => /^application\/json\s*(;|$)/i.test(type.trim())

/**
 * Whether a Host header may reach this server. A page of another name that resolves to 127.0.0.1 (DNS rebinding) sends
 * its name. Bound to other than loopback, the operator lists the names; without a list none is checked.
 */
export function hostGuard({ host, allowed_hosts }: Config): (header: string) => boolean {
  const names = allowed_hosts.split(',').flatMap(name => name.trim().toLowerCase() || [])
  if (names.includes('*') || (names.length === 0 && !isLoopback(host))) return () => true
  const allowed = new Set([host.toLowerCase(), ...names])
  let last = ''
  return header => {
    if (header === last) return true
    const name = header.toLowerCase()
    const bare = name.replace(/:\d*$/, '').replace(/^\[|\]$/g, '')
    if (!isLoopback(bare) && !allowed.has(bare) && !allowed.has(name)) return false
    last = header
    return true
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

function sameHost(origin: string, host: string): boolean {
  try {
    return new URL(origin).host === host.toLowerCase()
  } catch {
    return false
  }
}
