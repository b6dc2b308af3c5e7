/** Log lines of graph workers: each worker keeps its newest ones and answers when an edge asks, so that nothing is sent otherwise. */
import type { Msg } from 'nats'
import { ANY_POOL, event, ownInbox, poolOfInbox } from '../schemas/subjects.js'
import {
  type LogQuery,
  type LogReport,
  MAX_LOG_LINES,
  validateLogQuery,
  validateLogReport,
  type WorkerLine,
} from '../schemas/trace.js'
import type { Link } from './connect.js'
import { type Mux, openSurvey, type Survey } from './mux.js'

const ASKED = event('logs', 'asked')
const decoder = new TextDecoder()
const encoder = new TextEncoder()

/** Answers edges that ask for lines of this worker, until it is closed. */
export function answerLogs(
  link: Link,
  { app, worker, find }: Pick<LogReport, 'app' | 'worker'> & { find(query: LogQuery): WorkerLine[] },
): { close(): void } {
  const subscription = link.subscribe(ASKED, ({ reply, data }) => {
    const parsed = validateLogQuery(JSON.parse(decoder.decode(data)))
    if (!parsed.success || reply === undefined) return
    const report: LogReport = { app, worker, lines: find(parsed.data) }
    link.nc.publish(ownInbox(reply, link.sender?.pool), encoder.encode(JSON.stringify(report)))
  })
  return { close: () => subscription.unsubscribe() }
}

export type PoolReport = LogReport & { pool: string }

export interface Logs {
  /** Asks all graph workers. */
  ask(query: LogQuery): Promise<PoolReport[]>
}

export function openLogs(mux: Mux): Logs {
  const survey: Survey<PoolReport> = openSurvey(mux, ASKED, readReport)
  return { ask: query => survey.ask(encoder.encode(JSON.stringify(query))) }
}

/** The pool is that which the broker knows; a worker of a shared user answers beside the pools. */
function readReport({ subject, data }: Msg) {
  const parsed = validateLogReport(JSON.parse(decoder.decode(data)))
  if (!parsed.success) return null
  const { app, worker, lines } = parsed.data
  const known = poolOfInbox(subject)
  const pool = known === ANY_POOL ? worker.slice(worker.lastIndexOf('.') + 1) : known
  const value = { app, worker, pool, lines: lines.slice(-MAX_LOG_LINES) }
  return { name: `${pool} ${worker}`, pool: known === ANY_POOL ? undefined : known, value }
}
