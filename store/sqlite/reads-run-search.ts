/** Reads of a search over runs (run-search.ts): slices and counts of the indexes of runs, and the keys of threads. */
import { plain, RUN_ENTRY } from '../columns.js'
import type { RunPlace, RunSource } from '../run-search.js'
import type { Param } from './database.js'
import type { Ask, Query, Read } from './query.js'

/** Without statistics SQLite might take another index, and sort. */
const FROM: { readonly [by in RunSource['by']]: string } = {
  app: 'runs INDEXED BY runs_by_created WHERE app = ?',
  temporary: 'runs INDEXED BY runs_temporary WHERE temporary = 1 AND app = ?',
  status: 'runs INDEXED BY runs_by_status WHERE app = ? AND status = ?',
  graph_id: 'runs INDEXED BY runs_by_graph WHERE app = ? AND graph_id = ?',
  assistant_id: 'runs INDEXED BY runs_by_assistant WHERE app = ? AND assistant_id = ?',
  key_id: 'runs INDEXED BY runs_by_key WHERE key_id IS NOT NULL AND app = ? AND key_id = ?',
  thread_id:
    'json_each(?) AS one CROSS JOIN runs INDEXED BY runs_by_thread ON runs.thread_id = one.value WHERE runs.app = ?',
}
const COLUMNS = RUN_ENTRY.map(name => `runs.${name}`)

export function runSearchReads({ get, all }: Ask) {
  return {
    'runs.slice': (_, source: RunSource, place: RunPlace, size: number) => {
      const { sql, params } = within(source, place)
      const way = place.order === 'asc' ? 'ASC' : 'DESC'
      return all(`SELECT ${COLUMNS} FROM ${sql} ORDER BY runs.created_at ${way}, runs.run_id ${way} LIMIT ?`, [
        ...params,
        size,
      ])
    },

    /** Reads an index alone. */
    'runs.count': (_, source: RunSource, place: RunPlace, most = -1) => {
      const { sql, params } = within(source, place)
      return get(`SELECT count(*) FROM (SELECT 1 FROM ${sql} LIMIT ?)`, [...params, most])![0]
    },

    'threads.with': (_, app: string, key: string, most: number) =>
      all(
        `SELECT DISTINCT thread_id FROM thread_keys CROSS JOIN threads USING (thread_id)
          WHERE key IN (?, '*') AND app = ? AND temporary = 0 LIMIT ?`,
        [key, app, most],
      ).map(([id]) => id),

    'threads.haveKeys': (_, ids: readonly string[], keys: readonly string[]) =>
      all(
        `SELECT value FROM json_each(?) AS one WHERE ${keys
          .map(() => "EXISTS (SELECT 1 FROM thread_keys WHERE key IN (?, '*') AND thread_id = one.value)")
          .join(' AND ')}`,
        [JSON.stringify(ids), ...keys],
      ).map(([id]) => id),
  } satisfies { [name: string]: Read }
}

/** The runs of a source between the bounds of a place. */
function within({ by, values }: RunSource, { app, from, until, order, after }: RunPlace): Query {
  const wheres = [FROM[by]]
  const params: Param[] = by === 'thread_id' ? [JSON.stringify(values), app] : [app]
  if (by !== 'thread_id' && by !== 'app' && by !== 'temporary')
    params.push(by === 'graph_id' ? plain(values[0]!) : values[0]!)
  const only = (where: string, ...more: Param[]) => {
    wheres.push(where)
    params.push(...more)
  }
  if (from !== undefined) only('runs.created_at >= ?', from)
  if (until !== undefined) only('runs.created_at < ?', until)
  if (after !== undefined)
    only(`(runs.created_at, runs.run_id) ${order === 'asc' ? '>' : '<'} (?, ?)`, after.created_at, after.run_id)
  return { sql: wheres.join(' AND '), params }
}
