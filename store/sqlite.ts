/**
 * The store in one file of a folder: SQLite (libsql) with a writer thread and a reader thread. `apply` does all of its
 * steps or none, and has them on disk when it resolves; a read issued after that sees them.
 */
import { mkdirSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { StoreOutage } from '../schemas/errors.js'
import {
  ASSISTANT,
  ASSISTANT_VERSION,
  labelsOfPath,
  PAYLOAD,
  READY,
  RECORD,
  RUN,
  RUN_ENTRY,
  THREAD,
} from './columns.js'
import type { Store } from './port.js'
import type { AssistantRow, AssistantVersionRow } from './rows/assistants.js'
import type { Tuple } from './rows/checkpoints.js'
import type { RecordRow } from './rows/records.js'
import type { OccupiedSlots, ReadyRun, RunSummary, WebhookLog } from './rows/runs.js'
import type { StateRow, ThreadCursor, ThreadRow } from './rows/threads.js'
import { type RunEntry, runSearch } from './run-search.js'
import type { Param, Row } from './sqlite/database.js'
import type { ReaderData } from './sqlite/reader.js'
import { itemOf } from './sqlite/reads-items.js'
import type { ThreadRows } from './sqlite/reads-threads.js'
import { decode } from './sqlite/rows.js'
import { statements } from './sqlite/statements.js'
import { Thread } from './sqlite/thread.js'
import type { Sent, WriterData, WriterStarted } from './sqlite/writer.js'
import type { Step } from './steps.js'

interface SqliteOptions {
  /** The data folder; made when absent. Only one store at a time has it open. */
  folder: string
  log?: { info(data: object, message: string): void; warn(data: object, message: string): void }
}

/**
 * Opens the store. Rejects with one sentence when another process has the folder, when a newer Weft has written the
 * database, or when it is damaged.
 *
 * Calls of the store reject with `unavailable` when the database cannot be used now (lock, disk, closed, thread ended).
 * Rows and bytes given to `apply` must stay unchanged until it resolves.
 */
export async function openSqlite({ folder, log }: SqliteOptions): Promise<Store> {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const file = join(folder, 'weft.db')
  const files = [file, `${file}-wal`, `${file}-shm`]
  const data: WriterData = { folder, file }
  const { thread: writer, started } = await Thread.open<WriterStarted>(
    new URL('../programs/sqlite-writer.cjs', import.meta.url),
    data,
  )
  if (started.checked_ms !== null)
    log?.warn({ folder, ms: started.checked_ms }, 'the store was not closed last time; it was checked and is sound')
  const { thread: reader } = await openReader(file).catch(async error => {
    await writer.close()
    throw error
  })

  const numbers = new Map<string, number>()
  let closed: Promise<void> | null = null
  let scanner: Promise<Thread> | null = null
  /** Queries that take longer than a look-up run in a separate thread, started at first use. */
  async function scan<Answer>(...call: unknown[]): Promise<Answer> {
    if (closed) throw new StoreOutage('The store is closed')
    scanner ??= openReader(file).then(({ thread }) => thread)
    return (await scanner).call<Answer>(call)
  }

  const runSummary = async (ids: readonly string[]) => summaries(await reader.call(['runs.summary', ids]))

  return {
    async apply(steps) {
      if (closed) throw new StoreOutage('The store is closed')
      const transfer: ArrayBuffer[] = []
      const call = pack(steps, numbers, transfer)
      return writer.call<number>(call, transfer)
    },
    assistants: {
      get: async (...ids) => decode(ASSISTANT, await reader.call<Row>(['assistants.get', ...ids])),
      list: async query =>
        (await scan<Row[]>('assistants.list', query)).map(row => decode<AssistantRow>(ASSISTANT, row)!),
      count: query => scan<number>('assistants.count', query),
      versions: async (...query) =>
        (await reader.call<Row[]>(['assistants.versions', ...query])).map(
          row => decode<AssistantVersionRow>(ASSISTANT_VERSION, row)!,
        ),
      version: async (...id) => decode(ASSISTANT_VERSION, await reader.call<Row>(['assistants.version', ...id])),
    },
    threads: {
      get: async (...ids) => decode(THREAD, await reader.call<Row>(['threads.get', ...ids])),
      busy: async (before, limit, after) =>
        (await reader.call<Row[]>(['threads.busy', before, limit, after])).map(row => decode<ThreadRow>(THREAD, row)!),
      state: async id => decode<StateRow>(STATE, await reader.call<Row>(['threads.state', id])),
      async list(query) {
        const { rows, next } = await scan<ThreadRows>('threads.list', query)
        return { rows: rows.map(row => decode<ThreadRow>(THREAD, row)!), next: decode<ThreadCursor>(PLACE, next) }
      },
      count: (app, status) => scan('threads.count', app, status ?? null),
      states: async (ids, bytes) =>
        (await scan<Row[]>('threads.states', ids, bytes)).map(row => decode<StateRow>(STATE, row)),
      expired: async (now, limit) =>
        (await reader.call<Row[]>(['threads.expired', now, limit])).map(row => decode<ThreadRow>(THREAD, row)!),
    },
    runs: {
      get: async id => decode([...RUN, ...PAYLOAD], await reader.call<Row>(['runs.get', id])),
      summary: runSummary,
      webhookLog: async id =>
        decode<WebhookLog>(['webhook_due_at', 'webhook_log'], await reader.call<Row>(['runs.webhookLog', id])),
      unsettled: async (limit, after) => summaries(await reader.call(['runs.unsettled', limit, after])),
      counts: async () => {
        const [open, running] = await scan<[number, number]>('runs.counts')
        return { pending: open - running, running }
      },
      running: async (limit, after) => {
        const rows = await reader.call<[string, number, number][]>(['runs.running', limit, after])
        return rows.map(([run_id, attempt, heartbeats]) => ({ run_id, attempt, heartbeats }))
      },
      list: async query => summaries(await reader.call(['runs.list', query])),
      ...runSearch({
        slice: async (...wanted) =>
          (await scan<Row[]>('runs.slice', ...wanted)).map(row => decode<RunEntry>(RUN_ENTRY, row)!),
        count: (...wanted) => scan('runs.count', ...wanted),
        threadsWith: (...wanted) => scan('threads.with', ...wanted),
        haveKeys: (...wanted) => scan('threads.haveKeys', ...wanted),
        summary: runSummary,
      }),
      active: async (...query) => summaries(await reader.call(['runs.active', ...query])),
      countOpen: async (key_id, most) => (await reader.call<[number]>(['runs.countOpen', key_id, most]))[0],
      ready: async (...query) => (await scan<Row[]>('runs.ready', ...query)).map(row => decode<ReadyRun>(READY, row)!),
      occupied: async app =>
        (await reader.call<Row[]>(['runs.occupied', app])).map(row => decode<OccupiedSlots>(OCCUPIED, row)!),
      claimed: async (thread_id, from, limit) => summaries(await reader.call(['runs.claimed', thread_id, from, limit])),
      startsDue: async (until, limit) => summaries(await reader.call(['runs.startsDue', until, limit])),
      cancelsDue: async (until, limit) => summaries(await reader.call(['runs.cancelsDue', until, limit])),
      webhooksDue: async (until, limit) => summaries(await reader.call(['runs.webhooksDue', until, limit])),
      expired: async (before, resumable, limit) =>
        (await reader.call<[string][]>(['runs.expired', before, resumable, limit])).map(([thread_id]) => thread_id),
    },
    checkpoints: {
      get: query => reader.call<Tuple | null>(['checkpoints.get', query]),
      list: query => reader.call<Tuple[]>(['checkpoints.list', query]),
      rows: query => scan('checkpoints.rows', query),
      blobs: query => scan('checkpoints.blobs', query),
      writes: query => scan('checkpoints.writes', query),
      storage: thread_id => scan('checkpoints.storage', thread_id),
    },
    records: {
      get: async (kind, id) => decode(RECORD, await reader.call<Row>(['records.get', kind, id])),
      named: async (...name) => decode(RECORD, await reader.call<Row>(['records.named', ...name])),
      list: async query => records(await reader.call(['records.list', query])),
      due: async (kind, now, limit) => records(await reader.call(['records.due', kind, now, limit])),
    },
    items: {
      get: async (...item) => itemOf(await reader.call<Row>(['items.get', ...item])),
      many: async (...query) => (await reader.call<Row[]>(['items.many', ...query])).map(row => itemOf(row)!),
      indexed: async (...query) =>
        (await scan<[string, string, number][]>('items.indexed', ...query)).map(([path, key, updated_at]) => ({
          namespace: labelsOfPath(path),
          key,
          updated_at,
        })),
      vectors: async (...query) =>
        (await scan<[string, string, number, Uint8Array][]>('items.vectors', ...query)).map(
          ([path, key, updated_at, vectors]) => ({ namespace: labelsOfPath(path), key, updated_at, vectors }),
        ),
      list: async query => (await scan<Row[]>('items.list', query)).map(row => itemOf(row)!),
      namespaces: async query => (await scan<string[]>('items.namespaces', query)).map(labelsOfPath),
      expired: async (now, limit) =>
        (await reader.call<[string, string, string][]>(['items.expired', now, limit])).map(([app, path, key]) => ({
          app,
          namespace: labelsOfPath(path),
          key,
        })),
    },
    async ping() {
      const number = numbers.get(HEARTBEAT)
      if (number === undefined) numbers.set(HEARTBEAT, numbers.size)
      await Promise.all([writer.call([[number ?? HEARTBEAT, -1, [Date.now()]]]), reader.call(['ping'])])
    },
    async bytes() {
      const sizes = await Promise.all(files.map(path => stat(path).catch(() => ({ size: 0 }))))
      return sizes.reduce((sum, { size }) => sum + size, 0)
    },
    reusable: () => reader.call<number>(['reusable']),
    close() {
      // The writer last: only the last connection can fold the log into the file.
      closed ??= (async () => {
        await Promise.all([reader.close(), scanner?.then(thread => thread.close())])
        await writer.close()
      })()
      return closed
    },
  }
}

/** A write, because a database that is locked, or whose disk is full, can still be read. */
const HEARTBEAT = 'INSERT OR REPLACE INTO health (id, checked_at) VALUES (1, ?)'

const openReader = (file: string) =>
  Thread.open<null>(new URL('../programs/sqlite-reader.cjs', import.meta.url), { file } satisfies ReaderData)

const PLACE = ['value', 'thread_id'] as const
const OCCUPIED = ['tenant', 'graph_id', 'assistant_id', 'key_id', 'count'] as const
const STATE = ['latest_checkpoint_id', 'values', 'rest'] as const
const records = (rows: Row[]): RecordRow[] => rows.map(row => decode<RecordRow>(RECORD, row)!)
const summaries = (rows: Row[]): RunSummary[] => rows.map(row => decode<RunSummary>(RUN, row)!)

/** From this size on, a copy is given away rather than copied once more. */
const LARGE = 65_536

/** The steps as the writer wants them: each SQL text is sent once and has a number from then on. */
function pack(steps: readonly Step[], numbers: Map<string, number>, transfer: ArrayBuffer[]): Sent[] {
  const list = statements(steps)
  for (const [, , params] of list) for (let i = 0; i < params.length; i++) params[i] = own(params[i], transfer)
  return list.map(([sql, step, params]) => {
    const number = numbers.get(sql)
    if (number === undefined) numbers.set(sql, numbers.size)
    return [number ?? sql, step, params]
  })
}

/**
 * A parameter that can travel. A part of a larger buffer is cut out, else the whole buffer would be copied with it.
 * libsql ends the process on a boolean and refuses objects: nothing unknown passes here.
 */
function own(value: Param | undefined, transfer: ArrayBuffer[]): Param {
  if (value === null || value === undefined) return null
  if (typeof value === 'string' || typeof value === 'number') return value
  if (!(value instanceof Uint8Array)) throw new TypeError(`a ${typeof value} cannot be stored in a column`)
  if (value.length === value.buffer.byteLength) return value
  const copy = new Uint8Array(value)
  if (copy.length >= LARGE) transfer.push(copy.buffer)
  return copy
}
