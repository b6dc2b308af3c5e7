/** Sends the calls of a case to one server. */
import { setTimeout as sleep } from 'node:timers/promises'
import { createParser } from 'eventsource-parser'
import type { Call } from './case.js'

export interface Answer {
  status: number
  /** The headers that clients read. */
  headers: { [name: string]: string }
  body?: unknown
  events?: { event: string; data: unknown; numbered: boolean }[]
}

/** Values that earlier calls have saved. */
export type Saved = { [name: string]: unknown }

const HEADERS = ['content-type', 'content-location', 'location', 'x-pagination-total', 'x-pagination-next', 'allow']
/** The official server for JavaScript compiles a graph for its schemas. */
export const CALL_MS = 60_000
const SETTLE_MS = 30_000
const BUSY = new Set(['busy', 'pending', 'running'])
/** Integers that a double cannot hold would be equal to their neighbours. */
const LARGE = /([:[,]\s*)(-?\d{16,})(?=\s*[,\]}])/g

export async function send(base: string, call: Call, saved: Saved, callMs = CALL_MS): Promise<Answer> {
  const deadline = Date.now() + SETTLE_MS
  for (;;) {
    const answer = await sendOnce(base, call, saved, callMs)
    const { status } = (answer.body ?? {}) as { status?: unknown }
    const waits =
      call.until === 'settled' ? BUSY.has(status as string) : call.until === 'running' && status === 'pending'
    if (!waits || Date.now() > deadline) {
      for (const [name, path] of Object.entries(call.save ?? {})) saved[name] = memberOf(answer.body, path)
      return answer
    }
    await sleep(30)
  }
}

async function sendOnce(
  base: string,
  { call, body, text, headers }: Call,
  saved: Saved,
  callMs: number,
): Promise<Answer> {
  const [method = '', path = ''] = filled(call, saved).split(/ (.*)/s)
  const content = text ?? (body === undefined ? undefined : JSON.stringify(fill(body, saved)))
  const response = await fetch(`${base}${path}`, {
    method,
    // A connection that is used again may be closed by its server at that moment.
    headers: {
      connection: 'close',
      ...(content === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(content === undefined ? {} : { body: content }),
    signal: AbortSignal.timeout(callMs),
    redirect: 'manual',
  })
  const answer: Answer = { status: response.status, headers: {} }
  for (const name of HEADERS) {
    const value = response.headers.get(name)
    if (value !== null) answer.headers[name] = value.toLowerCase().replace(/; ?charset=.*/, '')
  }
  const received = await response.text()
  if (answer.headers['content-type'] === 'text/event-stream') answer.events = eventsOf(received)
  else if (received !== '') answer.body = parsed(received)
  return answer
}

function eventsOf(text: string): NonNullable<Answer['events']> {
  const events: NonNullable<Answer['events']> = []
  const parser = createParser({
    onEvent: ({ event = '', data, id }) => events.push({ event, data: parsed(data), numbered: id !== undefined }),
  })
  parser.feed(text)
  return events
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text.trim().replace(LARGE, '$1"integer $2"'))
  } catch {
    return text
  }
}

/** Replaces the names of saved values in every text. */
function fill(value: unknown, saved: Saved): unknown {
  if (typeof value === 'string') return filled(value, saved)
  if (Array.isArray(value)) return value.map(each => fill(each, saved))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [filled(name, saved), fill(each, saved)]))
}

const filled = (text: string, saved: Saved): string =>
  text.replace(/\{(\w+)\}/g, (whole, name) => (name in saved ? `${saved[name]}` : whole))

function memberOf(value: unknown, path: string): unknown {
  let at = value
  for (const name of path.split('.')) at = (at as { [name: string]: unknown } | null | undefined)?.[name]
  return at
}
