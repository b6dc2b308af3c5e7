/** The queries of assistants, runs and records; all of them go through an index. */
import { ASSISTANT, ASSISTANT_VERSION, PAYLOAD, plain, READY, RECORD, RUN } from '../columns.js'
import type { Store } from '../port.js'
import type { AssistantQuery, AssistantRow, AssistantVersionRow } from '../rows/assistants.js'
import type { RecordRow } from '../rows/records.js'
import type { OccupiedSlots, ReadyRun, RunRow, RunSummary, WebhookLog } from '../rows/runs.js'
import { runSearch } from '../run-search.js'
import type { Param, Query } from './connection.js'
import { fewest } from './fewest.js'
import { byId, byKeys } from './grouped-reads.js'
import { runSources } from './reads-run-search.js'
import { decode, decodeAll, encode } from './rows.js'

const OCCUPIED = ['tenant', 'graph_id', 'assistant_id', 'key_id', 'count'] as const
const OPEN = "status IN ('accepting', 'pending', 'running')"
/** Open runs without those that wait for their time: the condition of its index. */
const DUE_NOW = "(status IN ('accepting', 'running') OR status = 'pending' AND due_at = 0)"
/** A column that is written into the text of a query. Its type says which; this refuses what came from a client unchecked. */
export function columnName<T extends string>(name: T): T {
  if (!/^[a-z_]+$/.test(name)) throw new Error(`${JSON.stringify(name)} is no column`)
  return name
}

const FROM_ASSISTANTS = `SELECT ${ASSISTANT.map(name => `assistants.${name}`)} FROM`

export function assistantReads(query: Query): Store['assistants'] {
  const assistants = async (text: string, params: Param[]) =>
    decodeAll<AssistantRow>(ASSISTANT, (await query(text, params)).rows)
  // Its first columns are the keys.
  const byIds = byKeys(
    query,
    `SELECT ${ASSISTANT} FROM weft.assistants WHERE (app, assistant_id) IN (SELECT * FROM unnest(?::text[], ?::text[]))`,
    2,
  )

  return {
    get: async (app, id) => decode(ASSISTANT, (await byIds([[app, id]]))[0]),

    async list({ app, graph_id, keys = [], sort, order, after, limit }: AssistantQuery) {
      const [way, beyond] = order === 'asc' ? ['ASC', '>'] : ['DESC', '<']
      const by = sort === 'assistant_id' ? [sort] : [columnName(sort), 'assistant_id']
      const wheres = ['assistants.app = ?']
      const params: Param[] = [app]
      const few = await fewest(
        query,
        keys.map(key => ({
          text: "SELECT assistant_id FROM weft.assistant_keys WHERE app = ? AND key IN (?, '*')",
          params: [app, key],
        })),
      )
      for (const key of keys) {
        wheres.push(`EXISTS (SELECT 1 FROM weft.assistant_keys AS own WHERE own.app = assistants.app
          AND own.key IN (?, '*') AND own.assistant_id = assistants.assistant_id OFFSET 0)`)
        params.push(key)
      }
      if (graph_id !== undefined) {
        wheres.push('graph_id = ?')
        params.push(plain(graph_id))
      }
      if (after !== undefined) {
        wheres.push(`(${by.map(column => `assistants.${column}`)}) ${beyond} (${by.map(() => '?')})`)
        params.push(...by.map(column => encode(column, after[column as typeof sort])))
      }
      // The rows of the few are found first: the planner would else test the keys of all rows.
      const [first, from, more] =
        few === null
          ? ['', 'weft.assistants', []]
          : [
              `WITH few AS MATERIALIZED (SELECT DISTINCT assistant_id FROM (${few.text}) AS each)`,
              `few CROSS JOIN LATERAL (SELECT * FROM weft.assistants AS all_of
                WHERE all_of.app = ? AND all_of.assistant_id = few.assistant_id OFFSET 0) AS assistants`,
              [...few.params, app],
            ]
      return assistants(
        `${first} ${FROM_ASSISTANTS} ${from} WHERE ${wheres.join(' AND ')}
          ORDER BY ${by.map(column => `assistants.${column} ${way}`)} LIMIT ?`,
        [...more, ...params, limit],
      )
    },

    async count({ app, graph_id }) {
      const { rows } =
        graph_id === undefined
          ? await query('SELECT count(*) FROM weft.assistants WHERE app = ?', [app])
          : await query('SELECT count(*) FROM weft.assistants WHERE app = ? AND graph_id = ?', [app, plain(graph_id)])
      return rows[0]![0] as number
    },

    async versions(app, id, limit, before = 2 ** 31 - 1) {
      const { rows } = await query(
        `SELECT ${ASSISTANT_VERSION} FROM weft.assistant_versions WHERE app = ? AND assistant_id = ? AND version < ?
          ORDER BY version DESC LIMIT ?`,
        [app, id, before, limit],
      )
      return decodeAll<AssistantVersionRow>(ASSISTANT_VERSION, rows)
    },

    async version(app, id, version) {
      const { rows } = await query(
        `SELECT ${ASSISTANT_VERSION} FROM weft.assistant_versions WHERE app = ? AND assistant_id = ? AND version = ?`,
        [app, id, version],
      )
      return decode(ASSISTANT_VERSION, rows[0])
    },
  }
}

