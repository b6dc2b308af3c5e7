/**
 * `weft import`: brings assistants, threads, items and crons of another server of the same API (the development servers
 * of LangGraph, LangGraph Platform, aegra), or threads and items of the database of a checkpointer. Ids are kept, except those of crons. Runs, times of creation and states of
 * subgraphs are in no call that creates something, so that they stay behind.
 */
import { openProgress } from '../../terminal/progress.js'
import { paint, printJson } from '../../terminal/text.js'
import { UserError } from '../../user-error.js'
import { type Client, type ClientFlags, openClient, Refused } from '../client.js'
import { bringAssistant } from './assistants.js'
import { bringCron } from './crons.js'
import { ALL, type Journal, type Kind, type NotBrought, openJournal } from './journal.js'
import { openSource, type SourceFlags } from './sources/open.js'
import type { Source } from './sources/source.js'
import { bringThread } from './threads.js'

interface ImportFlags extends ClientFlags, SourceFlags {
  state: string
  only: string[]
  /** False: the newest state alone. */
  history: boolean
}

/** Assistants first: threads and crons name them. */
const KINDS: readonly Kind[] = ['assistants', 'threads', 'items', 'crons']
const AT_ONCE = 4
/** Rows whose loss is printed; the others are in the file. */
const SHOWN = 50

interface Import {
  from: Source
  to: Client
  journal: Journal
  withHistory: boolean
}

export async function importFrom(given: string, flags: ImportFlags): Promise<void> {
  const unknown = flags.only.find(kind => !KINDS.includes(kind as Kind))
  if (unknown !== undefined) throw new UserError(`--only must be some of ${KINDS.join(', ')}, not "${unknown}"`, 2)
  const to = openClient(flags, { exact: true })
  // Both answer, before a journal is made.
  const from = await openSource(given, flags, to.url)
  try {
    await to.ask('POST', '/assistants/search', { body: { limit: 1 } })
    const job: Import = { from, to, journal: openJournal(flags.state, from.name, to.url), withHistory: flags.history }
    const kinds = KINDS.filter(kind => flags.only.length === 0 || flags.only.includes(kind))
    for (const kind of kinds) await bringAll(job, kind)
    const counts = job.journal.counts(kinds)
    const not_brought = job.journal.notBrought(kinds)
    if (flags.json) printJson({ source: from.name, target: to.url, state: flags.state, ...counts, not_brought })
    else report(counts, not_brought, flags.state)
    if (not_brought.some(({ refused }) => refused))
      throw new UserError(`some rows were refused; ${flags.state} says why, and the same command tries them again`)
  } finally {
    await from.close()
  }
}

interface Row {
  id: string
  bring(): Promise<{ made?: string; note?: string }>
}

async function bringAll(job: Import, kind: Kind): Promise<void> {
  const progress = openProgress(kind)
  try {
    const total = await job.from.count(kind)
    let seen = 0
    for await (const rows of ROWS[kind](job)) {
      await inParallel(rows, row => bringOne(job, kind, row))
      seen += rows.length
      progress.update(seen, Math.max(total, seen), `${seen}`)
    }
    job.journal.listed(kind)
  } catch (error) {
    // A source that cannot list one kind has others.
    if (!isAboutRow(error)) throw error
    job.journal.failed(kind, ALL, error.message)
  } finally {
    progress.stop()
  }
}

/** The server refuses this, and not the one who asks. */
const isAboutRow = (error: unknown): error is Refused =>
  error instanceof Refused && error.status !== 401 && error.status !== 403

async function bringOne({ journal }: Import, kind: Kind, { id, bring }: Row): Promise<void> {
  if (journal.has(kind, id)) return
  try {
    journal.done(kind, id, await bring())
  } catch (error) {
    if (!isAboutRow(error)) throw error
    journal.failed(kind, id, error.message)
  }
}

async function inParallel<T>(rows: readonly T[], work: (row: T) => Promise<void>): Promise<void> {
  const waiting = [...rows]
  const worker = async () => {
    for (let row = waiting.shift(); row !== undefined; row = waiting.shift()) await work(row)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
}

const ROWS: { readonly [kind in Kind]: (job: Import) => AsyncGenerator<Row[]> } = {
  async *assistants({ from, to }) {
    for await (const rows of from.assistants())
      yield rows.map(row => ({ id: row.assistant_id, bring: () => bringAssistant(from, to, row) }))
  },
  async *threads(job) {
    for await (const rows of job.from.threads())
      yield rows.map(row => ({
        id: row.thread_id,
        bring: async () => ({ note: await bringThread(job.from, job.to, row, job) }),
      }))
  },
  async *items({ from, to }) {
    for await (const items of from.items())
      yield items.map(({ namespace, key, value }) => ({
        id: JSON.stringify([namespace, key]),
        bring: async () => {
          await to.ask('PUT', '/store/items', { body: { namespace, key, value }, patient: true })
          return {}
        },
      }))
  },
  async *crons({ from, to }) {
    for await (const rows of from.crons()) yield rows.map(row => ({ id: row.cron_id, bring: () => bringCron(to, row) }))
  },
}

function report(counts: ReturnType<Journal['counts']>, lost: readonly NotBrought[], state: string): void {
  const say = (line: string) => process.stdout.write(`${line}\n`)
  for (const kind of KINDS) {
    const count = counts[kind]
    if (count === undefined) continue
    const failed = count.failed > 0 ? paint(`, ${count.failed} refused`, 'red') : ''
    say(`${kind.padEnd(10)} ${count.done}${failed}`)
    for (const [note, n] of Object.entries(count.notes)) say(`${' '.repeat(11)}${n}: ${note}`)
  }
  if (lost.length > 0) say('not brought completely:')
  for (const { kind, id, reason } of lost.slice(0, SHOWN)) say(`  ${kind} ${id}: ${reason}`)
  if (lost.length > SHOWN) say(`  and ${lost.length - SHOWN} more`)
  say(`what was brought is in ${state}`)
}
