/** Plain calls: forwards the body's bytes to a worker and the answer's bytes back, and parses neither. */
import type { Answer, RetryOptions } from '../bus/answer.js'
import type { CallHead } from '../schemas/calls.js'
import { ERRORS } from '../schemas/errors.js'
import type { Edge } from './context.js'
import type { Exchange } from './http/exchange.js'
import type { Route } from './routes.js'

const CALL_MS = 60_000
/** Time in which an idempotent call without an answer is repeated. */
const REPEAT_MS = 20_000

export async function callThrough(
  edge: Edge,
  exchange: Exchange,
  route: Route,
  body: Uint8Array,
  more?: Partial<CallHead>,
): Promise<void> {
  const head = more === undefined ? exchange.callHead() : { ...exchange.callHead(), ...more }
  const answer = await edge.caller.call(route.subject, head, body, { timeout: CALL_MS, repeat: route.repeats })
  exchange.releaseBody()
  forward(exchange, answer)
}

/** How an idempotent call is repeated: one that carries an id made here. */
export const repeatOptions = (edge: Edge): RetryOptions => ({
  until: performance.now() + REPEAT_MS,
  timeout: REPEAT_MS,
  signal: edge.stopping,
})

/** Answers the request with the answer of a worker. */
export function forward(exchange: Exchange, { head, body }: Answer, extra?: { [name: string]: string }) {
  const { status, headers } = head
  // An error with a body is a list of fields (API: control-plane 2.2).
  if (status >= 400 && body.length > 0) return exchange.reply(status, body, headers)
  if (status >= 400) return exchange.error(status, head.detail ?? ERRORS.internal.sentence, headers)
  const both = headers === undefined ? extra : extra === undefined ? headers : { ...headers, ...extra }
  // A 200 without a body breaks the SDKs: an answer without one is 202 or 204 (API: threads-and-runs 2).
  exchange.reply(status, body.length === 0 ? null : body, both)
}
