/** Plain calls: the body's bytes to a worker, the answer's bytes back. Nothing of either is parsed here. */
import type { Answer } from '../bus/call.js'
import type { CallHead } from '../schemas/calls.js'
import { ERRORS } from '../schemas/errors.js'
import type { Edge } from './context.js'
import type { Exchange } from './http/exchange.js'
import type { Route } from './routes.js'

const CALL_MS = 60_000

export async function callThrough(
  edge: Edge,
  exchange: Exchange,
  route: Route,
  body: Uint8Array,
  more?: Partial<CallHead>,
): Promise<void> {
  const head = more === undefined ? exchange.callHead() : { ...exchange.callHead(), ...more }
  forward(exchange, await edge.caller.call(route.subject, head, body, { timeout: CALL_MS }))
}

/** The answer of a worker as the answer of the edge. */
export function forward(exchange: Exchange, { head, body }: Answer, extra?: { [name: string]: string }) {
  const { status, headers } = head
  // An error with a body of its own is a list of fields (API: control-plane 2.2).
  if (status >= 400 && body.length > 0) return exchange.reply(status, body, headers)
  if (status >= 400) return exchange.error(status, head.detail ?? ERRORS.internal.sentence, headers)
  const both = headers === undefined ? extra : extra === undefined ? headers : { ...headers, ...extra }
  // A 200 without a body breaks the SDKs: what has none is 202 or 204 (API: threads-and-runs 2).
  exchange.reply(status, body.length === 0 ? null : body, both)
}
