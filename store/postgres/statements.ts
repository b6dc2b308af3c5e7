/**
 * Steps as SQL statements. Column names come from the fixed lists of columns.ts, all values are parameters. A statement with
 * the index of its step fails the step when it changes no row.
 */
import { keysOf } from '../../schemas/contains.js'
import { itemKeys } from '../../schemas/items/keys.js'
import { ASSISTANT, ASSISTANT_VERSION, ITEM, PAYLOAD, pathOf, plain, RECORD, RUN, THREAD } from '../columns.js'
import type { RunWhere } from '../rows/runs.js'
import type { Step, Truncated } from '../steps.js'
import type { Param } from './connection.js'
import { encode } from './rows.js'

/** SQL, the index of the step that fails when no row changes (−1: cannot fail), parameters. */
export type Statement = [sql: string, step: number, params: Param[]]

/** The statements of a list of steps, in order. */
export function statements(steps: readonly Step[]): Statement[] {
  const out: Statement[] = []
  for (let i = 0; i < steps.length; i++) {
    const step = steps[i]!
    ;(WAYS[step.step] as (step: Step, i: number, out: Statement[]) => void)(step, i, out)
  }
  return out
}

/**
 * The begin of a transaction. Two that change the same rows must not wait for each other: threads are locked first, in the
 * order of their ids, then what belongs to them. Null when the first step has that order already.
 */
export function lockFor(steps: readonly Step[]): Statement | null {
  const ids = new Set(steps.flatMap(one => (one.step === 'threads.patch' ? [one.thread_id] : [])))
  const isFirst = ids.size === 1 && steps.find(({ step }) => LOCKING.test(step))?.step === 'threads.patch'
  return ids.size === 0 || isFirst ? null : [LOCK_THREADS, -1, [[...ids].sort()]]
}

/**
 * The rows that these steps change, by which writes of other calls may share a transaction with them; null: they may not,
 * because they change rows that no id names here.
 */
export function rowsOf(steps: readonly Step[]): string[] | null {
  const rows: string[] = []
  for (const one of steps) {
    if (!SHARING.has(one.step)) return null
    if ('thread_id' in one) rows.push(one.thread_id)
    if ('row' in one && 'thread_id' in one.row) rows.push(one.row.thread_id)
    if (one.step === 'runs.insert') rows.push(one.row.run_id)
    if (one.step === 'runs.patch' || one.step === 'runs.remove') rows.push(one.run_id)
  }
  return rows
}
const SHARING: ReadonlySet<Step['step']> = new Set([
  'threads.insert',
  'threads.patch',
  'threads.state',
  'runs.insert',
  'runs.patch',
  'runs.remove',
  'checkpoints.insert',
])
const LOCKING = /^(threads\.patch|runs\.(patch|remove|insert))$/
const LOCK_THREADS = 'SELECT 1 FROM weft.threads WHERE thread_id = ANY (?::text[]) ORDER BY thread_id FOR NO KEY UPDATE'

type Of<Name extends Step['step']> = Extract<Step, { step: Name }>

