/** What the edge says of itself (API: assistants 5). Never needs credentials. */
import { readFileSync } from 'node:fs'
import { isTrue } from '../schemas/query.js'
import { rpc } from '../schemas/subjects.js'
import type { Edge } from './context.js'
import type { Exchange } from './exchange.js'

export interface Versions {
  weft: string
  langgraph: string
}

export function readVersions(): Versions {
  // Two folders up from the compiled file.
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  const { version, dependencies } = JSON.parse(text) as { version: string; dependencies: { [name: string]: string } }
  return { weft: version, langgraph: dependencies['@langchain/langgraph'] ?? '' }
}

const OK = '{"ok":true}'
const CHECK_MS = 5_000
const READY_MS = 2_000

export const root = (exchange: Exchange): void => exchange.reply(200, OK)

/** 200 while the edge lives; with check_db=1 only while the store answers. */
export async function ok(edge: Edge, exchange: Exchange): Promise<void> {
  if (!isTrue(new URLSearchParams(exchange.query).get('check_db'))) return exchange.reply(200, OK)
  const fault = await ask(edge, exchange, rpc('system', 'check'), CHECK_MS)
  if (fault === null) exchange.reply(200, OK)
  else exchange.error(500, fault)
}

/** 503 until broker, store and a worker answer. */
export async function ready(edge: Edge, exchange: Exchange): Promise<void> {
  const fault = edge.stopping
    ? 'The edge is stopping'
    : edge.link.connected()
      ? await ask(edge, exchange, rpc('system', 'ready'), READY_MS)
      : 'The broker cannot be reached'
  if (fault === null) exchange.reply(200, OK)
  else exchange.refuse('unavailable', fault)
}

export function info({ versions }: Edge, exchange: Exchange): void {
  const flags = { assistants: true, crons: false, langsmith: false }
  const body = { version: versions.weft, langgraph_js_version: versions.langgraph, context: 'js', flags, metadata: {} }
  exchange.reply(200, JSON.stringify(body))
}

/** Null when all is well, else a sentence. */
async function ask(edge: Edge, exchange: Exchange, subject: string, timeout: number): Promise<string | null> {
  try {
    const { head } = await edge.caller.call(subject, exchange.callHead(), undefined, { timeout, patience: 0 })
    return head.status < 400 ? null : (head.detail ?? 'Not ready')
  } catch (error) {
    return (error as Error).message
  }
}