export function runReads(query: Query): Store['runs'] {
  const summaries = async (where: string, params: Param[]) =>
    decodeAll<RunSummary>(RUN, (await query(`SELECT ${RUN} FROM weft.runs WHERE ${where}`, params)).rows)

  const runOf = byId(
    query,
    `SELECT run_id, ${RUN.map(name => `runs.${name}`)}, ${PAYLOAD} FROM weft.runs JOIN weft.payloads USING (run_id)
      WHERE run_id = ANY (?::text[])`,
  )
  const summaryOf = byId(query, `SELECT run_id, ${RUN} FROM weft.runs WHERE run_id = ANY (?::text[])`)
  const summary = async (ids: readonly string[]) => {
    const rows = await Promise.all(ids.map(summaryOf))
    return rows.flatMap(row => decode<RunSummary>(RUN, row?.slice(1)) ?? [])
  }

  return {
    get: async id => decode<RunRow>([...RUN, ...PAYLOAD], (await runOf(id))?.slice(1)),

    summary,
    ...runSearch({ ...runSources(query), summary }),

    async webhookLog(id) {
      const { rows } = await query('SELECT webhook_due_at, webhook_log FROM weft.runs WHERE run_id = ?', [id])
      return decode<WebhookLog>(['webhook_due_at', 'webhook_log'], rows[0])
    },

    unsettled: (limit, after) =>
      summaries(`${DUE_NOW} AND (created_at, run_id) > (?, ?) ORDER BY created_at, run_id LIMIT ?`, [
        after?.created_at ?? -1,
        after?.run_id ?? '',
        limit,
      ]),

    async counts() {
      const { rows } = await query(
        `SELECT (SELECT count(*) FROM weft.runs WHERE ${DUE_NOW}),
          (SELECT count(*) FROM weft.runs WHERE status = 'pending' AND due_at > 0),
          (SELECT count(*) FROM weft.runs WHERE status = 'running')`,
      )
      const [now, later, running] = rows[0] as [number, number, number]
      return { pending: now + later - running, running }
    },

    async running(limit, after = '') {
      const { rows } = await query(
        "SELECT run_id, attempt, heartbeats FROM weft.runs WHERE status = 'running' AND run_id > ? ORDER BY run_id LIMIT ?",
        [after, limit],
      )
      return (rows as [string, number, number][]).map(([run_id, attempt, heartbeats]) => ({
        run_id,
        attempt,
        heartbeats,
      }))
    },

    list({ thread_id, status, after, skip = 0, limit }) {
      const wheres = ['thread_id = ?', "status <> 'accepting'"]
      const params: Param[] = [thread_id]
      if (status !== undefined) {
        wheres.push('status = ANY (?::text[])')
        params.push(status)
      }
      if (after !== undefined) {
        wheres.push('(created_at, run_id) < (?, ?)')
        params.push(after.created_at, after.run_id)
      }
      return summaries(`${wheres.join(' AND ')} ORDER BY created_at DESC, run_id DESC LIMIT ? OFFSET ?`, [
        ...params,
        limit,
        skip,
      ])
    },

    /** The next of each status, by its index, in their common order. */
    async active(app, status, limit, after) {
      const each = `(SELECT ${RUN} FROM weft.runs WHERE app = ? AND status = ? AND (created_at, run_id) > (?, ?)
        ORDER BY created_at, run_id LIMIT ?)`
      const { rows } = await query(
        `SELECT * FROM (${status.map(() => each).join(' UNION ALL ')}) AS found ORDER BY created_at, run_id LIMIT ?`,
        [...status.flatMap(one => [app, one, after?.created_at ?? 0, after?.run_id ?? '', limit]), limit],
      )
      return decodeAll<RunSummary>(RUN, rows)
    },

    async countOpen(key_id, most) {
      const { rows } = await query(
        `SELECT count(*) FROM (SELECT 1 FROM weft.runs WHERE key_id = ? AND key_id IS NOT NULL AND ${OPEN} LIMIT ?) AS found`,
        [key_id, most],
      )
      return rows[0]![0] as number
    },

    /** From pool to pool and from tenant to tenant by the index, however many runs each has. */
    async ready(app, per, tenants) {
      const ready = "FROM weft.runs WHERE app = ? AND status = 'pending' AND ready_at IS NOT NULL"
      const { rows } = await query(
        `WITH RECURSIVE found (pool, tenant, n) AS (
          SELECT ''::text COLLATE "C", ''::text COLLATE "C", 0
          UNION ALL
          SELECT next.pool, next.tenant, n + 1 FROM found CROSS JOIN LATERAL (
            SELECT pool, tenant ${ready} AND (pool, tenant) > (found.pool, found.tenant)
              ORDER BY pool, tenant LIMIT 1) AS next
          WHERE n < ?)
        SELECT ${READY.map(name => `run.${name}`)} FROM found CROSS JOIN LATERAL (
          SELECT ${READY} ${ready} AND pool = found.pool AND tenant = found.tenant
            ORDER BY priority, created_at, run_id LIMIT ?) AS run
        WHERE n > 0 ORDER BY run.pool, run.tenant, run.priority, run.created_at, run.run_id`,
        [app, tenants, app, per],
      )
      return decodeAll<ReadyRun>(READY, rows)
    },

    async occupied(app) {
      const { rows } = await query(
        `SELECT tenant, graph_id, assistant_id, key_id, count(*) FROM weft.runs WHERE status = 'running' AND app = ?
          GROUP BY 1, 2, 3, 4`,
        [app],
      )
      return decodeAll<OccupiedSlots>(OCCUPIED, rows)
    },

    claimed: (thread_id, from, limit) =>
      summaries('thread_id = ? AND claim_no >= ? ORDER BY claim_no LIMIT ?', [thread_id, from, limit]),
    startsDue: (until, limit) =>
      summaries("status = 'pending' AND due_at > 0 AND due_at <= ? ORDER BY due_at LIMIT ?", [until, limit]),
    cancelsDue: (until, limit) => summaries('cancel_due_at <= ? ORDER BY cancel_due_at LIMIT ?', [until, limit]),
    webhooksDue: (until, limit) => summaries('webhook_due_at <= ? ORDER BY webhook_due_at LIMIT ?', [until, limit]),

    async expired(before, resumable, limit) {
      const { rows } = await query(
        `SELECT DISTINCT thread_id FROM (SELECT thread_id FROM weft.runs WHERE temporary AND ended_at < ?
          AND (NOT resumable OR ended_at < ?) AND webhook_due_at IS NULL ORDER BY ended_at LIMIT ?) AS found`,
        [before, resumable, limit],
      )
      return rows.map(([thread_id]) => thread_id as string)
    },
  }
}

