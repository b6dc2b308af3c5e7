/** Steps of the port as statements. Runs in the writer thread, inside its transaction. */
import type { Step } from './port.js'
import type { Database, Statement, Value } from './sqlite-open.js'
import { ASSISTANT_COLUMNS, RUN_COLUMNS, THREAD_COLUMNS } from './sqlite-schema.js'

/** Applies one step; false when its condition does not hold. */
export type Applier = (step: Step) => boolean

const JSON_COLUMNS = new Set(['active', 'queue'])

/** A field as its column's value. */
export function toColumn(name: string, value: unknown): Value {
  if (value === null || value === undefined) return null
  if (JSON_COLUMNS.has(name)) return JSON.stringify(value)
  if (typeof value === 'boolean') return value ? 1 : 0
  return value instanceof Uint8Array ? bytes(value) : (value as Value)
}

const bytes = (value: Uint8Array) => Buffer.from(value.buffer, value.byteOffset, value.length)
const marks = (n: number) => Array(n).fill('?').join(', ')

export function applier(db: Database): Applier {
  const cache = new Map<string, Statement>()
  const sql = (text: string): Statement => {
    let statement = cache.get(text)
    if (statement === undefined) cache.set(text, (statement = db.prepare(text)))
    return statement
  }
  const insert = (table: string, columns: readonly string[], rest: string) =>
    sql(`insert into ${table} (${columns.join(', ')}) values (${marks(columns.length)}) ${rest}`)
  const row = (columns: readonly string[], values: object): Value[] =>
    columns.map(name => toColumn(name, (values as { [name: string]: unknown })[name]))

  const insertAssistant = insert('assistants', ASSISTANT_COLUMNS, 'on conflict do nothing')
  const insertThread = insert('threads', THREAD_COLUMNS, 'on conflict do nothing')
  const insertRun = insert(
    'runs',
    RUN_COLUMNS,
    `on conflict (run_id) do update set updated_at = excluded.updated_at where runs.status = 'accepting'`,
  )
  const insertBody = sql(
    'insert into run_bodies (run_id, kwargs, result) values (?, ?, ?) on conflict (run_id) do nothing',
  )
  const setResult = sql('update run_bodies set result = ? where run_id = ?')
  const setKwargs = sql('update run_bodies set kwargs = ? where run_id = ?')
  const beat = sql('update runs set hb = hb + 1 where run_id = ? and token = ?')
  const putState = sql('insert or replace into thread_states (thread_id, head, vals, rest) values (?, ?, ?, ?)')
  const putCheckpoint = sql(
    'insert or replace into checkpoints (thread_id, ns, id, seq, parent, run_id, attempt, type, value, meta_type, metadata, refs) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)',
  )
  const addBlob = sql(
    'insert into blobs (thread_id, ns, channel, version, type, value) values (?, ?, ?, ?, ?, ?) on conflict do nothing',
  )
  const writeColumns = ['thread_id', 'ns', 'checkpoint_id', 'task_id', 'idx', 'channel', 'type', 'value']
  const addWrite = insert('writes', writeColumns, 'on conflict do nothing')
  const putWrite = sql(`insert or replace into writes (${writeColumns.join(', ')}) values (${marks(8)})`)
  const removals = [
    'delete from run_bodies where run_id in (select run_id from runs where thread_id = ?)',
    'delete from runs where thread_id = ?',
    'delete from thread_states where thread_id = ?',
    'delete from writes where thread_id = ?',
    'delete from blobs where thread_id = ?',
    'delete from checkpoints where thread_id = ?',
    'delete from threads where thread_id = ?',
  ].map(sql)

  function patch(
    table: string,
    key: string,
    id: string,
    set: object,
    where: string[],
    params: Value[],
    extra = '',
  ): boolean {
    const names = Object.keys(set).filter(name => (set as { [name: string]: unknown })[name] !== undefined)
    const sets = [...names.map(name => `${name} = ?`), ...(extra ? [extra] : [])]
    // Nothing to set is still a question: does the row match?
    if (sets.length === 0) sets.push(`${key} = ${key}`)
    const values = row(names, set)
    return (
      sql(`update ${table} set ${sets.join(', ')} where ${[`${key} = ?`, ...where].join(' and ')}`).run(
        ...values,
        id,
        ...params,
      ).changes > 0
    )
  }

  return step => {
    switch (step.step) {
      case 'assistants.insert':
        return insertAssistant.run(...row(ASSISTANT_COLUMNS, step.row)).changes > 0
      case 'threads.insert':
        return insertThread.run(...row(THREAD_COLUMNS, step.row)).changes > 0
      case 'threads.patch': {
        const where: string[] = []
        const params: Value[] = []
        if (step.where.rev !== undefined) where.push('rev = ?') && params.push(step.where.rev)
        if (step.where.token !== undefined) where.push(`active ->> '$.token' = ?`) && params.push(step.where.token)
        return patch(
          'threads',
          'thread_id',
          step.thread_id,
          step.set,
          where,
          params,
          step.where.rev === undefined ? '' : 'rev = rev + 1',
        )
      }
      case 'threads.state':
        putState.run(step.thread_id, step.head, toColumn('values', step.values), toColumn('rest', step.rest))
        return true
      case 'runs.insert':
        if (insertRun.run(...row(RUN_COLUMNS, step.row)).changes === 0) return false
        insertBody.run(step.row.run_id, step.row.kwargs, toColumn('result', step.row.result))
        return true
      case 'runs.patch': {
        const { kwargs, result, ...set } = step.set
        const { status, attempt, token } = step.where
        const where: string[] = []
        const params: Value[] = []
        if (status !== undefined) where.push(`status in (${marks(status.length)})`) && params.push(...status)
        if (attempt !== undefined) where.push('attempt = ?') && params.push(attempt)
        if (token !== undefined) where.push('token = ?') && params.push(token)
        if (!patch('runs', 'run_id', step.run_id, set, where, params)) return false
        if (result !== undefined) setResult.run(toColumn('result', result), step.run_id)
        if (kwargs !== undefined) setKwargs.run(kwargs, step.run_id)
        return true
      }
      case 'runs.beat':
        for (const { run_id, token } of step.runs) beat.run(run_id, token)
        return true
      case 'checkpoints.insert': {
        const { thread_id, run_id, attempt } = step
        for (const one of step.checkpoints) {
          putCheckpoint.run(
            thread_id,
            one.ns,
            one.id,
            one.seq,
            one.parent,
            run_id,
            attempt,
            one.type,
            bytes(one.value),
            one.meta_type,
            bytes(one.metadata),
            JSON.stringify(one.refs),
          )
        }
        for (const one of step.blobs)
          addBlob.run(thread_id, one.ns, one.channel, one.version, one.type, bytes(one.value))
        for (const one of step.writes) {
          const statement = one.idx < 0 ? putWrite : addWrite
          statement.run(
            thread_id,
            one.ns,
            one.checkpoint_id,
            one.task_id,
            one.idx,
            one.channel,
            one.type,
            bytes(one.value),
          )
        }
        return true
      }
      case 'threads.remove':
        for (const statement of removals) statement.run(step.thread_id)
        return true
    }
  }
}
