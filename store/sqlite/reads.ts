/** The queries. Each answers raw rows where the caller can name the columns; all of them go through an index. */
import type { Database, Statement } from 'libsql'
import type { CheckpointQuery } from '../../schemas/checkpoints.js'
import { ASSISTANT, ASSISTANT_VERSION, exact, PAYLOAD, plain, READY, RECORD, RUN, THREAD } from '../columns.js'
import type { AssistantQuery } from '../rows/assistants.js'
import type { Tuple } from '../rows/checkpoints.js'
import type { RecordQuery } from '../rows/records.js'
import type { RunCursor, RunQuery } from '../rows/runs.js'
import type { Param, Row } from './database.js'
import { type Ask, columnName, fewest, give, type Read } from './query.js'
import { checkpointReads } from './reads-checkpoints.js'
import { itemReads } from './reads-items.js'
import { runSearchReads } from './reads-run-search.js'
import { threadReads } from './reads-threads.js'
import { encode } from './rows.js'

const READY_NOW = "status = 'pending' AND ready_at IS NOT NULL"

export function reads(db: Database) {
  const prepared = new Map<string, Statement<unknown[]>>()
  const sql = (text: string): Statement<unknown[]> => {
    let statement = prepared.get(text)
    if (!statement) prepared.set(text, (statement = db.prepare(text).raw()))
    return statement
  }
  const get = (text: string, params: Param[]) => sql(text).get(params) as Row | undefined
  const all = (text: string, params: Param[]) => sql(text).all(params) as Row[]
  const ask: Ask = { get, all }

  return {
    ...threadReads(ask),
    ...runSearchReads(ask),
    ...checkpointReads(ask),
    ...itemReads(ask),
    ping: () => get('SELECT 1', []) !== undefined,
    reusable: () =>
      (get('SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size', []) as [number])[0],

    'assistants.get': (_, app: string, id: string) =>
      get(`SELECT ${ASSISTANT} FROM assistants WHERE app = ? AND assistant_id = ?`, [app, id]),

    'assistants.list': (_, { app, graph_id, keys = [], sort, order, after, limit }: AssistantQuery) => {
      const [way, beyond] = order === 'asc' ? ['ASC', '>'] : ['DESC', '<']
      const by = sort === 'assistant_id' ? [sort] : [columnName(sort), 'assistant_id']
      const wheres = ['assistants.app = ?']
      const params: Param[] = [app]
      const ofKeys = keys.map(key => ({
        sql: "SELECT DISTINCT assistant_id FROM assistant_keys WHERE app = ? AND key IN (?, '*')",
        params: [app, key],
      }))
      const few = fewest(ask, ofKeys)
      for (const key of keys) {
        wheres.push(OF_KEY)
        params.push(key)
      }
      if (graph_id !== undefined) {
        wheres.push('graph_id = ?')
        params.push(plain(graph_id))
      }
      if (after !== undefined) {
        const columns = by.map(column => `assistants.${column}`)
        wheres.push(`(${columns}) ${beyond} (${by.map(() => '?')})`)
        params.push(...by.map(column => encode(column, after[column as typeof sort])))
      }
      const from = few === null ? 'assistants' : `(${few.sql}) AS few CROSS JOIN assistants`
      if (few !== null) wheres.push('assistants.assistant_id = few.assistant_id')
      return all(
        `SELECT ${ASSISTANT.map(column => `assistants.${column}`)} FROM ${from} WHERE ${wheres.join(' AND ')}
          ORDER BY ${by.map(column => `assistants.${column} ${way}`)} LIMIT ?`,
        [...(few?.params ?? []), ...params, limit],
      )
    },

    /** Reads an index alone. */
    'assistants.count': (_, { app, graph_id }: Pick<AssistantQuery, 'app' | 'graph_id'>) => {
      const [count] =
        graph_id === undefined
          ? get('SELECT count(*) FROM assistants INDEXED BY assistants_by_graph WHERE app = ?', [app])!
          : get('SELECT count(*) FROM assistants INDEXED BY assistants_by_graph WHERE app = ? AND graph_id = ?', [
              app,
              plain(graph_id),
            ])!
      return count
    },

    'assistants.versions': (_, app: string, id: string, limit: number, before?: number) =>
      all(
        `SELECT ${ASSISTANT_VERSION} FROM assistant_versions WHERE app = ? AND assistant_id = ? AND version < ? ORDER BY version DESC LIMIT ?`,
        [app, id, before ?? Number.MAX_SAFE_INTEGER, limit],
      ),

    'assistants.version': (_, app: string, id: string, version: number) =>
      get(`SELECT ${ASSISTANT_VERSION} FROM assistant_versions WHERE app = ? AND assistant_id = ? AND version = ?`, [
        app,
        id,
        version,
      ]),

    'threads.get': (_, app: string | null, id: string) =>
      get(`SELECT ${THREAD} FROM threads WHERE thread_id = ? AND app = coalesce(?, app)`, [id, app]),

    'threads.state': (transfer, id: string) =>
      give(transfer, get('SELECT latest_checkpoint_id, "values", rest FROM states WHERE thread_id = ?', [id])),

    'runs.get': (transfer, id: string) =>
      give(
        transfer,
        get(
          `SELECT ${RUN.map(name => `runs.${name}`)}, ${PAYLOAD} FROM runs JOIN payloads USING (run_id) WHERE run_id = ?`,
          [id],
        ),
      ),

    'runs.summary': (_, ids: readonly string[]) =>
      ids.map(id => get(`SELECT ${RUN} FROM runs WHERE run_id = ?`, [id])).filter(row => row !== undefined),

    'runs.webhookLog': (_, id: string) => get('SELECT webhook_due_at, webhook_log FROM runs WHERE run_id = ?', [id]),

    'runs.unsettled': (_, limit: number, after?: RunCursor) =>
      all(
        `SELECT ${RUN} FROM runs WHERE ${DUE_NOW} AND (created_at, run_id) > (?, ?) ORDER BY created_at, run_id LIMIT ?`,
        [after?.created_at ?? -1, after?.run_id ?? '', limit],
      ),

    'runs.counts': () =>
      get(
        `SELECT (SELECT COUNT(*) FROM runs WHERE ${DUE_NOW})
            + (SELECT COUNT(*) FROM runs WHERE status = 'pending' AND due_at > 0),
          (SELECT COUNT(*) FROM runs WHERE status = 'running')`,
        [],
      ),

    'runs.running': (_, limit: number, after = '') =>
      all(
        "SELECT run_id, attempt, heartbeats FROM runs WHERE status = 'running' AND run_id > ? ORDER BY run_id LIMIT ?",
        [after, limit],
      ),

    'runs.list': (_, { thread_id, status, after, skip = 0, limit }: RunQuery) => {
      const wheres = ['thread_id = ?', "status <> 'accepting'"]
      const params: Param[] = [thread_id]
      if (status !== undefined) {
        wheres.push(`status IN (${status.map(() => '?')})`)
        params.push(...status)
      }
      if (after !== undefined) {
        wheres.push('(created_at, run_id) < (?, ?)')
        params.push(after.created_at, after.run_id)
      }
      return all(
        `SELECT ${RUN} FROM runs WHERE ${wheres.join(' AND ')} ORDER BY created_at DESC, run_id DESC LIMIT ? OFFSET ?`,
        [...params, limit, skip],
      )
    },

    // The next of each status, by its index, in their common order.
    'runs.active': (_, app: string, status: readonly string[], limit: number, after?: RunCursor) =>
      status
        .flatMap(one =>
          all(
            `SELECT ${RUN} FROM runs WHERE app = ? AND status = ? AND (created_at, run_id) > (?, ?)
              ORDER BY created_at, run_id LIMIT ?`,
            [app, one, after?.created_at ?? 0, after?.run_id ?? '', limit],
          ),
        )
        .sort((a, b) => (a[CREATED_AT] as number) - (b[CREATED_AT] as number) || (a[RUN_ID]! < b[RUN_ID]! ? -1 : 1))
        .slice(0, limit),

    'runs.countOpen': (_, key_id: string, most: number) =>
      get(
        `SELECT count(*) FROM (SELECT 1 FROM runs WHERE key_id = ? AND key_id IS NOT NULL
          AND status IN ('accepting', 'pending', 'running') LIMIT ?)`,
        [key_id, most],
      ),

    /**
     * From pool to pool and from tenant to tenant by the index, however many runs each has. A comparison of both columns at once
     * would read all runs of a tenant to find the next one.
     */
    'runs.ready': (_, app: string, per: number, tenants: number) =>
      all(
        `WITH RECURSIVE found (pool, tenant, n) AS (
          SELECT '', '', 0
          UNION ALL
          SELECT next.pool, next.tenant, n + 1 FROM found JOIN runs AS next ON next.run_id = coalesce(
            (SELECT run_id FROM runs INDEXED BY runs_ready WHERE app = ?1 AND ${READY_NOW}
              AND pool = found.pool AND tenant > found.tenant ORDER BY tenant LIMIT 1),
            (SELECT run_id FROM runs INDEXED BY runs_ready WHERE app = ?1 AND ${READY_NOW}
              AND pool > found.pool ORDER BY pool, tenant LIMIT 1))
          WHERE n < ?3)
        SELECT ${READY.map(name => `runs.${name}`)} FROM found JOIN runs ON runs.run_id IN (
          SELECT run_id FROM runs INDEXED BY runs_ready WHERE app = ?1 AND ${READY_NOW}
            AND pool = found.pool AND tenant = found.tenant ORDER BY priority, created_at, run_id LIMIT ?2)
        WHERE n > 0 ORDER BY runs.pool, runs.tenant, runs.priority, runs.created_at, runs.run_id`,
        [app, per, tenants],
      ),

    'runs.occupied': (_, app: string) =>
      all(
        `SELECT tenant, graph_id, assistant_id, key_id, count(*) FROM runs INDEXED BY runs_running
          WHERE status = 'running' AND app = ? GROUP BY 1, 2, 3, 4`,
        [app],
      ),

    'runs.claimed': (_, thread_id: string, from: number, limit: number) =>
      all(`SELECT ${RUN} FROM runs WHERE thread_id = ? AND claim_no >= ? ORDER BY claim_no LIMIT ?`, [
        thread_id,
        from,
        limit,
      ]),

    'runs.startsDue': (_, until: number, limit: number) =>
      all(`SELECT ${RUN} FROM runs WHERE status = 'pending' AND due_at > 0 AND due_at <= ? ORDER BY due_at LIMIT ?`, [
        until,
        limit,
      ]),

    'runs.cancelsDue': (_, until: number, limit: number) =>
      all(`SELECT ${RUN} FROM runs WHERE cancel_due_at <= ? ORDER BY cancel_due_at LIMIT ?`, [until, limit]),

    'threads.busy': (_, before: number, limit: number, after?: { updated_at: number; thread_id: string }) =>
      all(
        `SELECT ${THREAD} FROM threads WHERE status = 'busy' AND updated_at < ? AND (updated_at, thread_id) > (?, ?)
          ORDER BY updated_at, thread_id LIMIT ?`,
        [before, after?.updated_at ?? -1, after?.thread_id ?? '', limit],
      ),

    'runs.webhooksDue': (_, until: number, limit: number) =>
      all(`SELECT ${RUN} FROM runs WHERE webhook_due_at <= ? ORDER BY webhook_due_at LIMIT ?`, [until, limit]),

    'runs.expired': (_, before: number, resumable: number, limit: number) =>
      all(
        'SELECT DISTINCT thread_id FROM runs WHERE temporary = 1 AND ended_at < ? AND (resumable = 0 OR ended_at < ?) AND webhook_due_at IS NULL LIMIT ?',
        [before, resumable, limit],
      ),

    'checkpoints.get': (transfer, query: CheckpointQuery) => {
      const { thread_id, ns = '', checkpoint_id, without_run = null } = query
      let id: Param = checkpoint_id ?? null
      if (id === null && ns === '' && without_run === null) {
        id = get('SELECT latest_checkpoint_id FROM threads WHERE thread_id = ?', [thread_id])?.[0] ?? null
        if (id === null) return null
      }
      const others = [without_run, without_run]
      const row =
        id === null
          ? get(`${TUPLE} WHERE thread_id = ? AND ns = ? AND ${OTHERS} ORDER BY seq DESC LIMIT 1`, [
              thread_id,
              plain(ns),
              ...others,
            ])
          : get(`${TUPLE} WHERE thread_id = ? AND id = ? AND ns = ? AND ${OTHERS}`, [
              thread_id,
              id,
              plain(ns),
              ...others,
            ])
      return row ? tuple(transfer, thread_id, row) : null
    },

    'checkpoints.list': (transfer, query: CheckpointQuery) => {
      const { thread_id, ns, checkpoint_id, before, limit, bytes, without_run } = query
      const wheres = ['SELECT rowid FROM checkpoints WHERE thread_id = ?']
      const params: Param[] = [thread_id]
      if (ns !== undefined) {
        wheres.push('ns = ?')
        params.push(plain(ns))
      }
      if (checkpoint_id !== undefined) {
        wheres.push('id = ?')
        params.push(checkpoint_id)
      }
      if (before !== undefined) {
        wheres.push('seq < (SELECT max(seq) FROM checkpoints WHERE thread_id = ? AND id = ?)')
        params.push(thread_id, before)
      }
      if (without_run !== undefined) {
        wheres.push(OTHERS)
        params.push(without_run, without_run)
      }
      params.push(limit ?? -1)
      const tuples: Tuple[] = []
      let held = 0
      for (const [rowid] of all(`${wheres.join(' AND ')} ORDER BY seq DESC LIMIT ?`, params)) {
        const one = tuple(transfer, thread_id, get(`${TUPLE} WHERE rowid = ?`, [rowid!])!)
        tuples.push(one)
        if (bytes !== undefined && (held += bytesOf(one)) >= bytes) break
      }
      return tuples
    },

    'records.get': (_, kind: string, id: string) =>
      get(`SELECT ${RECORD} FROM records WHERE kind = ? AND id = ?`, [kind, id]),

    'records.named': (_, kind: string, app: string, name: string) =>
      get(`SELECT ${RECORD} FROM records WHERE kind = ? AND app = ? AND name = ?`, [kind, app, plain(name)]),

    'records.list': (_, { kind, app, parent, keys = [], sort = 'created_at', order, after, limit }: RecordQuery) => {
      const wheres = ['kind = ?']
      const params: Param[] = [kind]
      const only = (where: string, ...values: Param[]) => {
        wheres.push(where)
        params.push(...values)
      }
      if (app !== undefined) only('app = ?', app)
      if (parent !== undefined) only('parent = ?', parent)
      for (const key of keys) only("EXISTS (SELECT 1 FROM json_each(keys) WHERE value IN (?, '*'))", key)
      const [way, beyond] = order === 'asc' ? ['ASC', '>'] : ['DESC', '<']
      const by = sort === 'id' ? ['id'] : [columnName(sort), 'id']
      if (after !== undefined)
        only(`(${by}) ${beyond} (${by.map(() => '?')})`, ...by.map(column => after[column as typeof sort]))
      params.push(limit)
      return all(
        `SELECT ${RECORD} FROM records ${parent === undefined ? '' : OF_PARENT[sort]} WHERE ${wheres.join(' AND ')} ORDER BY ${by.map(column => `${column} ${way}`)} LIMIT ?`,
        params,
      )
    },

    'records.due': (_, kind: string, now: number, limit: number) =>
      all(`SELECT ${RECORD} FROM records WHERE kind = ? AND due_at <= ? ORDER BY due_at, id LIMIT ?`, [
        kind,
        now,
        limit,
      ]),
  } satisfies { [name: string]: Read }

  function tuple(transfer: ArrayBuffer[], thread_id: string, row: Row): Tuple {
    const [stored, id, parent, refs, type, meta_type, metadata, value] = give(transfer, row) as [
      ...string[],
      Uint8Array,
      Uint8Array,
    ] as never as [string, string, string | null, string, string, string, Uint8Array, Uint8Array]
    const blobs: Tuple['blobs'] = []
    for (const [channel, version] of Object.entries(JSON.parse(refs) as { [channel: string]: string })) {
      const blob = get(BLOB, [thread_id, stored, plain(channel), version])
      if (blob) blobs.push({ channel, type: blob[0] as string, value: give(transfer, blob)[1] as Uint8Array })
    }
    const writes = all(WRITES, [thread_id, stored, id]).map(write => {
      const [task_id, idx, channel, type, value, path] = give(transfer, write) as StoredWrite
      const row = { task_id: exact(task_id), idx, channel: exact(channel), type, value }
      return path === null ? row : { ...row, path: exact(path) }
    })
    return { ns: exact(stored), id, parent, type, value, meta_type, metadata, blobs, writes }
  }
}

