/**
 * Checks before routing. uWebSockets.js itself refuses Content-Length with Transfer-Encoding,
 * malformed lengths and chunks (400), HTTP/1.0 (505) and large headers (431), and drops requests without Host; it
 * takes the first of two Content-Length headers and any Transfer-Encoding as chunked, which behind a proxy is a way to
 * smuggle a request: those are refused here.
 */
import type { Config } from '../../schemas/config.js'
import { isLoopback } from '../../schemas/loopback.js'
import type { Received } from './exchange.js'

/** One sentence when the framing is ambiguous, else null. Such a request is answered 400 and its connection closed. */
export function framingFault(received: Received): string | null {
  if (received.hosts !== 1 || received.host === '') return 'Exactly one Host header is required'
  if (received.lengths > 1) return 'More than one Content-Length header'
  if (Number.isNaN(received.length)) return 'Content-Length is not a number'
  if (received.encodings > 1 || (received.encodings === 1 && received.encoding !== 'chunked'))
    return 'The only Transfer-Encoding accepted is chunked'
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