export function recordReads(query: Query): Store['records'] {
  const records = async (text: string, params: Param[]) =>
    decodeAll<RecordRow>(RECORD, (await query(`SELECT ${RECORD} FROM weft.records WHERE ${text}`, params)).rows)

  return {
    get: async (kind, id) => (await records('kind = ? AND id = ?', [kind, id]))[0] ?? null,
    named: async (kind, app, name) =>
      (await records('kind = ? AND app = ? AND name = ?', [kind, app, plain(name)]))[0] ?? null,

    list({ kind, app, parent, keys = [], sort = 'created_at', order, after, limit }) {
      const wheres = ['kind = ?']
      const params: Param[] = [kind]
      const only = (where: string, ...values: Param[]) => {
        wheres.push(where)
        params.push(...values)
      }
      if (app !== undefined) only('app = ?', app)
      if (parent !== undefined) only('parent = ?', parent)
      for (const key of keys)
        only("EXISTS (SELECT 1 FROM json_array_elements_text(keys::json) AS own WHERE own IN (?, '*'))", key)
      const [way, beyond] = order === 'asc' ? ['ASC', '>'] : ['DESC', '<']
      const by = sort === 'id' ? ['id'] : [columnName(sort), 'id']
      if (after !== undefined)
        only(`(${by}) ${beyond} (${by.map(() => '?')})`, ...by.map(column => after[column as typeof sort]))
      return records(`${wheres.join(' AND ')} ORDER BY ${by.map(column => `${column} ${way}`)} LIMIT ?`, [
        ...params,
        limit,
      ])
    },

    due: (kind, now, limit) => records('kind = ? AND due_at <= ? ORDER BY due_at, id LIMIT ?', [kind, now, limit]),
  }
}
