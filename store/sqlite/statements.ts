/**
 * Steps as SQL statements. This side knows the meaning of a step; the writer thread only runs statements and looks
 * whether those with a condition have changed a row. Column names come from the fixed lists of rows.ts, all values
 * are parameters.
 */
import { keysOf } from '../../schemas/contains.js'
import { itemKeys } from '../../schemas/items/keys.js'
import {
  ASSISTANT,
  ASSISTANT_VERSION,
  ITEM,
  PAYLOAD,
  pathOf,
  plain,
  RECORD,
  RUN,
  THREAD,
  THREAD_RARE,
} from '../columns.js'
import type { RunWhere } from '../rows/runs.js'
import type { Step, Truncated } from '../steps.js'
import type { Param } from './database.js'
import { encode } from './rows.js'

/** SQL, the index of the step that fails when no row changes (−1: cannot fail), parameters. */
type Statement = [sql: string, step: number, params: Param[]]

/** The statements of a list of steps, in order. */
export function statements(steps: readonly Step[]): Statement[] {
  const out: Statement[] = []
  for (let i = 0; i < steps.length; i++) {
    const step = steps[i]!
    ;(WAYS[step.step] as (step: Step, i: number, out: Statement[]) => void)(step, i, out)
  }
  return out
}

type Of<Name extends Step['step']> = Extract<Step, { step: Name }>

