/**
 * Lists of threads. A page comes from an index in the order of the list; what narrows it further is looked up for each
 * row of a slice of that index, so that no call looks at more than a few thousand rows. A condition that few threads
 * meet is followed the other way round: those few are taken and sorted.
 *
 * Threads that were never changed are in `threads_fresh`, the others in an index for each time (schema.ts): a page by
 * time is merged from two.
 */

import { THREAD } from '../columns.js'
import type { ThreadQuery, ThreadSort } from '../rows/threads.js'
import type { Param, Row } from './database.js'
import { type Ask, columnName, fewest, type Query, type Read } from './query.js'

/** Rows of an index that one call looks at. */
const SLICE = 2_000
/** Rows that are looked at first, for each row of the page: enough for a condition that every seventh thread meets. */
const FIRST = 8
/** A page ends when its rows hold so much text. */
const PAGE_BYTES = 8 * 1024 * 1024

export interface ThreadRows {
  rows: Row[]
  /** `value` and `thread_id` of where the page ended; null at the end of the list. */
  next: Row | null
}

const COLUMNS = THREAD.map(name => `threads.${name}`).join()
const THREAD_ID = THREAD.indexOf('thread_id')
const TOUCHED = '(created_at <> updated_at OR created_at <> state_updated_at)'
const FRESH = 'created_at = updated_at AND created_at = state_updated_at'

