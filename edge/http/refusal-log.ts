/**
 * One log line per refused request: `info` for 4xx, `warn` for 5xx, and at most 20 lines per second, so that a client
 * cannot fill a disk. Probes are not logged: a balancer repeats them, and their answer is their report.
 */
import type { Log } from '../../bus/log.js'
import type { Exchange } from './exchange.js'

const MAX_PER_SECOND = 20
const MAX_DETAIL = 300
const PROBES = new Set(['/ok', '/ready', '/live', '/metrics'])

export type Refused = (exchange: Exchange, status: number, body: string | Uint8Array | null) => void

export function openRefusalLog(log: Log, now: () => number = Date.now): Refused {
  let second = 0
  let lines = 0
  let dropped = 0
  return ({ method, path, requestId, received }, status, body) => {
    if (PROBES.has(path)) return
    const current = Math.floor(now() / 1_000)
    if (current !== second) {
      if (dropped > 0) log.warn({ requests: dropped }, 'more requests were refused')
      second = current
      lines = dropped = 0
    }
    if (++lines > MAX_PER_SECOND) {
      dropped++
      return
    }
    const headers = received.logged === null ? {} : { headers: received.logged }
    const line = {
      status,
      method,
      path: path.slice(0, MAX_DETAIL),
      detail: detailOf(body),
      request_id: requestId,
      ...headers,
    }
    if (status >= 500) log.warn(line, 'request refused')
    else log.info(line, 'request refused')
  }
}

/** The sentence of an error body, or the body itself. */
function detailOf(body: string | Uint8Array | null): string {
  if (body === null) return ''
  const text = typeof body === 'string' ? body : Buffer.from(body.subarray(0, 4 * MAX_DETAIL)).toString()
  try {
    const { detail } = JSON.parse(text) as { detail?: unknown }
    return (typeof detail === 'string' ? detail : JSON.stringify(detail ?? text)).slice(0, MAX_DETAIL)
  } catch {
    return text.slice(0, MAX_DETAIL)
  }
}