const WAYS: { [Name in Step['step']]: (step: Of<Name>, i: number, out: Statement[]) => void } = {
  'assistants.insert': ({ row, searchable = row.metadata }, i, out) => {
    out.push([INSERT_ASSISTANT, i, [...values(ASSISTANT, row), keysText(keysOf(JSON.parse(searchable)))]])
  },
  'assistants.patch': ({ app, assistant_id, where, set, searchable = set.metadata }, i, out) => {
    const { sets, params } = assignments(ASSISTANT_PATCHED, set)
    if (searchable !== undefined) {
      sets.push('keys = ?')
      params.push(keysText(keysOf(JSON.parse(searchable))))
    }
    const wheres = ['app = ?', 'assistant_id = ?', 'updated_at = ?']
    out.push([update('assistants', sets, wheres), i, [...params, app, assistant_id, where.updated_at]])
  },
  'assistants.remove': ({ app, assistant_id }, _i, out) => {
    for (const table of ['assistant_versions', 'assistants'])
      out.push([`DELETE FROM ${table} WHERE app = ? AND assistant_id = ?`, -1, [app, assistant_id]])
  },
  'versions.insert': ({ row }, i, out) => {
    out.push([INSERT_VERSION, i, values(ASSISTANT_VERSION, row)])
  },
  'versions.remove': ({ app, assistant_id, version }, _i, out) => {
    const sql = 'DELETE FROM assistant_versions WHERE app = ? AND assistant_id = ? AND version = ?'
    out.push([sql, -1, [app, assistant_id, version]])
  },
  'threads.insert': ({ row, keys = [] }, i, out) => {
    if (keys.length === 0 && row.expires_at === null && row.ttl === null && row.left_by == null)
      return void out.push([INSERT_THREAD, i, values(THREAD_PLAIN, row)])
    const text = keys.length === 0 ? null : JSON.stringify(keys)
    out.push([INSERT_FULL_THREAD, i, [...values(THREAD, row), text]])
    if (text !== null) out.push([PUT_KEYS, -1, [row.thread_id, text]])
  },
  'threads.patch': ({ thread_id, where, set, keys }, i, out) => {
    const { sets, params } = assignments(THREAD_PATCHED, set)
    if (keys !== undefined) {
      sets.push('keys = ?')
      params.push(keys.length === 0 ? null : JSON.stringify(keys))
    }
    const wheres = ['thread_id = ?']
    params.push(thread_id)
    if (where.rev !== undefined) {
      sets.push('rev = rev + 1')
      wheres.push('rev = ?')
      params.push(where.rev)
    }
    if (where.token !== undefined) {
      wheres.push("active ->> '$.token' = ?")
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
    // Before the row, which matches no longer once it is changed.
    if (payload.sets.length > 0) {
      const matches = `run_id IN (SELECT run_id FROM runs WHERE ${found.wheres.join(' AND ')})`
      out.push([update('payloads', payload.sets, [matches]), -1, [...payload.params, ...found.params]])
    }
    out.push([update('runs', sets, found.wheres), optional ? -1 : i, [...params, ...found.params]])
  },
  'runs.remove': ({ run_id, where, optional }, i, out) => {
    const { wheres, params } = runWhere(run_id, where)
    out.push([`DELETE FROM runs WHERE ${wheres.join(' AND ')}`, optional ? -1 : i, params])
  },
  'runs.beat': ({ runs }, _i, out) => {
    out.push([BEAT, -1, [JSON.stringify(runs.map(({ run_id, token }) => [run_id, token]))]])
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
      out.push([`DELETE FROM ${table} WHERE thread_id = ? AND run_id = ?`, -1, [thread_id, run_id]])
  },
  'checkpoints.trim': ({ thread_id, run_id, attempt }, _i, out) => {
    out.push([TRIM_WRITES, -1, [thread_id, run_id, attempt]])
    out.push([TRIM_CHECKPOINTS, -1, [thread_id, run_id, attempt]])
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
    out.push([update('OR IGNORE records', sets, wheres), i, params])
  },
  'records.remove': ({ kind, id, where }, i, out) => {
    const rev = where.rev === undefined ? '' : ' AND rev = ?'
    out.push([`DELETE FROM records WHERE kind = ? AND id = ?${rev}`, i, rev ? [kind, id, where.rev!] : [kind, id]])
  },
  'records.clear': ({ kind, parent }, _i, out) => {
    out.push(['DELETE FROM records WHERE kind = ? AND parent = ?', -1, [kind, parent]])
  },
  'items.put': (step, _i, out) => {
    out.push([PUT_ITEM, -1, itemParams(step)])
  },
  'items.replace': (step, i, out) => {
    out.push([REPLACE_ITEM, i, [...itemParams(step), step.replaces]])
  },
  'items.remove': ({ app, namespace, key, expired_at }, _i, out) => {
    const params = [app, pathOf(namespace), key]
    if (expired_at === undefined) out.push([REMOVE_ITEM, -1, params])
    else out.push([`${REMOVE_ITEM} AND expires_at <= ?`, -1, [...params, expired_at]])
  },
  'items.take': ({ app, namespace, key, updated_at }, i, out) => {
    out.push([`${REMOVE_ITEM} AND updated_at = ?`, i, [app, pathOf(namespace), key, updated_at]])
  },
  'items.touch': ({ app, items }, _i, out) => {
    const rows = items.map(({ namespace, key, ...at }) => [pathOf(namespace), key, at.updated_at, at.expires_at])
    out.push([TOUCH_ITEMS, -1, [app, JSON.stringify(rows)]])
  },
  'checkpoints.remove': ({ thread_id, checkpoints }, _i, out) => {
    const keys = JSON.stringify(checkpoints.map(({ ns, id }) => [plain(ns), id]))
    out.push([REMOVE_CHECKPOINTS, -1, [thread_id, keys]])
    out.push([REMOVE_WRITES, -1, [thread_id, keys]])
  },
  'blobs.remove': ({ thread_id, blobs }, _i, out) => {
    const keys = JSON.stringify(blobs.map(({ ns, channel, version }) => [plain(ns), plain(channel), version]))
    out.push([REMOVE_BLOBS, -1, [thread_id, keys]])
  },
  'threads.remove': ({ thread_id }, _i, out) => {
    // States and payloads go with the rows they belong to (ON DELETE CASCADE).
    for (const table of ['threads', 'runs', 'checkpoints', 'blobs', 'writes'])
      out.push([`DELETE FROM ${table} WHERE thread_id = ?`, -1, [thread_id]])
  },
  truncate: ({ what, keep = [] }, _i, out) => {
    const kept = JSON.stringify(keep.map(({ app, assistant_id }) => [app, assistant_id]))
    for (const sql of TRUNCATE[what]) out.push([sql, -1, sql.includes('?') ? [kept] : []])
  },
}

const empty = (...tables: string[]) => tables.map(table => `DELETE FROM ${table}`)
const TRUNCATE: { readonly [what in Truncated]: readonly string[] } = {
  threads: empty('threads', 'runs', 'checkpoints', 'blobs', 'writes'),
  runs: [...empty('runs'), "UPDATE threads SET active = NULL, queue = '[]', status = settled, rev = rev + 1"],
  checkpoints: [
    ...empty('checkpoints', 'blobs', 'writes', 'states'),
    `UPDATE threads SET latest_checkpoint_id = NULL, settled = 'idle', interrupts = '{}', error = NULL, rev = rev + 1,
      status = CASE status WHEN 'busy' THEN 'busy' ELSE 'idle' END`,
  ],
  items: empty('items'),
  assistants: [
    'DELETE FROM assistant_versions WHERE (app, assistant_id) NOT IN (SELECT value ->> 0, value ->> 1 FROM json_each(?))',
    'DELETE FROM assistants WHERE (app, assistant_id) NOT IN (SELECT value ->> 0, value ->> 1 FROM json_each(?))',
  ],
}

function runWhere(run_id: string, { status, ...equal }: RunWhere): { wheres: string[]; params: Param[] } {
  const wheres = ['run_id = ?']
  const params: Param[] = [run_id]
  if (status !== undefined) {
    wheres.push(`status IN (${status.map(() => '?').join()})`)
    params.push(...status)
  }
  for (const column of ['attempt', 'token', 'heartbeats', 'due_at', 'webhook_due_at', 'joined_at'] as const) {
    const value = equal[column]
    if (value === undefined) continue
    wheres.push(`${column} IS ?`)
    params.push(value)
  }
  return { wheres, params }
}

const ASSISTANT_PATCHED = ASSISTANT.filter(column => !['app', 'assistant_id', 'created_at'].includes(column))
const THREAD_PATCHED = THREAD.filter(column => !['app', 'thread_id', 'rev', 'created_at'].includes(column))
const RUN_PATCHED = [
  ...RUN.filter(column => !['app', 'run_id', 'thread_id', 'created_at'].includes(column)),
  'webhook_log',
]

const RECORD_PATCHED = RECORD.filter(column => !['kind', 'app', 'id', 'rev', 'created_at'].includes(column))

const insert = (table: string, columns: readonly string[]) =>
  `INSERT INTO ${table} (${columns.join()}) VALUES (${columns.map(() => '?').join()})`
const update = (table: string, sets: string[], wheres: string[]) =>
  // A patch that sets nothing still evaluates its condition.
  `UPDATE ${table} SET ${sets.join() || 'app = app'} WHERE ${wheres.join(' AND ')}`

const INSERT_ASSISTANT = `${insert('assistants', [...ASSISTANT, 'keys'])} ON CONFLICT DO NOTHING`
const INSERT_VERSION = `${insert('assistant_versions', ASSISTANT_VERSION)} ON CONFLICT DO NOTHING`
const THREAD_PLAIN = THREAD.filter(column => !THREAD_RARE.includes(column))
const INSERT_THREAD = `${insert('threads', THREAD_PLAIN)} ON CONFLICT DO NOTHING`
const INSERT_FULL_THREAD = `${insert('threads', [...THREAD, 'keys'])} ON CONFLICT DO NOTHING`
const PUT_KEYS = 'INSERT OR IGNORE INTO thread_keys (key, thread_id) SELECT value, ?1 FROM json_each(?2)'
const REMOVE_CHECKPOINTS = `DELETE FROM checkpoints WHERE thread_id = ?1 AND (ns, id) IN
  (SELECT value ->> 0, value ->> 1 FROM json_each(?2))`
const REMOVE_WRITES = REMOVE_CHECKPOINTS.replace('FROM checkpoints', 'FROM writes').replace(
  '(ns, id)',
  '(ns, checkpoint_id)',
)
const AFTER_LATEST = `FROM checkpoints WHERE thread_id = ?1 AND run_id = ?2 AND attempt = ?3 AND ns = '' AND seq >
  (SELECT CASE WHEN latest_checkpoint_id IS NULL THEN -1 ELSE (SELECT seq FROM checkpoints
    WHERE thread_id = ?1 AND ns = '' AND id = latest_checkpoint_id) END FROM threads WHERE thread_id = ?1)`
const TRIM_CHECKPOINTS = `DELETE ${AFTER_LATEST}`
const TRIM_WRITES = `DELETE FROM writes WHERE thread_id = ?1 AND ns = '' AND checkpoint_id IN (SELECT id ${AFTER_LATEST})`
const REMOVE_BLOBS = `DELETE FROM blobs WHERE thread_id = ?1 AND (ns, channel, version) IN
  (SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?2))`
/** A repeated create counts as done and leaves the stored row unchanged. */
const INSERT_RUN = `${insert('runs', RUN)} ON CONFLICT (run_id) DO UPDATE SET heartbeats = heartbeats
  WHERE status = 'accepting' AND app = excluded.app AND thread_id = excluded.thread_id`
const INSERT_PAYLOAD = `${insert('payloads', ['run_id', ...PAYLOAD])} ON CONFLICT DO NOTHING`
/** A removed thread has no state: nothing is inserted then. */
const PUT_STATE = `INSERT OR REPLACE INTO states (latest_checkpoint_id, "values", rest, thread_id)
  SELECT ?1, ?2, ?3, ?4 WHERE EXISTS (SELECT 1 FROM threads WHERE thread_id = ?4)`
const BEAT = `UPDATE runs SET heartbeats = heartbeats + 1 FROM json_each(?) AS beat
  WHERE run_id = beat.value ->> 0 AND token = beat.value ->> 1`
const PUT_CHECKPOINT = insert('checkpoints', [
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
]).replace('INSERT', 'INSERT OR REPLACE')
const PUT_BLOB = `${insert('blobs', ['thread_id', 'ns', 'channel', 'version', 'type', 'value'])} ON CONFLICT DO NOTHING`
const WRITE = insert('writes', [
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
])
const INSERT_RECORD = `${insert('records', RECORD)} ON CONFLICT DO NOTHING`
const PUT_ITEM = `${insert('items', [...ITEM, 'vectors', 'keys'])} ON CONFLICT (app, path, key) DO UPDATE SET
  created_at = CASE WHEN expires_at <= excluded.updated_at THEN excluded.created_at ELSE created_at END,
  value = excluded.value, updated_at = max(excluded.updated_at, updated_at + 1),
  ttl = excluded.ttl, expires_at = excluded.expires_at, vectors = excluded.vectors,
  keys = excluded.keys`
const REPLACE_ITEM = `${PUT_ITEM} WHERE items.expires_at <= excluded.updated_at OR items.updated_at = ?`
const REMOVE_ITEM = 'DELETE FROM items WHERE app = ? AND path = ? AND key = ?'
const TOUCH_ITEMS = `UPDATE items SET expires_at = touched.value ->> 3 FROM json_each(?2) AS touched
  WHERE app = ?1 AND items.path = touched.value ->> 0 AND items.key = touched.value ->> 1 AND updated_at = touched.value ->> 2`
const PUT_WRITE = `${WRITE} ON CONFLICT DO NOTHING`
const REPLACE_WRITE = WRITE.replace('INSERT', 'INSERT OR REPLACE')

function itemParams({ row, vectors, searchable = row.value }: Of<'items.put' | 'items.replace'>): Param[] {
  const { app, namespace, key, value, created_at, updated_at, ttl, expires_at } = row
  const params = [app, pathOf(namespace), key, value, created_at, updated_at, ttl, expires_at]
  const own = vectors === undefined || vectors.length === 0 ? null : vectors
  return [...params, own, keysText(itemKeys(JSON.parse(searchable)))]
}

/** Null for none. */
const keysText = (keys: readonly string[]): string | null => (keys.length === 0 ? null : JSON.stringify(keys))

const values = (columns: readonly string[], row: object): Param[] =>
  columns.map(column => encode(column, (row as { [column: string]: unknown })[column]))

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
