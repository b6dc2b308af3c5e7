/** Plain calls: forwards the body's bytes to a worker and the answer's bytes back, and parses neither. */
import { v7 as uuid } from 'uuid'
import type { Answer } from '../bus/answer.js'
import { NotSent } from '../bus/call.js'
import type { CallHead } from '../schemas/calls.js'
import { ERRORS, fail, WeftError } from '../schemas/errors.js'
import type { Edge } from './context.js'
import type { Exchange } from './http/exchange.js'
import { notReady } from './readiness.js'
import type { Route } from './routes.js'

const CALL_MS = 60_000
/** Time in which a create without an answer is repeated while the cluster is ready, and while it is not. */
const REPEAT_MS = 20_000
const PATIENCE_MS = 5_000

export async function callThrough(
  edge: Edge,
  exchange: Exchange,
  route: Route,
  body: Uint8Array,
  more?: Partial<CallHead>,
): Promise<void> {
  const makes = route.makes === true && isPlain(body) ? { makes: uuid() } : undefined
  const head =
    more === undefined && makes === undefined ? exchange.callHead() : { ...exchange.callHead(), ...more, ...makes }
  const repeat = route.repeats || makes !== undefined
  const answer = await edge.caller.call(route.subject, head, body, { timeout: CALL_MS, repeat })
  exchange.releaseBody()
  forward(exchange, answer)
}

/** A second thread of the same id is a conflict, and states of a body are several writes: those calls are sent once. */
const isPlain = (body: Uint8Array): boolean => {
  const text = Buffer.from(body.buffer, body.byteOffset, body.length)
  return !text.includes('"thread_id"') && !text.includes('"supersteps"')
}

/** The head of a call that creates a run, with the id that is made here. */
type CreateHead = CallHead & Required<Pick<CallHead, 'run'>>

/**
 * Sends a call that creates a run, and repeats it until a worker answers: a worker that finds the run stored answers its
 * row. Rejects with `unavailable` after 20 s, or after 5 s once the cluster is not ready; the error says what is known.
 */
export async function createCall(edge: Edge, subject: string, head: CreateHead, body: Uint8Array): Promise<Answer> {
  const begun = performance.now()
  let isCertain = true
  try {
    return await edge.caller.callUntilAnswered(subject, head, body, {
      until: begun + REPEAT_MS,
      timeout: REPEAT_MS,
      signal: edge.stopping,
      onRetry: last => (isCertain &&= last instanceof NotSent),
      mayRetry: async () => performance.now() - begun < PATIENCE_MS || (await notReady(edge, head)) === null,
    })
  } catch (error) {
    if (!(error instanceof WeftError) || (isCertain && error instanceof NotSent)) throw error
    throw fail('unavailable', `${error.message}; ${unknownRun(head)}`)
  }
}

/** How a client finds out about the run of a create that nobody has answered. */
function unknownRun({ run: { run_id, mode }, params, idempotency_key }: CreateHead): string {
  const which = mode === 'events' ? `run ${run_id} of this command` : `run ${run_id}`
  const how =
    idempotency_key === undefined
      ? `GET ${params?.thread_id === undefined ? '' : `/threads/${params.thread_id}`}/runs/${run_id} answers 200 then`
      : 'repeat the request with the same Idempotency-Key'
  return `whether ${which} was accepted, or will be, is not known: ${how}`
}

/** Answers the request with the answer of a worker. */
export function forward(exchange: Exchange, { head, body }: Answer, extra?: { [name: string]: string }) {
  const { status, headers } = head
  // An error with a body is a list of fields (docs/spec/control-plane.md#error-bodies).
  if (status >= 400 && body.length > 0) return exchange.reply(status, body, headers)
  if (status >= 400) return exchange.error(status, head.detail ?? ERRORS.internal.sentence, headers)
  const both = headers === undefined ? extra : extra === undefined ? headers : { ...headers, ...extra }
  // A 200 without a body breaks the SDKs: an answer without one is 202 or 204 (docs/spec/http.md#errors).
  exchange.reply(status, body.length === 0 ? null : body, both)
}