const WAYS: { [Name in Step['step']]: (step: Of<Name>, i: number, out: Statement[]) => void } = {
  'assistants.insert': ({ row, searchable = row.metadata }, i, out) => {
    out.push([INSERT_ASSISTANT, i, [...values(ASSISTANT, row), orNull(keysOf(JSON.parse(searchable)))]])
  },
  'assistants.patch': ({ app, assistant_id, where, set, searchable = set.metadata }, i, out) => {
    const { sets, params } = assignments(ASSISTANT_PATCHED, set)
    if (searchable !== undefined) {
      sets.push('keys = ?')
      params.push(orNull(keysOf(JSON.parse(searchable))))
    }
    const wheres = ['app = ?', 'assistant_id = ?', 'updated_at = ?']
    out.push([update('assistants', sets, wheres), i, [...params, app, assistant_id, where.updated_at]])
  },
  'assistants.remove': ({ app, assistant_id }, _i, out) => {
    for (const table of ['assistant_versions', 'assistants'])
      out.push([`DELETE FROM weft.${table} WHERE app = ? AND assistant_id = ?`, -1, [app, assistant_id]])
  },
  'versions.insert': ({ row }, i, out) => {
    out.push([INSERT_VERSION, i, values(ASSISTANT_VERSION, row)])
  },
  'versions.remove': ({ app, assistant_id, version }, _i, out) => {
    const sql = 'DELETE FROM weft.assistant_versions WHERE app = ? AND assistant_id = ? AND version = ?'
    out.push([sql, -1, [app, assistant_id, version]])
  },
  'threads.insert': ({ row, keys = [] }, i, out) => {
    out.push([INSERT_THREAD, i, [...values(THREAD, row), orNull(keys)]])
  },
  'threads.patch': ({ thread_id, where, set, keys }, i, out) => {
    const { sets, params } = assignments(THREAD_PATCHED, set)
    if (keys !== undefined) {
      sets.push('keys = ?')
      params.push(orNull(keys))
    }
    const wheres = ['thread_id = ?']
    params.push(thread_id)
    if (where.rev !== undefined) {
      sets.push('rev = rev + 1')
      wheres.push('rev = ?')
      params.push(where.rev)
    }
    if (where.token !== undefined) {
      wheres.push("active::json ->> 'token' = ?")
      params.push(where.token)
    }
    out.push([update('threads', sets, wheres), i, params])
  },
  'threads.state': ({ thread_id, latest_checkpoint_id, values, rest }, _i, out) => {
    out.push([PUT_STATE, -1, [latest_checkpoint_id, values, rest, thread_id]])
  },
  'runs.insert': ({ row }, i, out) => {
    out.push([INSERT_RUN, i, values(RUN, row)])
    out.push([INSERT_PAYLOAD, -1, [row.run_id, ...values(PAYLOAD, row)]])
  },
  'runs.patch': ({ run_id, where, set, optional }, i, out) => {
    const { sets, params } = assignments(RUN_PATCHED, set)
    const found = runWhere(run_id, where)
    const payload = assignments(PAYLOAD, set)
    // Before the row, which matches no longer once it is changed. The row is locked, so that it still matches then.
    if (payload.sets.length > 0) {
      const matches = `run_id IN (SELECT run_id FROM weft.runs WHERE ${found.wheres.join(' AND ')} FOR NO KEY UPDATE)`
      out.push([update('payloads', payload.sets, [matches]), -1, [...payload.params, ...found.params]])
    }
    out.push([update('runs', sets, found.wheres), optional ? -1 : i, [...params, ...found.params]])
  },
  'runs.remove': ({ run_id, where, optional }, i, out) => {
    const { wheres, params } = runWhere(run_id, where)
    out.push([removeRuns(wheres.join(' AND ')), optional ? -1 : i, params])
  },
  'runs.beat': ({ runs }, _i, out) => {
    out.push([BEAT, -1, [runs.map(({ run_id }) => run_id), runs.map(({ token }) => token)]])
  },
  'checkpoints.insert': ({ thread_id, run_id, attempt, checkpoints, blobs, writes }, _i, out) => {
    for (const { ns, id, parent, seq, type, meta_type, refs, metadata, value } of checkpoints) {
      const params = [thread_id, id, plain(ns), parent, seq, run_id, attempt]
      out.push([PUT_CHECKPOINT, -1, [...params, type, meta_type, JSON.stringify(refs), metadata, value]])
    }
    for (const { ns, channel, version, type, value } of blobs)
      out.push([PUT_BLOB, -1, [thread_id, plain(ns), plain(channel), version, type, value]])
    for (const { ns, checkpoint_id, task_id, idx, channel, type, value, path } of writes) {
      const params = [thread_id, plain(ns), checkpoint_id, plain(task_id), idx, run_id, attempt, plain(channel)]
      const stored = path === undefined ? null : plain(path)
      out.push([idx < 0 ? REPLACE_WRITE : PUT_WRITE, -1, [...params, type, value, stored]])
    }
  },
  'checkpoints.rollback': ({ thread_id, run_id }, _i, out) => {
    for (const table of ['checkpoints', 'writes'])
      out.push([`DELETE FROM weft.${table} WHERE thread_id = ? AND run_id = ?`, -1, [thread_id, run_id]])
  },
  'checkpoints.trim': ({ thread_id, run_id, attempt }, _i, out) => {
    const params = [thread_id, run_id, attempt, thread_id, thread_id]
    out.push([TRIM_WRITES, -1, [thread_id, ...params]])
    out.push([TRIM_CHECKPOINTS, -1, params])
  },
  'records.insert': ({ row }, i, out) => {
    out.push([INSERT_RECORD, i, values(RECORD, row)])
  },
  'records.patch': ({ kind, id, where, set }, i, out) => {
    const { sets, params } = assignments(RECORD_PATCHED, set)
    sets.push('rev = rev + 1')
    const wheres = ['kind = ?', 'id = ?']
    params.push(kind, id)
    if (where.rev !== undefined) {
      wheres.push('rev = ?')
      params.push(where.rev)
    }
    out.push([update('records', sets, wheres), i, params])
  },
  'records.remove': ({ kind, id, where }, i, out) => {
    const rev = where.rev === undefined ? '' : ' AND rev = ?'
    out.push([`DELETE FROM weft.records WHERE kind = ? AND id = ?${rev}`, i, rev ? [kind, id, where.rev!] : [kind, id]])
  },
  'records.clear': ({ kind, parent }, _i, out) => {
    out.push(['DELETE FROM weft.records WHERE kind = ? AND parent = ?', -1, [kind, parent]])
  },
  'items.put': (step, _i, out) => {
    out.push([PUT_ITEM, -1, itemParams(step)])
  },
  'items.replace': (step, i, out) => {
    out.push([REPLACE_ITEM, i, [...itemParams(step), step.replaces]])
  },
  'items.remove': ({ app, namespace, key, expired_at }, _i, out) => {
    const params = [app, pathOf(namespace), plain(key)]
    if (expired_at === undefined) out.push([REMOVE_ITEM, -1, params])
    else out.push([`${REMOVE_ITEM} AND expires_at <= ?`, -1, [...params, expired_at]])
  },
  'items.take': ({ app, namespace, key, updated_at }, i, out) => {
    out.push([`${REMOVE_ITEM} AND updated_at = ?`, i, [app, pathOf(namespace), plain(key), updated_at]])
  },
  'items.touch': ({ app, items }, _i, out) => {
    const columns = [
      items.map(({ namespace }) => pathOf(namespace)),
      items.map(({ key }) => plain(key)),
      items.map(({ updated_at }) => updated_at),
      items.map(({ expires_at }) => expires_at),
    ]
    out.push([TOUCH_ITEMS, -1, [...columns, app]])
  },
  'checkpoints.remove': ({ thread_id, checkpoints }, _i, out) => {
    const params = [thread_id, checkpoints.map(({ ns }) => plain(ns)), checkpoints.map(({ id }) => id)]
    out.push([REMOVE_CHECKPOINTS, -1, params])
    out.push([REMOVE_WRITES, -1, params])
  },
  'blobs.remove': ({ thread_id, blobs }, _i, out) => {
    const columns = [
      blobs.map(({ ns }) => plain(ns)),
      blobs.map(({ channel }) => plain(channel)),
      blobs.map(({ version }) => version),
    ]
    out.push([REMOVE_BLOBS, -1, [thread_id, ...columns]])
  },
  'threads.remove': ({ thread_id }, _i, out) => {
    out.push([removeRuns('thread_id = ?'), -1, [thread_id]])
    for (const table of ['threads', 'states', 'checkpoints', 'blobs', 'writes'])
      out.push([`DELETE FROM weft.${table} WHERE thread_id = ?`, -1, [thread_id]])
  },
  truncate: ({ what, keep = [] }, _i, out) => {
    const kept = [keep.map(({ app }) => app), keep.map(({ assistant_id }) => assistant_id)]
    for (const sql of TRUNCATE[what]) out.push([sql, -1, sql.includes('?') ? kept : []])
  },
}

