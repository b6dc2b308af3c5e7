/**
 * `GET /v2/auth/wait/{auth_id}`: until the OAuth flow has ended (docs/spec/oauth.md#wait). Always 200. The edge holds the
 * request; a message of the worker that ends the flow wakes it, and a look every 5 s covers a lost message. Blank lines
 * keep the connection alive, JSON parsers skip them.
 */
import { onAuthEnd } from '../../bus/events.js'
import type { CallHead } from '../../schemas/calls.js'
import { InvalidFields } from '../../schemas/errors.js'
import { isUuid } from '../../schemas/ids.js'
import type { AuthRef, Waited } from '../../schemas/oauth.js'
import type { Edge } from '../context.js'
import type { Exchange } from '../http/exchange.js'
import type { Route } from '../routes.js'

const DEFAULT_S = 30
const MAX_S = 600
const LOOK_MS = 5_000
const HEADERS = { 'Content-Type': 'application/json', 'Cache-Control': 'no-store', 'X-Accel-Buffering': 'no' }
const BLANK = Buffer.from('\n')

/** `by`: the key of the request. */
export async function waitForConsent(edge: Edge, exchange: Exchange, { subject }: Route, by: string): Promise<void> {
  const { auth_id = '' } = exchange.params
  const until = performance.now() + 1_000 * secondsOf(exchange.query)
  if (!isUuid(auth_id)) return answer(exchange, { status: 'not_found' })
  let wake = () => {}
  const unfollow = onAuthEnd(edge.link, auth_id.toLowerCase(), () => wake())
  const { onOver } = exchange
  exchange.onOver = () => {
    wake()
    onOver?.()
  }
  const onStop = () => wake()
  edge.stopping.addEventListener('abort', onStop)
  try {
    const look = () => peek(edge, subject, { ...exchange.callHead(), by }, auth_id)
    let found = await look()
    if (found.status === 'pending' && until > performance.now()) exchange.begin(HEADERS, '\n')
    while (found.status === 'pending' && until > performance.now() && !exchange.over && !edge.stopping.aborted) {
      await new Promise<void>(done => {
        const timer = setTimeout(done, Math.min(LOOK_MS, until - performance.now()))
        wake = () => {
          clearTimeout(timer)
          done()
        }
      })
      exchange.write(BLANK)
      // After an answer that did not come, the next look asks again.
      if (!exchange.over) found = await look().catch(() => found)
    }
    const isLate = found.status === 'pending' && exchange.streaming
    answer(exchange, isLate ? { status: 'timeout' } : found)
  } finally {
    unfollow()
    edge.stopping.removeEventListener('abort', onStop)
  }
}

async function peek(edge: Edge, subject: string, head: CallHead, auth_id: string): Promise<Waited> {
  const body = Buffer.from(JSON.stringify({ auth_id } satisfies AuthRef))
  const answer = await edge.caller.ask(subject, head, body, { repeat: true, timeout: PEEK_MS })
  return JSON.parse(Buffer.from(answer.body).toString()) as Waited
}

/** A token that is about to expire is refreshed first. */
const PEEK_MS = 60_000

function answer(exchange: Exchange, waited: Waited): void {
  const text = JSON.stringify(waited)
  if (exchange.streaming) exchange.end(text)
  else exchange.reply(200, text, { 'Cache-Control': 'no-store' })
}

/** Throws InvalidFields. More than the maximum counts as that. */
function secondsOf(query: string): number {
  const given = new URLSearchParams(query).get('timeout')
  if (given === null) return DEFAULT_S
  if (/^\d{1,9}$/.test(given)) return Math.min(Number(given), MAX_S)
  throw new InvalidFields([
    { loc: ['query', 'timeout'], msg: 'expected a whole number of seconds', type: 'int_parsing' },
  ])
}
