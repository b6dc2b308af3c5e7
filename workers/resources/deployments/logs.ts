/**
 * Logs of revisions (docs/spec/control-plane.md#logs). Lines are stored in batches, one record each, numbered within
 * their stage. `created_at` is the time of a batch's last line and `updated_at` that of its first, so a read can
 * begin at any time. Within a stage the times of lines never decrease.
 */
import { hash } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import { type DeployLog, type LogLine, type LogStage, validateDeployLog } from '../../../schemas/deploy-calls.js'
import type { Redactor } from '../../../schemas/redact.js'
import type { Store } from '../../../store/port.js'
import type { RecordRow } from '../../../store/rows/records.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { newRecord } from '../rows/record.js'
import type { Redactors } from './redact.js'
import { deploymentOf, revisionOf } from './row.js'
import { forDeployers } from './tasks.js'
import { logParent } from './write.js'

const MAX_LINE = 16 * 1024
const MAX_STAGE = 50 * 1024 * 1024
const KEEP_MS = 14 * 24 * 3_600_000
/** Text of one record, in characters. */
const MAX_BATCH = 256 * 1024
/** Number of last batches that are searched for a repeated one. */
const LOOK_BACK = 8
const TRIES = 50
const SLICE_MS = 5

interface BatchBody {
  seq: number
  /** Bytes of the stage up to here. */
  bytes: number
  hash: string
  lines: LogLine[]
}

export const logWriter = (deps: Deps, redactors: Redactors) => ({
  log: forDeployers<DeployLog>(validateDeployLog, async ask => {
    const deployment = await deploymentOf(deps.store, ask.deployment_id)
    const revision = await revisionOf(deps.store, deployment, ask.revision_id)
    const redactor = await redactors.of(deployment.id, revision.body.secrets)
    const parent = logParent(revision.id, ask.stage)
    await deps.serialize(`log ${parent}`, async () => {
      for await (const lines of batches(ask.lines, redactor)) await append(deps.store, parent, lines)
    })
    return { body: '{}' }
  }),
})

/** The lines as they are stored, in parts that fit a record. Other requests run between two slices of the work. */
async function* batches(lines: readonly LogLine[], { redact }: Redactor): AsyncGenerator<LogLine[]> {
  let batch: LogLine[] = []
  let size = 0
  let since = performance.now()
  for (const line of lines) {
    if (performance.now() - since > SLICE_MS) {
      await turn()
      since = performance.now()
    }
    const text = cut(redact(line.text.replace(ANSI, '').replace(LINE_END, '')))
    if (size + text.length > MAX_BATCH && batch.length > 0) {
      yield batch
      batch = []
      size = 0
    }
    batch.push({ t: line.t, level: levelOf(line.level), text })
    size += text.length
  }
  if (batch.length > 0) yield batch
}

