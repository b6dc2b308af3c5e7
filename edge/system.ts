/** Health and version of this server (API: assistants 5). Never needs credentials. */
import { ERRORS } from '../schemas/errors.js'
import { isTrue } from '../schemas/query.js'
import { rpc } from '../schemas/subjects.js'
import type { Edge } from './context.js'
import type { Exchange } from './http/exchange.js'

const OK = '{"ok":true}'
const CHECK_MS = 5_000
const READY_MS = 2_000

export const root = (edge: Edge, exchange: Exchange): void | Promise<void> =>
  exchange.mount === null ? exchange.reply(200, OK) : check(edge, exchange, () => exchange.reply(200, OK))

/** 200 while the edge lives; with check_db=1 only while the store answers. Below a deployment: while it serves. */
export function ok(edge: Edge, exchange: Exchange): void | Promise<void> {
  const asks = exchange.mount !== null || isTrue(new URLSearchParams(exchange.query).get('check_db'))
  const good = () => exchange.reply(200, OK)
  return asks ? check(edge, exchange, good) : good()
}

/** 503 until broker, store and a worker answer. */
export async function ready(edge: Edge, exchange: Exchange): Promise<void> {
  const fault = edge.stopping.aborted
    ? unavailable('The edge is stopping')
    : edge.link.connected()
      ? await ask(edge, exchange, rpc('system', 'ready'), READY_MS)
      : unavailable('The broker cannot be reached')
  if (fault === null) exchange.reply(200, OK)
  else exchange.error(fault.status, fault.detail)
}

export function info(edge: Edge, exchange: Exchange): void | Promise<void> {
  const { versions } = edge
  const flags = { assistants: true, crons: true, langsmith: false }
  const body = { version: versions.weft, langgraph_js_version: versions.langgraph, context: 'js', flags, metadata: {} }
  const answer = () => exchange.reply(200, JSON.stringify(body))
  return exchange.mount === null ? answer() : check(edge, exchange, answer)
}

interface Fault {
  status: number
  detail: string
}

const unavailable = (detail: string): Fault => ({ status: ERRORS.unavailable.status, detail })

/** Answers `good` when the store answers and knows the deployment; a deployment that does not serve says why. */
async function check(edge: Edge, exchange: Exchange, good: () => void): Promise<void> {
  const fault = await ask(edge, exchange, rpc('system', 'check'), CHECK_MS)
  if (fault === null) good()
  else exchange.error(exchange.mount === null ? 500 : fault.status, fault.detail)
}

/** Null when the worker answers without an error. */
async function ask(edge: Edge, exchange: Exchange, subject: string, timeout: number): Promise<Fault | null> {
  try {
    const { head } = await edge.caller.call(subject, exchange.callHead(), undefined, { timeout, patience: 0 })
    return head.status < 400 ? null : { status: head.status, detail: head.detail ?? 'Not ready' }
  } catch (error) {
    return unavailable((error as Error).message)
  }
}