const empty = (...tables: string[]) => tables.map(table => `DELETE FROM weft.${table}`)
const KEPT = '(app, assistant_id) NOT IN (SELECT * FROM unnest(?::text[], ?::text[]))'
const TRUNCATE: { readonly [what in Truncated]: readonly string[] } = {
  threads: empty('threads', 'states', 'runs', 'payloads', 'checkpoints', 'blobs', 'writes'),
  runs: [
    ...empty('runs', 'payloads'),
    "UPDATE weft.threads SET active = NULL, queue = '[]', status = settled, rev = rev + 1",
  ],
  checkpoints: [
    ...empty('checkpoints', 'blobs', 'writes', 'states'),
    `UPDATE weft.threads SET latest_checkpoint_id = NULL, settled = 'idle', interrupts = '{}', error = NULL, rev = rev + 1,
      status = CASE status WHEN 'busy' THEN 'busy' ELSE 'idle' END`,
  ],
  items: empty('items'),
  assistants: [`DELETE FROM weft.assistant_versions WHERE ${KEPT}`, `DELETE FROM weft.assistants WHERE ${KEPT}`],
}

/** The payload of a run goes with it. */
const removeRuns = (where: string): string =>
  `WITH gone AS (DELETE FROM weft.runs WHERE ${where} RETURNING run_id)
    DELETE FROM weft.payloads WHERE run_id IN (SELECT run_id FROM gone)`

