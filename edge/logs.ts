/** `GET /workers/logs`: the newest log lines of graph workers and their hosts, which are asked for when somebody reads. */
import type { PoolReport } from '../bus/logs.js'
import { allows } from '../schemas/auth/keys.js'
import { BUILT_IN_APP } from '../schemas/ids.js'
import { time } from '../schemas/json.js'
import { readInteger, readNames } from '../schemas/query.js'
import { LOG_LEVELS, type LogLine, type LogLines, type LogQuery, MAX_LOG_LINES } from '../schemas/trace.js'
import type { Edge } from './context.js'
import type { Exchange } from './http/exchange.js'

const LIMIT = 500
const NO_KEY = 'Log lines show what all users do: send a key of this server that has the scope read'

/** The lines of all pools are at one address: the address of a deployment has none. */
export async function logs(edge: Edge, exchange: Exchange): Promise<void> {
  if (exchange.mount !== null) return exchange.refuse('not_found')
  const query = new URLSearchParams(exchange.query)
  const given = (name: string) => query.get(name) || undefined
  const [worker, pool, run_id, text] = ['worker', 'pool', 'run_id', 'text'].map(given)
  const [level] = readNames(query, 'level', LOG_LEVELS)
  const limit = readInteger(query, 'limit', LIMIT, 1, MAX_LOG_LINES)
  const mayRead = await readersRight(edge, exchange)
  if (mayRead === null) return exchange.refuse('forbidden', NO_KEY)
  const asked: LogQuery = {
    limit,
    ...(run_id === undefined ? {} : { run_id: run_id.slice(0, 64) }),
    ...(text === undefined ? {} : { text: text.slice(0, 1_000) }),
    ...(level === undefined ? {} : { level }),
  }
  const reports = (await edge.logs.ask(asked)).filter(mayRead)
  const chosen = reports.filter(one => (worker ?? one.worker) === one.worker && (pool ?? one.pool) === one.pool)
  const lines = chosen.flatMap(linesOf).sort((a, b) => (a.time < b.time ? -1 : a.time > b.time ? 1 : 0))
  const answer: LogLines = {
    lines: lines.slice(-limit),
    workers: reports.map(({ worker, pool }) => ({ worker, pool })).sort((a, b) => (a.worker < b.worker ? -1 : 1)),
  }
  exchange.reply(200, JSON.stringify(answer))
}

const linesOf = ({ worker, pool, lines }: PoolReport): LogLine[] =>
  lines.map(({ id, time: at, ...line }) => ({ id: `${worker}:${id}`, time: time(at), worker, pool, ...line }))

/**
 * Chooses the workers whose lines the caller may read; null: none. A key that may read gets all; without one, those of an
 * application whose API is open to everybody.
 */
async function readersRight(edge: Edge, exchange: Exchange): Promise<((report: PoolReport) => boolean) | null> {
  const key = await edge.guard.keyOf(exchange)
  if (key !== null) return allows(key.record.scopes, ['read']) ? () => true : null
  const isOpen = !edge.guard.needsKey && edge.application?.auth == null
  return isOpen ? ({ app }) => app === BUILT_IN_APP : null
}