/** Without statistics SQLite would walk the whole kind for a list of one parent's records. */
const OF_PARENT = {
  id: 'INDEXED BY records_by_parent_id',
  created_at: 'INDEXED BY records_by_parent',
  updated_at: 'INDEXED BY records_by_parent_updated',
}

const TUPLE = 'SELECT ns, id, parent, refs, type, meta_type, metadata, value FROM checkpoints'
/** All when it is null; else those that this run did not make. */
const OTHERS = '(? IS NULL OR run_id IS NOT ?)'
const BLOB = 'SELECT type, value FROM blobs WHERE thread_id = ? AND ns = ? AND channel = ? AND version = ?'
type StoredWrite = [string, number, string, string, Uint8Array, string | null]
const WRITES = `SELECT task_id, idx, channel, type, value, path FROM writes
  WHERE thread_id = ? AND ns = ? AND checkpoint_id = ? ORDER BY task_id, idx`

function bytesOf({ value, metadata, blobs, writes }: Tuple): number {
  let all = value.length + metadata.length
  for (const blob of blobs) all += blob.value.length
  for (const write of writes) all += write.value.length
  return all
}

/** The assistant has this key, or too many to tell. */
const [CREATED_AT, RUN_ID] = [RUN.indexOf('created_at'), RUN.indexOf('run_id')]
/** Open runs without those that wait for their time: the condition of its index. */
const DUE_NOW = "(status IN ('accepting', 'running') OR status = 'pending' AND due_at = 0)"

const OF_KEY = `EXISTS (SELECT 1 FROM assistant_keys AS own
  WHERE own.app = assistants.app AND own.key IN (?, '*') AND own.assistant_id = assistants.assistant_id)`