function runWhere(run_id: string, { status, ...equal }: RunWhere): { wheres: string[]; params: Param[] } {
  const wheres = ['run_id = ?']
  const params: Param[] = [run_id]
  if (status !== undefined) {
    wheres.push('status = ANY (?::text[])')
    params.push(status)
  }
  for (const column of ['attempt', 'token', 'heartbeats', 'due_at', 'webhook_due_at', 'joined_at'] as const) {
    const value = equal[column]
    if (value === undefined) continue
    wheres.push(`${column} IS NOT DISTINCT FROM ?`)
    params.push(value)
  }
  return { wheres, params }
}

const without = (columns: readonly string[], ...names: string[]) => columns.filter(column => !names.includes(column))
const ASSISTANT_PATCHED = without(ASSISTANT, 'app', 'assistant_id', 'created_at')
const THREAD_PATCHED = without(THREAD, 'app', 'thread_id', 'rev', 'created_at')
const RUN_PATCHED = [...without(RUN, 'app', 'run_id', 'thread_id', 'created_at'), 'webhook_log']
const RECORD_PATCHED = without(RECORD, 'kind', 'app', 'id', 'rev', 'created_at')

const insert = (table: string, columns: readonly string[]) =>
  `INSERT INTO weft.${table} (${columns.join()}) VALUES (${columns.map(() => '?').join()})`
const update = (table: string, sets: string[], wheres: string[]) =>
  // A patch that sets nothing still evaluates its condition.
  `UPDATE weft.${table} SET ${sets.join() || 'app = app'} WHERE ${wheres.join(' AND ')}`

const INSERT_ASSISTANT = `${insert('assistants', [...ASSISTANT, 'keys'])} ON CONFLICT DO NOTHING`
const INSERT_VERSION = `${insert('assistant_versions', ASSISTANT_VERSION)} ON CONFLICT DO NOTHING`
const INSERT_THREAD = `${insert('threads', [...THREAD, 'keys'])} ON CONFLICT DO NOTHING`
const OF_CHECKPOINTS = 'thread_id = ? AND (ns, id) IN (SELECT * FROM unnest(?::text[], ?::text[]))'
const REMOVE_CHECKPOINTS = `DELETE FROM weft.checkpoints WHERE ${OF_CHECKPOINTS}`
const REMOVE_WRITES = `DELETE FROM weft.writes WHERE ${OF_CHECKPOINTS.replace('(ns, id)', '(ns, checkpoint_id)')}`
const AFTER_LATEST = `FROM weft.checkpoints WHERE thread_id = ? AND run_id = ? AND attempt = ? AND ns = '' AND seq >
  (SELECT CASE WHEN latest_checkpoint_id IS NULL THEN -1 ELSE (SELECT seq FROM weft.checkpoints
    WHERE thread_id = ? AND ns = '' AND id = latest_checkpoint_id) END FROM weft.threads WHERE thread_id = ?)`
const TRIM_CHECKPOINTS = `DELETE ${AFTER_LATEST}`
const TRIM_WRITES = `DELETE FROM weft.writes WHERE thread_id = ? AND ns = '' AND checkpoint_id IN (SELECT id ${AFTER_LATEST})`
const REMOVE_BLOBS = `DELETE FROM weft.blobs WHERE thread_id = ? AND (ns, channel, version) IN
  (SELECT * FROM unnest(?::text[], ?::text[], ?::text[]))`
/** A repeated create counts as done and leaves the stored row unchanged. */
const INSERT_RUN = `${insert('runs', RUN)} ON CONFLICT (run_id) DO UPDATE SET heartbeats = runs.heartbeats
  WHERE runs.status = 'accepting' AND runs.app = excluded.app AND runs.thread_id = excluded.thread_id`
