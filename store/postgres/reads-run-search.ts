/** The reads of a search over runs (run-search.ts): slices and counts of the indexes of runs, and the keys of threads. */
import { plain, RUN_ENTRY } from '../columns.js'
import type { RunEntry, RunPlace, RunSource, RunSources } from '../run-search.js'
import type { Param, Query } from './connection.js'
import type { Narrow } from './fewest.js'
import { decodeAll } from './rows.js'

export const runSources = (query: Query): Omit<RunSources, 'summary'> => ({
  async slice(source, place, size) {
    const found = within(source, place, RUN_ENTRY.map(name => `runs.${name}`).join(), size)
    const way = place.order === 'asc' ? 'ASC' : 'DESC'
    const { rows } = await query(`${found.text} ORDER BY created_at ${way}, run_id ${way} LIMIT ?`, [
      ...found.params,
      size,
    ])
    return decodeAll<RunEntry>(RUN_ENTRY, rows)
  },

  async count(source, place, most) {
    const found = within(source, place, '1', most ?? null)
    const { rows } = await query(`SELECT count(*) FROM (${found.text} LIMIT ?) AS found`, [
      ...found.params,
      most ?? null,
    ])
    return rows[0]![0] as number
  },

  async threadsWith(app, key, most) {
    const { rows } = await query(
      // A thread may have the key and `*`, but no more: to sort the threads of a common key would read all of them.
      `SELECT DISTINCT thread_id FROM (SELECT thread_id FROM weft.thread_keys JOIN weft.threads USING (thread_id)
        WHERE key IN (?, '*') AND app = ? AND NOT temporary LIMIT ?) AS found LIMIT ?`,
      [key, app, 2 * most, most],
    )
    return rows.map(([id]) => id as string)
  },

  async haveKeys(thread_ids, keys) {
    const wheres = keys.map(
      () =>
        "EXISTS (SELECT 1 FROM weft.thread_keys WHERE key IN (?, '*') AND thread_keys.thread_id = one.thread_id OFFSET 0)",
    )
    const { rows } = await query(
      `SELECT one.thread_id FROM unnest(?::text[]) AS one (thread_id) WHERE ${wheres.join(' AND ')}`,
      [thread_ids, ...keys],
    )
    return rows.map(([id]) => id as string)
  },
})

const OF: { readonly [by in RunSource['by']]: string } = {
  app: '',
  temporary: ' AND temporary',
  status: ' AND status = ?',
  graph_id: ' AND graph_id = ?',
  assistant_id: ' AND assistant_id = ?',
  key_id: ' AND key_id = ?',
  thread_id: ' AND runs.thread_id = one.thread_id',
}

/** The runs of a source between the bounds of a place. Those of several threads are taken thread by thread, in order. */
function within({ by, values }: RunSource, place: RunPlace, columns: string, size: number | null): Narrow {
  const { app, from, until, order, after } = place
  const wheres = [`app = ?${OF[by]}`]
  const params: Param[] = [app]
  const only = (where: string, ...more: Param[]) => {
    wheres.push(where)
    params.push(...more)
  }
  if (OF[by].includes('?')) params.push(by === 'graph_id' ? plain(values[0]!) : values[0]!)
  if (from !== undefined) only('created_at >= ?', from)
  if (until !== undefined) only('created_at < ?', until)
  if (after !== undefined)
    only(`(created_at, run_id) ${order === 'asc' ? '>' : '<'} (?, ?)`, after.created_at, after.run_id)
  const runs = `SELECT ${columns} FROM weft.runs WHERE ${wheres.join(' AND ')}`
  if (by !== 'thread_id') return { text: runs, params }
  const way = order === 'asc' ? 'ASC' : 'DESC'
  return {
    text: `SELECT found.* FROM unnest(?::text[]) AS one (thread_id) CROSS JOIN LATERAL (
      ${runs} ORDER BY created_at ${way}, run_id ${way} LIMIT ?) AS found`,
    params: [values, ...params, size],
  }
}
