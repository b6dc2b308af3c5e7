/** The port's reads as statements. Runs in the reader thread. */
import type { CheckpointQuery } from '../schemas/checkpoints.js'
import type { AssistantRow, RunRow, RunSummary, StateRow, ThreadRow, Tuple } from './port.js'
import type { Database } from './sqlite-open.js'
import { ASSISTANT_COLUMNS, RUN_COLUMNS, THREAD_COLUMNS } from './sqlite-schema.js'

type Row = { [name: string]: unknown }

const asThread = (row: Row): ThreadRow =>
  ({
    ...row,
    temporary: row.temporary === 1,
    active: row.active === null ? null : JSON.parse(row.active as string),
    queue: JSON.parse(row.queue as string),
  }) as unknown as ThreadRow
const asRun = (row: Row): RunSummary =>
  ({ ...row, temporary: row.temporary === 1, resumable: row.resumable === 1 }) as unknown as RunSummary

/** libsql gives a Buffer from `get` and an ArrayBuffer from `all`. */
const bytes = (value: unknown): Uint8Array => (value instanceof Uint8Array ? value : new Uint8Array(value as ArrayBuffer))

export type Reads = ReturnType<typeof reads>

export function reads(db: Database) {
  const one = (sql: string) => db.prepare(sql)
  const runColumns = RUN_COLUMNS.join(', ')
  const assistant = one(`select ${ASSISTANT_COLUMNS.join(', ')} from assistants where app = ? and assistant_id = ?`)
  const thread = one(`select ${THREAD_COLUMNS.join(', ')} from threads where thread_id = ?`)
  const state = one('select head, vals as "values", rest from thread_states where thread_id = ?')
  const summary = one(`select ${runColumns} from runs where run_id = ?`)
  const body = one('select kwargs, result from run_bodies where run_id = ?')
  const unsettled = one(
    `select ${runColumns} from runs where status in ('pending', 'running') order by created_at limit ?`,
  )
  const cancelDue = one(`select ${runColumns} from runs where cancel_due_at is not null and cancel_due_at <= ?`)
  const expired = one(
    'select distinct thread_id from runs where temporary = 1 and ended_at is not null and ended_at < ? limit ?',
  )
  const head = one('select head from threads where thread_id = ?')
  const columns = 'thread_id, ns, id, parent, type, value, meta_type, metadata, refs'
  const byId = one(`select ${columns} from checkpoints where thread_id = ? and ns = ? and id = ?`)
  const newest = one(`select ${columns} from checkpoints where thread_id = ? and ns = ? order by seq desc limit 1`)
  const page = one(
    `select ${columns} from checkpoints where thread_id = ?1 and (?2 is null or ns = ?2) and (?3 is null or id = ?3)
     and (?4 is null or seq < (select max(seq) from checkpoints where thread_id = ?1 and id = ?4 and (?2 is null or ns = ?2)))
     order by seq desc limit ?5`,
  )
  const blob = one('select type, value from blobs where thread_id = ? and ns = ? and channel = ? and version = ?')
  const writes = one(
    'select task_id, idx, channel, type, value from writes where thread_id = ? and ns = ? and checkpoint_id = ? order by task_id, idx',
  )

  function asTuple({ thread_id, ns, id, parent, type, value, meta_type, metadata, refs }: Row): Tuple {
    const blobs: Tuple['blobs'] = []
    for (const [channel, version] of Object.entries(JSON.parse(refs as string) as { [channel: string]: string })) {
      const found = blob.get(thread_id as string, ns as string, channel, version) as
        | { type: string; value: Buffer }
        | undefined
      if (found !== undefined) blobs.push({ channel, type: found.type, value: found.value })
    }
    const raised = (writes.all(thread_id as string, ns as string, id as string) as Tuple['writes']).map(row => ({ ...row, value: bytes(row.value) }))
    return { ns, id, parent, type, value: bytes(value), meta_type, metadata: bytes(metadata), blobs, writes: raised } as Tuple
  }

  return {
    assistant: (app: string, id: string) => (assistant.get(app, id) as AssistantRow | undefined) ?? null,
    thread(app: string, id: string) {
      const row = thread.get(id) as Row | undefined
      return row === undefined || row.app !== app ? null : asThread(row)
    },
    state: (id: string) => (state.get(id) as StateRow | undefined) ?? null,
    run(id: string) {
      const row = summary.get(id) as Row | undefined
      return row === undefined ? null : ({ ...asRun(row), ...(body.get(id) as object) } as RunRow)
    },
    summary: (ids: readonly string[]) =>
      ids
        .map(id => summary.get(id) as Row | undefined)
        .filter(row => row !== undefined)
        .map(asRun),
    unsettled: (limit: number) => (unsettled.all(limit) as Row[]).map(asRun),
    cancelDue: (now: number) => (cancelDue.all(now) as Row[]).map(asRun),
    expired: (before: number, limit: number) =>
      (expired.all(before, limit) as { thread_id: string }[]).map(row => row.thread_id),
    checkpoint({ thread_id, ns = '', checkpoint_id }: CheckpointQuery) {
      let id = checkpoint_id
      if (id === undefined && ns === '') {
        const follows = (head.get(thread_id) as { head: string | null } | undefined)?.head ?? null
        if (follows === null) return null
        id = follows
      }
      const row = (id === undefined ? newest.get(thread_id, ns) : byId.get(thread_id, ns, id)) as Row | undefined
      return row === undefined ? null : asTuple(row)
    },
    checkpoints: ({ thread_id, ns, checkpoint_id, before, limit }: CheckpointQuery) =>
      (page.all(thread_id, ns ?? null, checkpoint_id ?? null, before ?? null, limit ?? -1) as Row[]).map(asTuple),
    ping: () => null,
  }
}
