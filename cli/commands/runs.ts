/** `weft runs`: lists runs, follows one, cancels some. */
import { setTimeout as sleep } from 'node:timers/promises'
import { createParser, type EventSourceMessage } from 'eventsource-parser'
import type { Run as ApiRun } from '../../schemas/runs.js'
import { paint, printJson, printTable } from '../terminal/text.js'
import { UserError } from '../user-error.js'
import { type Client, type ClientFlags, openClient, refusal } from './client.js'

interface Run {
  run_id: string
  thread_id: string
  status: string
  created_at: string
  error?: NonNullable<ApiRun['error']>
}

interface ListFlags extends ClientFlags {
  thread?: string
  status?: string[]
  graph?: string
  assistant?: string
  since?: string
  text?: string
  oldest?: true
  watch?: true
  limit: number
}

/** Not the input, which may be large. */
const SHOWN = [
  'run_id',
  'thread_id',
  'assistant_id',
  'created_at',
  'updated_at',
  'status',
  'metadata',
  'multitask_strategy',
  'cancel_reason',
  'error',
]
const HEADS = ['run', 'thread', 'status', 'created', 'error']
const WATCH_MS = 2_000
/** Runs that a watch looks at, at least: a change of an older one is not seen. */
const WATCHED = 100
/** Runs of which a watch remembers the status. */
const MOST_SEEN = 100_000

/** The newest or oldest runs, with and without a thread; with --watch also those that come, and each change of a status. */
export async function listRuns(flags: ListFlags): Promise<void> {
  const client = openClient(flags)
  const search = searchOf(flags)
  if (flags.watch) return watchRuns(client, search, flags)
  const runs: Run[] = []
  for await (const page of searchRuns(client, search)) {
    runs.push(...page.slice(0, flags.limit - runs.length))
    if (runs.length === flags.limit) break
  }
  if (flags.json) return printJson(runs)
  printTable(HEADS, runs.map(cells))
}

function searchOf({ thread, status, graph, assistant, since, text, oldest, limit }: ListFlags) {
  return {
    limit,
    thread_id: thread,
    status,
    graph_id: graph,
    assistant_id: assistant,
    created_after: since === undefined ? undefined : timeOf(since),
    text,
    sort_order: oldest ? 'asc' : 'desc',
    select: SHOWN,
  }
}

/** The pages of a search. One may be empty before the end. */
async function* searchRuns(client: Client, search: object): AsyncGenerator<Run[]> {
  for (let cursor: string | null = null; ; ) {
    const body: object = cursor === null ? search : { ...search, cursor }
    const answer = await client.send('POST', '/runs/search', { body, patient: true })
    const text = await answer.text()
    if (!answer.ok) throw refusal(client.url, answer.status, text)
    yield JSON.parse(text) as Run[]
    cursor = answer.headers.get('x-pagination-next')
    if (cursor === null) return
  }
}

/** Looks at the newest runs again and again: the API sends no news of all runs. */
async function watchRuns(client: Client, search: object, { limit, json }: ListFlags): Promise<void> {
  const seen = new Map<string, string>()
  for (let isFirst = true; ; isFirst = false) {
    const news: Run[] = []
    for await (const page of searchRuns(client, { ...search, limit: Math.max(limit, WATCHED) })) {
      const fresh = page.filter(({ run_id, status }) => seen.get(run_id) !== status)
      news.push(...fresh)
      for (const { run_id, status } of fresh) seen.set(run_id, status)
      // The following runs were seen before.
      if (isFirst ? news.length >= limit : page.length === 0 || fresh.length < page.length) break
    }
    for (const run of (isFirst ? news.slice(0, limit) : news).toReversed())
      process.stdout.write(`${json ? JSON.stringify(run) : cells(run).join('  ').trimEnd()}\n`)
    for (const run_id of seen.keys()) {
      if (seen.size <= MOST_SEEN) break
      seen.delete(run_id)
    }
    await sleep(WATCH_MS)
  }
}

function cells({ run_id, thread_id, status, created_at, error }: Run): string[] {
  const place = error?.at === undefined ? '' : ` (${error.at.file}:${error.at.line})`
  const why = error == null ? '' : `${error.error}: ${error.message}`.split('\n', 1)[0]! + place
  return [run_id, thread_id, status, timeText(created_at), why]
}

const UNITS: { readonly [unit: string]: number } = { s: 1, m: 60, h: 3_600, d: 86_400 }

