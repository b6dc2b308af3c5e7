/**
 * `weft import`: brings assistants, threads, items and crons of another server of the same API: the development servers
 * of LangGraph, LangGraph Platform, aegra. Ids are kept, except those of crons. Runs, times of creation and states of
 * subgraphs are in no call that creates something, so that they stay behind.
 */
import type { Assistant } from '../../../schemas/assistants.js'
import type { Cron } from '../../../schemas/crons.js'
import { openProgress } from '../../terminal/progress.js'
import { paint, printJson } from '../../terminal/text.js'
import { UserError } from '../../user-error.js'
import { type Client, type ClientFlags, openClient, pages, Refused } from '../client.js'
import { bringAssistant } from './assistants.js'
import { bringCron } from './crons.js'
import { type Journal, type Kind, openJournal } from './journal.js'
import { bringThread, type SourceThread } from './threads.js'

interface ImportFlags extends ClientFlags {
  sourceKey?: string
  sourceHeader: string[]
  state: string
  only: string[]
  /** False: the newest state alone. */
  history: boolean
}

/** Assistants first: threads and crons name them. */
const KINDS: readonly Kind[] = ['assistants', 'threads', 'items', 'crons']
const PAGE = 100
const AT_ONCE = 4

interface Import {
  from: Client
  to: Client
  journal: Journal
  withHistory: boolean
}

export async function importFrom(source: string, flags: ImportFlags): Promise<void> {
  const unknown = flags.only.find(kind => !KINDS.includes(kind as Kind))
  if (unknown !== undefined) throw new UserError(`--only must be some of ${KINDS.join(', ')}, not "${unknown}"`, 2)
  const headers = Object.fromEntries(flags.sourceHeader.map(headerOf))
  const source_key = flags.sourceKey ? { key: flags.sourceKey } : {}
  const from = openClient({ url: source, ...source_key }, { headers, isSource: true })
  const to = openClient(flags)
  if (from.url === to.url) throw new UserError(`${from.url} is the source and the target: name another --url`, 2)
  // Both answer, before a journal is made.
  await from.ask('POST', '/assistants/search', { body: { limit: 1 } })
  await to.ask('POST', '/assistants/search', { body: { limit: 1 } })
  const job: Import = { from, to, journal: openJournal(flags.state, from.url, to.url), withHistory: flags.history }
  const kinds = KINDS.filter(kind => flags.only.length === 0 || flags.only.includes(kind))
  for (const kind of kinds) await bringAll(job, kind)
  const counts = job.journal.counts(kinds)
  if (flags.json) printJson({ source: from.url, target: to.url, state: flags.state, ...counts })
  else report(counts, flags.state)
  if (Object.values(counts).some(({ failed }) => failed > 0))
    throw new UserError(`some rows were refused; ${flags.state} says why, and the same command tries them again`)
}

function headerOf(text: string): [string, string] {
  const [, name, value] = /^([\w-]+):\s*(.+)$/.exec(text) ?? []
  if (name === undefined || value === undefined)
    throw new UserError(`--source-header must be as "Authorization: Bearer …", not "${text}"`, 2)
  return [name, value]
}

interface Row {
  id: string
  bring(): Promise<{ made?: string; note?: string }>
}

async function bringAll(job: Import, kind: Kind): Promise<void> {
  const progress = openProgress(kind)
  try {
    const total = await countOf(job, kind)
    let seen = 0
    for await (const rows of ROWS[kind](job)) {
      await inParallel(rows, row => bringOne(job, kind, row))
      seen += rows.length
      progress.update(seen, Math.max(total, seen), `${seen}`)
    }
  } finally {
    progress.stop()
  }
}

async function bringOne({ journal }: Import, kind: Kind, { id, bring }: Row): Promise<void> {
  if (journal.has(kind, id)) return
  try {
    journal.done(kind, id, await bring())
  } catch (error) {
    if (!(error instanceof Refused) || error.status === 401 || error.status === 403) throw error
    journal.failed(kind, id, error.message)
  }
}

/** Zero where the server does not count: the bar then shows what was seen. */
async function countOf({ from }: Import, kind: Kind): Promise<number> {
  const path = { assistants: '/assistants/count', threads: '/threads/count', crons: '/runs/crons/count', items: null }[
    kind
  ]
  if (path === null) return 0
  return from.ask<number>('POST', path, { body: {} }).catch(() => 0)
}

async function inParallel<T>(rows: readonly T[], work: (row: T) => Promise<void>): Promise<void> {
  const waiting = [...rows]
  const worker = async () => {
    for (let row = waiting.shift(); row !== undefined; row = waiting.shift()) await work(row)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
}

/** In the order of creation, so that rows that are made meanwhile come last. */
const search = <T>(from: Client, path: string): AsyncGenerator<T[]> =>
  pages<T>(PAGE, offset => {
    const body = { limit: PAGE, offset, sort_by: 'created_at', sort_order: 'asc' }
    return from.ask<T[]>('POST', path, { body, patient: true })
  })

const ROWS: { readonly [kind in Kind]: (job: Import) => AsyncGenerator<Row[]> } = {
  async *assistants({ from, to }) {
    for await (const rows of search<Assistant>(from, '/assistants/search'))
      yield rows.map(row => ({ id: row.assistant_id, bring: () => bringAssistant(from, to, row) }))
  },
  async *threads(job) {
    for await (const rows of search<SourceThread>(job.from, '/threads/search'))
      yield rows.map(row => ({
        id: row.thread_id,
        bring: async () => ({ note: await bringThread(job.from, job.to, row, job) }),
      }))
  },
  async *items({ from, to }) {
    // Searches under a prefix find everything below it, so the top labels are enough.
    const { namespaces } = await from.ask<{ namespaces: string[][] }>('POST', '/store/namespaces', {
      body: { max_depth: 1, limit: 1_000 },
    })
    for (const namespace_prefix of namespaces) {
      const found = pages(PAGE, async offset => {
        const body = { namespace_prefix, limit: PAGE, offset }
        const { items } = await from.ask<{ items: Item[] }>('POST', '/store/items/search', { body, patient: true })
        return items
      })
      for await (const items of found)
        yield items.map(({ namespace, key, value }) => ({
          id: JSON.stringify([namespace, key]),
          bring: async () => {
            await to.ask('PUT', '/store/items', { body: { namespace, key, value }, patient: true })
            return {}
          },
        }))
    }
  },
  async *crons({ from, to }) {
    for await (const rows of search<Cron>(from, '/runs/crons/search'))
      yield rows.map(row => ({ id: row.cron_id, bring: () => bringCron(to, row) }))
  },
}

interface Item {
  namespace: string[]
  key: string
  value: object
}

function report(counts: ReturnType<Journal['counts']>, state: string): void {
  for (const kind of KINDS) {
    const count = counts[kind]
    if (count === undefined) continue
    const failed = count.failed > 0 ? paint(`, ${count.failed} refused`, 'red') : ''
    process.stdout.write(`${kind.padEnd(10)} ${count.done}${failed}\n`)
    for (const [note, n] of Object.entries(count.notes)) process.stdout.write(`${' '.repeat(11)}${n}: ${note}\n`)
  }
  process.stdout.write(`what was brought is in ${state}\n`)
}