const INSERT_PAYLOAD = `${insert('payloads', ['run_id', ...PAYLOAD])} ON CONFLICT DO NOTHING`
/** A removed thread has no state: nothing is inserted then, and no thread with a new state is removed meanwhile. */
const PUT_STATE = `INSERT INTO weft.states (latest_checkpoint_id, "values", rest, thread_id)
  SELECT ?, ?, ?, thread_id FROM weft.threads WHERE thread_id = ? FOR KEY SHARE
  ON CONFLICT (thread_id) DO UPDATE SET latest_checkpoint_id = excluded.latest_checkpoint_id,
    "values" = excluded."values", rest = excluded.rest`
const BEAT = `UPDATE weft.runs SET heartbeats = heartbeats + 1 FROM unnest(?::text[], ?::text[]) AS beat (id, held)
  WHERE run_id = beat.id AND token = beat.held`
const CHECKPOINT = [
  'thread_id',
  'id',
  'ns',
  'parent',
  'seq',
  'run_id',
  'attempt',
  'type',
  'meta_type',
  'refs',
  'metadata',
  'value',
]
const replaced = (columns: readonly string[]) => columns.map(column => `${column} = excluded.${column}`).join()
const PUT_CHECKPOINT = `${insert('checkpoints', CHECKPOINT)} ON CONFLICT (thread_id, id, ns)
  DO UPDATE SET ${replaced(without(CHECKPOINT, 'thread_id', 'id', 'ns'))}`
const PUT_BLOB = `${insert('blobs', ['thread_id', 'ns', 'channel', 'version', 'type', 'value'])} ON CONFLICT DO NOTHING`
const WRITE = [
  'thread_id',
  'ns',
  'checkpoint_id',
  'task_id',
  'idx',
  'run_id',
  'attempt',
  'channel',
  'type',
  'value',
  'path',
]
const PUT_WRITE = `${insert('writes', WRITE)} ON CONFLICT DO NOTHING`
const REPLACE_WRITE = `${insert('writes', WRITE)} ON CONFLICT (thread_id, ns, checkpoint_id, task_id, idx)
  DO UPDATE SET ${replaced(without(WRITE, 'thread_id', 'ns', 'checkpoint_id', 'task_id', 'idx'))}`
const INSERT_RECORD = `${insert('records', RECORD)} ON CONFLICT DO NOTHING`
const PUT_ITEM = `${insert('items', [...ITEM, 'vectors', 'keys'])} ON CONFLICT (app, path, key) DO UPDATE SET
  created_at = CASE WHEN items.expires_at <= excluded.updated_at THEN excluded.created_at ELSE items.created_at END,
  value = excluded.value, updated_at = greatest(excluded.updated_at, items.updated_at + 1),
  ttl = excluded.ttl, expires_at = excluded.expires_at, vectors = excluded.vectors, keys = excluded.keys, copied = 0`
const REPLACE_ITEM = `${PUT_ITEM} WHERE items.expires_at <= excluded.updated_at OR items.updated_at = ?`
const REMOVE_ITEM = 'DELETE FROM weft.items WHERE app = ? AND path = ? AND key = ?'
const TOUCH_ITEMS = `UPDATE weft.items SET expires_at = touched.until
  FROM unnest(?::text[], ?::text[], ?::bigint[], ?::bigint[]) AS touched (path, key, written, until)
  WHERE app = ? AND items.path = touched.path AND items.key = touched.key AND updated_at = touched.written`

function itemParams({ row, vectors, searchable = row.value }: Of<'items.put' | 'items.replace'>): Param[] {
  const { app, namespace, key, value, created_at, updated_at, ttl, expires_at } = row
  const params = [app, pathOf(namespace), plain(key), value, created_at, updated_at, ttl, expires_at]
  const own = vectors === undefined || vectors.length === 0 ? null : vectors
  return [...params, own, orNull(itemKeys(JSON.parse(searchable)))]
}

/** Null for none. */
const orNull = (keys: readonly string[]): readonly string[] | null => (keys.length === 0 ? null : keys)

const values = (columns: readonly string[], row: object): Param[] =>
  columns.map(column => encode(column, (row as { [column: string]: unknown })[column] ?? null))

/** `column = ?` for every column of the list that the patch has a value for. */
function assignments(columns: readonly string[], set: object): { sets: string[]; params: Param[] } {
  const sets: string[] = []
  const params: Param[] = []
  for (const column of columns) {
    const value = (set as { [column: string]: unknown })[column]
    if (value === undefined) continue
    sets.push(`${column} = ?`)
    params.push(encode(column, value))
  }
  return { sets, params }
}
