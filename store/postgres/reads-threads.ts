/**
 * Lists of threads. A page comes from an index in the order of the list; what narrows it further is looked up for each row
 * of a slice of that index, so that no call looks at more than a few thousand rows. If few threads match a condition, the
 * list starts from the condition, not from the sort index.
 *
 * Threads that were never changed are in `threads_unchanged`, the others in an index for each time (schema.ts): a page by time is
 * merged from two.
 */
import { THREAD } from '../columns.js'
import type { Store } from '../port.js'
import type { StateRow, ThreadCursor, ThreadPage, ThreadQuery, ThreadRow } from '../rows/threads.js'
import type { Param, Query } from './connection.js'
import { fewest, type Narrow } from './fewest.js'
import { byId } from './grouped-reads.js'
import { columnName } from './reads.js'
import { decode, decodeAll } from './rows.js'

/** Rows of an index that one call looks at. */
const SLICE = 2_000
/** Rows that are looked at first, for each row of the page: enough for a condition that every seventh thread meets. */
const FIRST = 8
/** A page ends when its rows hold so much text. */
const PAGE_BYTES = 8 * 1024 * 1024

const COLUMNS = THREAD.map(name => `threads.${name}`).join()
const TOUCHED = '(created_at <> updated_at OR created_at <> state_updated_at)'
const FRESH = 'updated_at - created_at = 0 AND state_updated_at - created_at = 0'
const STATUSES = ['busy', 'error', 'idle', 'interrupted'] as const
const STATE = ['latest_checkpoint_id', 'values', 'rest'] as const
const FROM_STATES = 'SELECT thread_id, latest_checkpoint_id, "values", rest FROM weft.states WHERE thread_id'