/** Both patterns read each character a bounded number of times: applications choose the text. */
const LINE_END = /(?<![\r\n])[\r\n]+$/
const ANSI = /[\u001b\u009b](?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b\u009b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g

export const LEVELS = ['DEBUG', 'INFO', 'WARNING', 'ERROR', 'CRITICAL'] as const
const OTHER_NAMES: { [name: string]: string } = { TRACE: 'DEBUG', WARN: 'WARNING', FATAL: 'CRITICAL' }

function levelOf(text: string): string {
  const level = text.toUpperCase()
  const known = Object.hasOwn(OTHER_NAMES, level) ? OTHER_NAMES[level]! : level
  return (LEVELS as readonly string[]).includes(known) ? known : 'INFO'
}

/** At most 16 KiB of UTF-8, with a mark where the line was cut. */
function cut(text: string): string {
  if (text.length * 3 <= MAX_LINE || Buffer.byteLength(text) <= MAX_LINE) return text
  const mark = '… [cut]'
  const bytes = Buffer.from(text).subarray(0, MAX_LINE - Buffer.byteLength(mark))
  return `${bytes.toString().replace(/\uFFFD+$/, '')}${mark}`
}

/** Appends the batch under the next number. Drops a repeated batch, and any batch after the end of the stage. */
async function append(store: Store, parent: string, lines: LogLine[]): Promise<void> {
  const digest = hash('sha256', JSON.stringify(lines), 'base64url')
  for (let i = 0; i < TRIES; i++) {
    const rows = await store.records.list({ kind: 'log', parent, sort: 'id', order: 'desc', limit: LOOK_BACK })
    const before = rows.map(({ body }) => JSON.parse(body) as BatchBody)
    const [last] = before
    if (before.some(one => one.hash === digest) || (last !== undefined && last.bytes >= MAX_STAGE)) return
    const row = batchRow(parent, lines, digest, last, rows[0]?.created_at ?? 0)
    if ((await store.apply([{ step: 'records.insert', row }])) === -1) return
  }
  throw new Error(`the log ${parent} has too many concurrent writers`)
}

function batchRow(
  parent: string,
  lines: LogLine[],
  hash: string,
  last: BatchBody | undefined,
  from: number,
): RecordRow {
  const now = clock.now()
  let t = from
  const later = (at: number) => (t = Math.max(t, Math.min(Math.round(at) || 0, now)))
  const seq = (last?.seq ?? 0) + 1
  let bytes = last?.bytes ?? 0
  const fitting: LogLine[] = []
  for (const line of lines) {
    const size = Buffer.byteLength(line.text)
    if (bytes + size > MAX_STAGE) {
      fitting.push({ t: later(line.t), level: 'WARNING', text: 'The log ends here: it has reached 50 MiB.' })
      bytes = MAX_STAGE
      break
    }
    bytes += size
    fitting.push({ ...line, t: later(line.t) })
  }
  const body: BatchBody = { seq, bytes, hash, lines: fitting }
  return {
    ...newRecord('log', `${parent}.${number(seq, 8)}`, { parent, body: JSON.stringify(body), due_at: now + KEEP_MS }),
    updated_at: fitting[0]!.t,
    created_at: fitting.at(-1)!.t,
  }
}

const number = (n: number, digits: number): string => `${n}`.padStart(digits, '0')

export interface LogFilter {
  order: 'asc' | 'desc'
  limit: number
  /** End of the previous page; null for the first page. */
  after: { t: number; id: string } | null
  level: string | null
  query: string | null
  start: number | null
  end: number | null
}

export interface FoundLine {
  id: string
  t: number
  level: string
  text: string
}

/** Lines of all the stages, ordered by time: up to `limit` + 1, so that the caller sees whether more follow. */
export async function readLines(
  store: Store,
  stages: readonly { revision_id: string; stage: LogStage }[],
  filter: LogFilter,
): Promise<FoundLine[]> {
  const { order, limit, level } = filter
  const query = filter.query?.toLowerCase() ?? null
  const found: FoundLine[] = []
  const streams = stages.map(({ revision_id, stage }) => linesOf(store, logParent(revision_id, stage), filter))
  for await (const line of mergeStreams(streams, order)) {
    if (level !== null && line.level !== level) continue
    if (query !== null && !line.text.toLowerCase().includes(query)) continue
    if (found.push(line) > limit) break
  }
  return found
}

/** The lines of one stage in order, after `after` and within the times. */
async function* linesOf(
  store: Store,
  parent: string,
  { order, after, start, end }: LogFilter,
): AsyncGenerator<FoundLine> {
  const up = order === 'asc'
  const from = up ? Math.max(start ?? 0, after?.t ?? 0) : Math.min(end ?? Infinity, after?.t ?? Infinity)
  let at = up ? { id: '~', created_at: from - 1, updated_at: 0 } : { id: '', created_at: 0, updated_at: from + 1 }
  const sort = up ? 'created_at' : 'updated_at'
  for (;;) {
    const begin = Number.isFinite(from) ? { after: at } : {}
    const rows = await store.records.list({ kind: 'log', parent, sort, order, ...begin, limit: 4 })
    for (const row of rows) {
      const { lines } = JSON.parse(row.body) as BatchBody
      const own = lines.map(({ t, level, text }, i) => ({ id: `${row.id}.${number(i, 5)}`, t, level, text }))
      for (const line of up ? own : own.reverse()) {
        if (after !== null && (up ? compare(line, after) <= 0 : compare(line, after) >= 0)) continue
        if ((start !== null && line.t < start) || (end !== null && line.t > end)) continue
        yield line
      }
    }
    const last = rows.at(-1)
    if (last === undefined || rows.length < 4) return
    if (up ? end !== null && last.updated_at > end : start !== null && last.created_at < start) return
    at = last
  }
}

const compare = (a: { t: number; id: string }, b: { t: number; id: string }): number =>
  a.t - b.t || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0)

/** Merges ordered streams into one. */
async function* mergeStreams(
  streams: readonly AsyncGenerator<FoundLine>[],
  order: 'asc' | 'desc',
): AsyncGenerator<FoundLine> {
  const sign = order === 'asc' ? 1 : -1
  const heads = (await Promise.all(streams.map(async stream => ({ stream, next: await stream.next() })))).filter(
    ({ next }) => !next.done,
  )
  while (heads.length > 0) {
    let best = heads[0]!
    for (const head of heads) if (sign * compare(head.next.value!, best.next.value!) < 0) best = head
    yield best.next.value!
    best.next = await best.stream.next()
    if (best.next.done) heads.splice(heads.indexOf(best), 1)
  }
}

const BATCH = 500

/** Lines are kept for 14 days. */
export async function sweepLogs({ store }: Deps): Promise<void> {
  const rows = await store.records.due('log', clock.now(), BATCH)
  if (rows.length > 0)
    await store.apply(rows.map(({ id }) => ({ step: 'records.remove' as const, kind: 'log', id, where: {} })))
}