/** A time, or how long ago it was, as ISO 8601. */
function timeOf(text: string): string {
  const [, amount, unit] = /^(\d{1,9})([smhd])$/.exec(text) ?? []
  const at = amount === undefined ? Date.parse(text) : Date.now() - Number(amount) * UNITS[unit!]! * 1_000
  if (Number.isNaN(at) || at < 0)
    throw new UserError(`--since must be a time as 2026-03-01T12:00:00Z, or 30s, 15m, 1h or 7d, not "${text}"`, 2)
  return new Date(at).toISOString()
}

/** "2026-03-01 12:30:05" in the time zone of the terminal. */
export function timeText(iso: string): string {
  const at = new Date(iso)
  const two = (n: number) => `${n}`.padStart(2, '0')
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`
}

interface CancelFlags extends ClientFlags {
  thread?: string
  status?: string
  action: string
}

/** Cancels runs of one thread, or all with a status. */
export async function cancelRuns(run_ids: string[], { thread, status, action, ...flags }: CancelFlags): Promise<void> {
  const named = run_ids.length > 0 && thread !== undefined && status === undefined
  if (!named && !(run_ids.length === 0 && thread === undefined && status !== undefined))
    throw new UserError('expected ids of runs with --thread, or --status pending, running or all', 2)
  const body = named ? { thread_id: thread, run_ids } : { status }
  await openClient(flags).ask('POST', `/runs/cancel?action=${action}`, { body })
  if (flags.json) printJson({ ...body, action })
  else process.stdout.write(`cancelled ${named ? run_ids.join(', ') : `runs with status ${status}`}\n`)
}

interface TailFlags extends ClientFlags {
  from: string
}

const REJOINS = 5

/** Prints the events of a run until it ends; a broken connection is joined again after the last event. */
export async function tailRun(run_id: string, { from, ...flags }: TailFlags): Promise<void> {
  if (!/^(-1|\d+)$/.test(from))
    throw new UserError(`--from must be the id of an event, or -1 for all, not "${from}"`, 2)
  const client = openClient(flags)
  const printer = flags.json ? jsonLines() : forPeople()
  const path = `/runs/${encodeURIComponent(run_id)}/stream`
  let last = from
  let failed: string | null = null
  for (let rejoins = 0; ; ) {
    const answer = await client.send('GET', path, { headers: { 'last-event-id': last } })
    if (!answer.ok) throw refusal(client.url, answer.status, await answer.text())
    const parser = createParser({
      onEvent(event) {
        rejoins = 0
        last = event.id ?? last
        if (event.event === 'error') failed = messageOf(event.data)
        printer.event(event)
      },
    })
    const decoder = new TextDecoder()
    try {
      for await (const part of answer.body!) parser.feed(decoder.decode(part, { stream: true }))
      break
    } catch (error) {
      if (++rejoins > REJOINS) throw new UserError(`the stream broke: ${(error as Error).message}`, 3)
    }
  }
  printer.end()
  if (failed !== null) throw new UserError(`the run failed: ${failed}`)
}

interface Printer {
  event(event: EventSourceMessage): void
  end(): void
}

const jsonLines = (): Printer => ({
  event({ id, event, data }) {
    process.stdout.write(`${JSON.stringify({ id: id ?? null, event: event ?? 'message', data: parsed(data) })}\n`)
  },
  end() {},
})

/** Tokens of a model as running text; every other event on a line, cut to the width of a terminal. */
function forPeople(): Printer {
  let inText = false
  const line = (text: string) => {
    if (inText) process.stdout.write('\n')
    inText = false
    process.stdout.write(`${text}\n`)
  }
  return {
    event({ event = 'message', data }) {
      const token = tokenOf(event, data)
      if (token !== null) {
        inText = true
        process.stdout.write(token)
        return
      }
      const width = process.stdout.isTTY ? Math.max(20, process.stdout.columns - event.length - 1) : data.length
      const shown = data.length > width ? `${data.slice(0, width - 1)}…` : data
      line(`${paint(event, event === 'error' ? 'red' : 'cyan')} ${shown}`)
    },
    end() {
      if (inText) process.stdout.write('\n')
    },
  }
}

/** The text of an event of the mode messages-tuple; null for other events and messages without text. */
function tokenOf(event: string, data: string): string | null {
  if (event !== 'messages' && !event.startsWith('messages|')) return null
  const value = parsed(data)
  const content = Array.isArray(value) ? (value[0] as { content?: unknown } | null)?.content : undefined
  return typeof content === 'string' && content !== '' ? content : null
}

function parsed(data: string): unknown {
  try {
    return JSON.parse(data)
  } catch {
    return data
  }
}

function messageOf(data: string): string {
  const value = parsed(data) as { message?: unknown } | null
  return typeof value === 'object' && typeof value?.message === 'string' ? value.message : data
}