export function threadReads(ask: Ask) {
  const { get, all } = ask

  function list(query: ThreadQuery): ThreadRows {
    const { ids, status, keys = [], limit } = query
    if (ids !== undefined) return sorted(query, '(SELECT value AS thread_id FROM json_each(?))', [JSON.stringify(ids)])
    const isNarrow = status !== undefined || keys.length > 0
    if (!isNarrow) return inOrder(query, limit)
    // A condition that many threads meet fills the page soon. To count who meets it would cost more, unless the page is a slice.
    const [some, most] = [Math.min(SLICE, FIRST * limit), Math.max(SLICE, limit)]
    if (some < most) {
      const first = inOrder(query, some)
      if (first.rows.length === limit || first.next === null) return first
    }
    const few = fewest(ask, narrowing(query))
    if (few !== null) return sorted(query, `(${few.sql})`, few.params)
    return inOrder(query, most)
  }

  /** The matching ones among the next `size` threads in the order of the list, until the page is full. */
  function inOrder(query: ThreadQuery, size: number): ThreadRows {
    const slice = sliceOf(query, size)
    const { rows, cut } = page(query, slice)
    if (rows.length === query.limit || cut) return { rows, next: placeOf(query.sort, rows.at(-1)) }
    return { rows, next: slice.length < size ? null : slice.at(-1)!.slice(1) }
  }

  /** The rows of a slice that match, in its order. */
  function page({ status, keys = [], limit }: ThreadQuery, slice: Row[]): Page {
    const where = conditions(status, keys)
    return taken(
      all(
        `SELECT threads.rowid, length(metadata) FROM json_each(?) AS place CROSS JOIN threads ON threads.rowid = place.value
          WHERE ${where.text} ORDER BY place.key LIMIT ?`,
        [JSON.stringify(slice.map(([rowid]) => rowid)), ...where.params, limit],
      ),
    )
  }

  /** The rows with these numbers, until they hold too much: then the page is cut. */
  function taken(found: Row[]): Page {
    let held = 0
    const end = found.findIndex(([, size]) => (held += size as number) >= PAGE_BYTES)
    const cut = end >= 0 && end < found.length - 1
    const numbers = (cut ? found.slice(0, end + 1) : found).map(([rowid]) => rowid)
    const rows = all(
      `SELECT ${COLUMNS} FROM json_each(?) AS place CROSS JOIN threads ON threads.rowid = place.value ORDER BY place.key`,
      [JSON.stringify(numbers)],
    )
    return { rows, cut }
  }

  /** rowid, value and thread_id of the next threads in the order of the list. */
  function sliceOf(query: ThreadQuery, limit: number): Row[] {
    const { app, skip = 0 } = query
    const sort = columnName(query.sort)
    if (sort === 'status') return byStatus(query, limit)
    const after = bound(query, sort)
    const way = query.order === 'asc' ? 'ASC' : 'DESC'
    if (sort === 'thread_id')
      return all(
        `SELECT rowid, thread_id, thread_id FROM threads WHERE app = ? AND temporary = 0 ${after.text}
          ORDER BY thread_id ${way} LIMIT ? OFFSET ?`,
        [app, ...after.params, limit, skip],
      )
    const fresh = bound(query, 'created_at')
    const from = (column: string, where: string, bound: string) =>
      `SELECT * FROM (SELECT rowid, ${column} AS value, thread_id FROM threads
        WHERE app = ? AND temporary = 0 AND ${where} ${bound} ORDER BY ${column} ${way}, thread_id ${way} LIMIT ?)`
    return all(
      `${from(sort, TOUCHED, after.text)} UNION ALL ${from('created_at', FRESH, fresh.text)}
        ORDER BY value ${way}, thread_id ${way} LIMIT ? OFFSET ?`,
      [app, ...after.params, limit + skip, app, ...fresh.params, limit + skip, limit, skip],
    )
  }

  /** One status after the other: the idle ones in the order of the table itself, the rest by their index. */
  function byStatus({ app, order, after, skip = 0 }: ThreadQuery, limit: number): Row[] {
    const way = order === 'asc' ? 'ASC' : 'DESC'
    const groups = order === 'asc' ? STATUSES : STATUSES.toReversed()
    const found: Row[] = []
    let left = skip
    for (const status of groups) {
      if (after !== undefined && (order === 'asc' ? status < after.value : status > after.value)) continue
      const inside = after !== undefined && after.value === status
      const beyond = inside ? `AND thread_id ${order === 'asc' ? '>' : '<'} ?` : ''
      const rows = all(
        `SELECT rowid, status, thread_id FROM threads WHERE app = ? AND temporary = 0 AND status = ?
          ${status === 'idle' ? '' : "AND status <> 'idle'"} ${beyond} ORDER BY thread_id ${way} LIMIT ?`,
        [app, status, ...(inside ? [after.thread_id] : []), limit - found.length + left],
      )
      found.push(...rows.slice(left))
      left = Math.max(0, left - rows.length)
      if (found.length === limit) break
    }
    return found
  }

  /** For each condition that few threads may meet, the query for their ids. */
  function narrowing({ app, status, keys = [] }: ThreadQuery): Query[] {
    const ofKeys = keys.map(key => ({
      sql: "SELECT DISTINCT thread_id FROM thread_keys WHERE key IN (?, '*')",
      params: [key],
    }))
    if (status === undefined || status === 'idle') return ofKeys
    const ofStatus = {
      sql: "SELECT thread_id FROM threads WHERE app = ? AND temporary = 0 AND status = ? AND status <> 'idle'",
      params: [app, status],
    }
    return [ofStatus, ...ofKeys]
  }

  /** A page of the threads of a table of ids. */
  function sorted(query: ThreadQuery, from: string, ids: Param[]): ThreadRows {
    const { app, status, keys = [], sort, order, limit } = query
    const where = conditions(status, keys)
    const after = bound(query, sort)
    const way = order === 'asc' ? 'ASC' : 'DESC'
    const { rows, cut } = taken(
      all(
        `SELECT threads.rowid, length(metadata) FROM ${from} AS found CROSS JOIN threads USING (thread_id)
          WHERE threads.app = ? AND threads.temporary = 0 AND ${where.text} ${after.text}
          GROUP BY threads.rowid ORDER BY threads.${columnName(sort)} ${way}, threads.thread_id ${way} LIMIT ?`,
        [...ids, app, ...where.params, ...after.params, limit],
      ),
    )
    return { rows, next: rows.length === limit || cut ? placeOf(sort, rows.at(-1)) : null }
  }

  return {
    'threads.list': (_, query: ThreadQuery) => list(query),

    'threads.count': (_, app: string, status: string | null) => {
      const of = (where: string, ...params: Param[]) =>
        (
          get(`SELECT count(*) FROM threads WHERE app = ? AND temporary = 0 AND ${where}`, [app, ...params]) as [number]
        )[0]
      const busy = (status: string) => of("status = ? AND status <> 'idle'", status)
      if (status !== null && status !== 'idle') return busy(status)
      const every = of(TOUCHED) + of(FRESH)
      return status === null
        ? every
        : every - STATUSES.filter(one => one !== 'idle').reduce((sum, one) => sum + busy(one), 0)
    },

    'threads.expired': (_, now: number, limit: number) =>
      all(`SELECT ${COLUMNS} FROM threads WHERE expires_at <= ? ORDER BY expires_at LIMIT ?`, [now, limit]),

    'threads.states': (transfer, ids: readonly string[], bytes: number) => {
      const states: (Row | null)[] = []
      let held = 0
      for (const id of ids) {
        const row = get('SELECT latest_checkpoint_id, "values", rest FROM states WHERE thread_id = ?', [id])
        states.push(row ?? null)
        for (const value of row ?? []) {
          if (!(value instanceof Uint8Array)) continue
          held += value.length
          if (value.length >= 65_536 && value.length === value.buffer.byteLength)
            transfer.push(value.buffer as ArrayBuffer)
        }
        if (held >= bytes) break
      }
      return states
    },
  } satisfies { [name: string]: Read }
}

const STATUSES = ['busy', 'error', 'idle', 'interrupted'] as const

/** Beyond the place where the page before ended. */
function bound({ order, after }: ThreadQuery, column: string): { text: string; params: Param[] } {
  if (after === undefined) return { text: '', params: [] }
  const beyond = order === 'asc' ? '>' : '<'
  if (column === 'thread_id') return { text: `AND threads.thread_id ${beyond} ?`, params: [after.thread_id] }
  return { text: `AND (threads.${column}, threads.thread_id) ${beyond} (?, ?)`, params: [after.value, after.thread_id] }
}

function conditions(status: string | undefined, keys: readonly string[]): { text: string; params: Param[] } {
  const texts = ['1']
  const params: Param[] = []
  if (status !== undefined) {
    texts.push('threads.status = ?')
    params.push(status)
  }
  for (const key of keys) {
    texts.push("EXISTS (SELECT 1 FROM thread_keys WHERE key IN (?, '*') AND thread_keys.thread_id = threads.thread_id)")
    params.push(key)
  }
  return { text: texts.join(' AND '), params }
}

const placeOf = (sort: ThreadSort, row: Row | undefined): Row | null =>
  row === undefined ? null : [row[THREAD.indexOf(sort)]!, row[THREAD_ID]!]

interface Page {
  rows: Row[]
  cut: boolean
}