export function threadReads(query: Query): Store['threads'] {
  const threads = async (text: string, params: Param[]) =>
    decodeAll<ThreadRow>(THREAD, (await query(`SELECT ${COLUMNS} FROM ${text}`, params)).rows)

  const threadOf = byId(query, `SELECT thread_id, ${COLUMNS} FROM weft.threads WHERE thread_id = ANY (?::text[])`)
  const stateOf = byId(query, `${FROM_STATES} = ANY (?::text[])`)

  async function list(wanted: ThreadQuery): Promise<ThreadPage> {
    const { ids, status, keys = [], limit } = wanted
    if (ids !== undefined) return sorted(wanted, 'SELECT unnest(?::text[]) AS thread_id', [ids])
    const isNarrow = status !== undefined || keys.length > 0
    if (!isNarrow) return inOrder(wanted, limit)
    // A condition that many threads meet fills the page soon. To count who meets it would cost more, unless the page is a slice.
    const [some, most] = [Math.min(SLICE, FIRST * limit), Math.max(SLICE, limit)]
    if (some < most) {
      const first = await inOrder(wanted, some)
      if (first.rows.length === limit || first.next === null) return first
    }
    const few = await fewest(query, narrowing(wanted))
    if (few !== null) return sorted(wanted, few.text, few.params)
    return inOrder(wanted, most)
  }

  /** The matching ones of the next `size` threads in the order of the list, until the page is full. */
  async function inOrder(wanted: ThreadQuery, size: number): Promise<ThreadPage> {
    const slice = await sliceOf(wanted, size)
    const where = conditions(wanted)
    const { rows, cut } = await taken(
      `SELECT threads.thread_id, octet_length(metadata) FROM unnest(?::text[]) WITH ORDINALITY AS place (thread_id, n)
        JOIN weft.threads USING (thread_id) WHERE ${where.text} ORDER BY place.n LIMIT ?`,
      [slice.map(({ thread_id }) => thread_id), ...where.params, wanted.limit],
    )
    if (rows.length === wanted.limit || cut) return { rows, next: placeOf(wanted, rows.at(-1)) }
    return { rows, next: slice.length < size ? null : slice.at(-1)! }
  }

  /** The rows with the ids that a query finds, until they hold too much: then the page is cut. */
  async function taken(text: string, params: Param[]): Promise<{ rows: ThreadRow[]; cut: boolean }> {
    const { rows: found } = await query(text, params)
    let held = 0
    const end = found.findIndex(([, size]) => (held += size as number) >= PAGE_BYTES)
    const cut = end >= 0 && end < found.length - 1
    const ids = (cut ? found.slice(0, end + 1) : found).map(([id]) => id as string)
    const rows = await threads(
      `unnest(?::text[]) WITH ORDINALITY AS place (thread_id, n) JOIN weft.threads USING (thread_id) ORDER BY place.n`,
      [ids],
    )
    return { rows, cut }
  }

  /** Where the next threads in the order of the list are. */
  async function sliceOf(wanted: ThreadQuery, limit: number): Promise<ThreadCursor[]> {
    const { app, skip = 0 } = wanted
    const sort = columnName(wanted.sort)
    if (sort === 'status') return byStatus(wanted, limit)
    const after = bound(wanted, sort)
    const way = wanted.order === 'asc' ? 'ASC' : 'DESC'
    if (sort === 'thread_id')
      return places(
        `SELECT thread_id, thread_id FROM weft.threads WHERE app = ? AND NOT temporary ${after.text}
          ORDER BY thread_id ${way} LIMIT ? OFFSET ?`,
        [app, ...after.params, limit, skip],
      )
    const fresh = bound(wanted, 'created_at')
    const from = (column: string, where: string, bound: string) =>
      `(SELECT ${column} AS value, thread_id FROM weft.threads
        WHERE app = ? AND NOT temporary AND ${where} ${bound} ORDER BY ${column} ${way}, thread_id ${way} LIMIT ?)`
    return places(
      `${from(sort, TOUCHED, after.text)} UNION ALL ${from('created_at', FRESH, fresh.text)}
        ORDER BY value ${way}, thread_id ${way} LIMIT ? OFFSET ?`,
      [app, ...after.params, limit + skip, app, ...fresh.params, limit + skip, limit, skip],
    )
  }

  const places = async (text: string, params: Param[]) =>
    (await query(text, params)).rows.map(([value, thread_id]) => ({ value, thread_id }) as ThreadCursor)

  /** One status after the other: the idle ones in the order of their ids, the rest by their index. */
  async function byStatus({ app, order, after, skip = 0 }: ThreadQuery, limit: number): Promise<ThreadCursor[]> {
    const way = order === 'asc' ? 'ASC' : 'DESC'
    const groups = order === 'asc' ? STATUSES : STATUSES.toReversed()
    const found: ThreadCursor[] = []
    let left = skip
    for (const status of groups) {
      if (after !== undefined && (order === 'asc' ? status < after.value : status > after.value)) continue
      const inside = after !== undefined && after.value === status
      const beyond = inside ? `AND thread_id ${order === 'asc' ? '>' : '<'} ?` : ''
      const rows = await places(
        `SELECT status, thread_id FROM weft.threads WHERE app = ? AND NOT temporary AND status = ?
          ${status === 'idle' ? '' : "AND status <> 'idle'"} ${beyond} ORDER BY thread_id ${way} LIMIT ?`,
        [app, status, ...(inside ? [after.thread_id] : []), limit - found.length + left],
      )
      found.push(...rows.slice(left))
      left = Math.max(0, left - rows.length)
      if (found.length === limit) break
    }
    return found
  }

  /** A page of the threads whose ids a query finds. Their rows come first: the planner would else test the keys of all. */
  async function sorted(wanted: ThreadQuery, few: string, params: Param[]): Promise<ThreadPage> {
    const { app, sort, order, limit } = wanted
    const where = conditions(wanted)
    const after = bound(wanted, sort)
    const way = order === 'asc' ? 'ASC' : 'DESC'
    const { rows, cut } = await taken(
      `WITH few AS MATERIALIZED (SELECT DISTINCT thread_id FROM (${few}) AS each) SELECT threads.thread_id, octet_length(metadata)
        FROM few CROSS JOIN LATERAL (SELECT * FROM weft.threads AS all_of WHERE all_of.thread_id = few.thread_id OFFSET 0) AS threads
        WHERE threads.app = ? AND NOT threads.temporary AND ${where.text} ${after.text}
        ORDER BY threads.${columnName(sort)} ${way}, threads.thread_id ${way} LIMIT ?`,
      [...params, app, ...where.params, ...after.params, limit],
    )
    return { rows, next: rows.length === limit || cut ? placeOf(wanted, rows.at(-1)) : null }
  }

  return {
    async get(app, id) {
      const row = decode<ThreadRow>(THREAD, (await threadOf(id))?.slice(1))
      return app === null || row?.app === app ? row : null
    },
    state: async id => decode<StateRow>(STATE, (await stateOf(id))?.slice(1)),
    busy: (before, limit, after) =>
      threads(
        `weft.threads WHERE status = 'busy' AND updated_at < ? AND (updated_at, thread_id) > (?, ?)
          ORDER BY updated_at, thread_id LIMIT ?`,
        [before, after?.updated_at ?? -1, after?.thread_id ?? '', limit],
      ),
    list,

    async count(app, status) {
      const of = async (where: string, ...params: Param[]) => {
        const text = `SELECT count(*) FROM weft.threads WHERE app = ? AND NOT temporary AND ${where}`
        return (await query(text, [app, ...params])).rows[0]![0] as number
      }
      const one = (status: string) => of("status = ? AND status <> 'idle'", status)
      if (status !== undefined && status !== 'idle') return one(status)
      const every = (await of(TOUCHED)) + (await of(FRESH))
      if (status === undefined) return every
      const others = await Promise.all(STATUSES.filter(each => each !== 'idle').map(one))
      return every - others.reduce((sum, count) => sum + count, 0)
    },

    async states(ids, bytes) {
      const { rows: sizes } = await query(
        `SELECT thread_id, coalesce(octet_length("values"), 0) + coalesce(octet_length(rest), 0)
          FROM weft.states WHERE thread_id = ANY (?::text[])`,
        [ids],
      )
      const sizeOf = new Map(sizes as [string, number][])
      let held = 0
      const end = ids.findIndex(id => (held += sizeOf.get(id) ?? 0) >= bytes)
      const some = end === -1 ? ids : ids.slice(0, end + 1)
      const { rows } = await query(`${FROM_STATES} = ANY (?::text[])`, [some])
      const byId = new Map(rows.map(([id, ...state]) => [id, state]))
      return some.map(id => decode<StateRow>(STATE, byId.get(id)))
    },

    expired: (now, limit) => threads('weft.threads WHERE expires_at <= ? ORDER BY expires_at LIMIT ?', [now, limit]),
  }
}

