/**
 * A client's record of its calls: `ok` was answered 2xx, `fail` was answered otherwise, `unknown` was not answered, so that
 * the server may have done it or not.
 */
import { appendFileSync } from 'node:fs'

export type Outcome = 'ok' | 'fail' | 'unknown'

export interface Call<T = unknown> {
  outcome: Outcome
  /** 0: no answer. */
  status: number
  /** Parsed JSON; undefined without one. */
  body: T | undefined
  retryAfter: string | null
  sent: number
  ms: number
}

export interface Request {
  url: string
  method?: string
  path: string
  body?: unknown
  headers?: { [name: string]: string }
  /** After this time without an answer the call is unknown. */
  timeout?: number
}

export interface Ledger {
  call<T = { [field: string]: unknown }>(request: Request): Promise<Call<T>>
  count(outcome: Outcome): number
  /** Statuses of the calls that were refused. */
  refused(): Set<number>
  /** Milliseconds of the slowest call. */
  slowest(): number
  /** Milliseconds below which this share of the answered calls was. */
  quantile(share: number): number
}

const TIMEOUT_MS = 60_000
/** Characters of an answer in the file. */
const MOST = 500

/** Each call is a line of JSON in the file: when it was sent, how long it took, its outcome. */
export function openLedger(file: string): Ledger {
  const all: Pick<Call, 'outcome' | 'status' | 'ms'>[] = []
  return {
    async call<T>({ url, method = 'POST', path, body, headers = {}, timeout = TIMEOUT_MS }: Request) {
      const sent = performance.now()
      const call: Call<T> = { outcome: 'unknown', status: 0, body: undefined, retryAfter: null, sent, ms: 0 }
      try {
        const answer = await fetch(url + path, {
          method,
          headers: { 'content-type': 'application/json', ...headers },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
          signal: AbortSignal.timeout(timeout),
        })
        const text = await answer.text()
        call.body = text === '' ? undefined : (JSON.parse(text) as T)
        call.status = answer.status
        call.retryAfter = answer.headers.get('retry-after')
        call.outcome = answer.ok ? 'ok' : 'fail'
      } catch {
        // No answer, or not all of it.
      }
      call.ms = performance.now() - sent
      all.push({ outcome: call.outcome, status: call.status, ms: call.ms })
      const { outcome, status, ms } = call
      appendFileSync(
        file,
        `${JSON.stringify({ sent, ms, method, path, outcome, status, body: JSON.stringify(call.body)?.slice(0, MOST) })}\n`,
      )
      return call
    },
    count: outcome => all.filter(call => call.outcome === outcome).length,
    refused: () => new Set(all.filter(({ outcome }) => outcome === 'fail').map(({ status }) => status)),
    slowest: () => Math.max(0, ...all.map(({ ms }) => ms)),
    quantile: share =>
      quantile(
        all.filter(({ outcome }) => outcome !== 'unknown').map(({ ms }) => ms),
        share,
      ),
  }
}

/** The value below which this share of the values is; 0 without values. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
}
