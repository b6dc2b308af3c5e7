/** `weft runs`: lists runs, follows one, cancels some. */
import { createParser, type EventSourceMessage } from 'eventsource-parser'
import { paint, printJson, printTable } from '../terminal/text.js'
import { UserError } from '../user-error.js'
import { type Client, type ClientFlags, openClient, refusal } from './client.js'

interface Run {
  run_id: string
  thread_id: string
  status: string
  created_at: string
  updated_at: string
  metadata: { graph_id?: string }
}

interface ListFlags extends ClientFlags {
  thread?: string
  status?: string
  limit: number
}

const AT_ONCE = 8
const ACTIVE = ['pending', 'running']

/** The newest runs of a thread, or of the threads that changed last. Runs without a thread are in no list of the API. */
export async function listRuns(flags: ListFlags): Promise<void> {
  const client = openClient(flags)
  const threads = flags.thread === undefined ? await latestThreads(client, flags) : [flags.thread]
  const query = `limit=${flags.limit}${flags.status === undefined ? '' : `&status=${flags.status}`}`
  const runs: Run[] = []
  for (let at = 0; at < threads.length; at += AT_ONCE) {
    const some = threads.slice(at, at + AT_ONCE)
    const lists = await Promise.all(
      some.map(thread => client.ask<Run[]>('GET', `/threads/${encodeURIComponent(thread)}/runs?${query}`)),
    )
    runs.push(...lists.flat())
  }
  const newest = runs.sort((a, b) => (a.created_at < b.created_at ? 1 : -1)).slice(0, flags.limit)
  if (flags.json) return printJson(newest)
  printTable(
    ['run', 'thread', 'status', 'created'],
    newest.map(run => [run.run_id, run.thread_id, run.status, timeText(run.created_at)]),
  )
}

async function latestThreads(client: Client, { status, limit }: ListFlags): Promise<string[]> {
  const busy = status !== undefined && ACTIVE.includes(status) ? { status: 'busy' } : {}
  const body = { ...busy, limit, sort_by: 'updated_at', sort_order: 'desc', select: ['thread_id'] }
  const found = await client.ask<{ thread_id: string }[]>('POST', '/threads/search', { body })
  return found.map(({ thread_id }) => thread_id)
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