/** For each condition that few threads may meet, the query for their ids. */
function narrowing({ app, status, keys = [] }: ThreadQuery): Narrow[] {
  const ofKeys = keys.map(key => ({
    text: "SELECT thread_id FROM weft.thread_keys WHERE key IN (?, '*')",
    params: [key],
  }))
  if (status === undefined || status === 'idle') return ofKeys
  const ofStatus = {
    text: "SELECT thread_id FROM weft.threads WHERE app = ? AND NOT temporary AND status = ? AND status <> 'idle'",
    params: [app, status],
  }
  return [ofStatus, ...ofKeys]
}

/** Beyond the place where the page before ended. */
function bound({ order, after }: ThreadQuery, column: string): { text: string; params: Param[] } {
  if (after === undefined) return { text: '', params: [] }
  const beyond = order === 'asc' ? '>' : '<'
  if (column === 'thread_id') return { text: `AND threads.thread_id ${beyond} ?`, params: [after.thread_id] }
  return { text: `AND (threads.${column}, threads.thread_id) ${beyond} (?, ?)`, params: [after.value, after.thread_id] }
}

function conditions({ status, keys = [] }: ThreadQuery): { text: string; params: Param[] } {
  const texts = ['true']
  const params: Param[] = []
  if (status !== undefined) {
    texts.push('threads.status = ?')
    params.push(status)
  }
  for (const key of keys) {
    texts.push(
      "EXISTS (SELECT 1 FROM weft.thread_keys AS own WHERE own.key IN (?, '*') AND own.thread_id = threads.thread_id OFFSET 0)",
    )
    params.push(key)
  }
  return { text: texts.join(' AND '), params }
}

const placeOf = ({ sort }: ThreadQuery, row: ThreadRow | undefined): ThreadCursor | null =>
  row === undefined ? null : { value: row[sort], thread_id: row.thread_id }
