/** The queries; each one uses `_id` or an index of collections.ts. */
import type { Filter, FindOptions } from 'mongodb'
import { READY } from '../columns.js'
import type { Store } from '../port.js'
import type { RecordQuery, RecordRow } from '../rows/records.js'
import type { OccupiedSlots, ReadyRun, RunCursor, RunRow, RunSummary, WebhookLog } from '../rows/runs.js'
import { runSearch } from '../run-search.js'
import type { Collections } from './collections.js'
import { type Doc, key, plain } from './documents.js'
import { beyond, type Find, finder, keyed } from './find.js'
import { itemReads } from './items.js'
import { nearestVectors } from './nearest.js'
import { checkpointReads } from './reads-checkpoints.js'
import { runSources } from './reads-run-search.js'
import { threadReads } from './reads-threads.js'
import { finishRemovals } from './removal.js'
import { nameFrom } from './steps.js'

export function reads(all: Collections): Omit<Store, 'apply' | 'ping' | 'bytes' | 'reusable' | 'close'> {
  const find = finder(all)
  return {
    assistants: assistantReads(all, find),
    threads: threadReads(all, find),
    runs: runReads(all, find),
    checkpoints: checkpointReads(all),
    records: recordReads(find),
    items: itemReads(all, find),
    nearest: nearestVectors(all),
  }
}

const assistantReads = (all: Collections, { one, rows }: Find): Store['assistants'] => ({
  get: (app, assistant_id) => one('assistants', key(app, assistant_id)),
  list({ app, graph_id, keys = [], sort, order, after, limit }) {
    const filter: Filter<Doc> = { app }
    const and = keyed('_keys', keys)
    if (graph_id !== undefined) filter.graph_id = plain(graph_id)
    const way = order === 'asc' ? 1 : -1
    if (after !== undefined) {
      const value = typeof after[sort] === 'string' ? plain(after[sort]) : after[sort]
      and.push(beyond(way === 1 ? '$gt' : '$lt', sort, value, 'assistant_id', after.assistant_id))
    }
    if (and.length > 0) filter.$and = and
    return rows('assistants', filter, {
      sort: sort === 'assistant_id' ? { assistant_id: way } : { [sort]: way, assistant_id: way },
      limit,
    })
  },
  count: ({ app, graph_id }) =>
    all.assistants.countDocuments({ app, ...(graph_id === undefined ? {} : { graph_id: plain(graph_id) }) }),
  versions: (app, assistant_id, limit, before = Number.MAX_SAFE_INTEGER) =>
    rows('versions', { app, assistant_id, version: { $lt: before } }, { sort: { version: -1 }, limit }),
  version: (app, assistant_id, version) => one('versions', key(app, assistant_id, version)),
})

function runReads(all: Collections, { one, rows }: Find): Store['runs'] {
  const summaries = (filter: Filter<Doc>, options: FindOptions = {}) =>
    rows<RunSummary>('runs', filter, { ...options, ...SUMMARY })
  const due = (column: string, until: number) => ({ [column]: { $gt: 0, $lte: until } })
  const summary = async (run_ids: readonly string[]) => {
    const found = await Promise.all(run_ids.map(id => one<RunSummary>('runs', id, SUMMARY)))
    return found.filter(run => run !== null)
  }
  return {
    get: run_id => one<RunRow>('runs', run_id, WITHOUT_LOG),
    summary,
    ...runSearch({ ...runSources(all), summary }),
    async webhookLog(run_id) {
      const found = await one<WebhookLog>('runs', run_id, LOG)
      return found && { ...found, webhook_log: found.webhook_log ?? null }
    },
    unsettled: (limit, after) =>
      summaries(
        {
          _open: true,
          $and: [{ $or: [{ status: { $in: ['accepting', 'running'] } }, { due_at: 0 }] }],
          ...place('$gt', after),
        },
        { sort: OLDEST, limit },
      ),
    async counts() {
      const [open, running] = await Promise.all([
        all.runs.countDocuments({ _open: true, created_at: { $gte: 0 } }),
        all.runs.countDocuments({ status: 'running' }),
      ])
      return { pending: Math.max(0, open - running), running }
    },
    async running(limit, after = '') {
      const projection = { attempt: 1, heartbeats: 1 }
      const found = all.runs.find({ status: 'running', _id: { $gt: after } }, { projection, sort: { _id: 1 }, limit })
      return (await found.toArray()).map(({ _id, attempt, heartbeats }) => ({
        run_id: _id as string,
        attempt: attempt as number,
        heartbeats: heartbeats as number,
      }))
    },
    list: ({ thread_id, status, after, skip = 0, limit }) => {
      const of = status === undefined ? { $ne: 'accepting' } : { $in: [...status] }
      return summaries({ thread_id, status: of, ...place('$lt', after) }, { sort: NEWEST, skip, limit })
    },
    active: (app, status, limit, after) =>
      summaries({ _open: true, app, status: { $in: [...status] }, ...place('$gt', after) }, { sort: OLDEST, limit }),
    countOpen: (key_id, most) =>
      all.runs.countDocuments({ key_id: { $eq: key_id, $gt: '' }, _open: true }, { limit: most }),
    /** From pool to pool and from tenant to tenant by the index, however many runs each has. */
    async ready(app, per, tenants) {
      const ready = { app, status: 'pending', ready_at: { $gt: 0 } }
      const names = { pool: 1, tenant: 1 } as const
      const found: ReadyRun[] = []
      let [pool, tenant] = ['', '']
      for (let n = 0; n < tenants; n++) {
        const [next] = [
          ...(await all.runs
            .find({ ...ready, pool, tenant: { $gt: tenant } }, { sort: { tenant: 1 }, limit: 1 })
            .project(names)
            .toArray()),
          ...(await all.runs
            .find({ ...ready, pool: { $gt: pool } }, { sort: names, limit: 1 })
            .project(names)
            .toArray()),
        ]
        if (next === undefined) break
        ;({ pool, tenant } = next as unknown as { pool: string; tenant: string })
        const sort = { priority: 1, created_at: 1, _id: 1 } as const
        found.push(
          ...(await rows<ReadyRun>('runs', { ...ready, pool, tenant }, { sort, limit: per, projection: READY_FIELDS })),
        )
      }
      return found
    },
    async occupied(app) {
      const counts = new Map<string, OccupiedSlots>()
      const fields = { tenant: 1, graph_id: 1, assistant_id: 1, key_id: 1 }
      for (const { tenant, graph_id, assistant_id, key_id } of await rows<OccupiedSlots>(
        'runs',
        { status: 'running', app },
        { projection: fields },
      )) {
        const key = JSON.stringify([tenant, graph_id, assistant_id, key_id])
        const known = counts.get(key)
        if (known) known.count++
        else counts.set(key, { tenant: tenant ?? null, graph_id, assistant_id, key_id, count: 1 })
      }
      return [...counts.values()]
    },
    claimed: (thread_id, from, limit) =>
      summaries({ thread_id, claim_no: { $gte: Math.max(0, from) } }, { sort: { claim_no: 1 }, limit }),
    startsDue: (until, limit) =>
      summaries({ status: 'pending', ...due('due_at', until) }, { sort: { due_at: 1 }, limit }),
    cancelsDue: (until, limit) => summaries(due('cancel_due_at', until), { sort: { cancel_due_at: 1 }, limit }),
    webhooksDue: (until, limit) => summaries(due('webhook_due_at', until), { sort: { webhook_due_at: 1 }, limit }),
    async expired(ended_before, resumable_before, limit) {
      await finishRemovals(all, limit)
      const ended = {
        temporary: true,
        ended_at: { $gt: 0, $lt: ended_before },
        webhook_due_at: null,
        $or: [{ resumable: false }, { ended_at: { $gt: 0, $lt: resumable_before } }],
      }
      const found = await all.runs.find(ended, { projection: { thread_id: 1 }, limit }).toArray()
      return [...new Set(found.map(doc => doc.thread_id as string))]
    },
  }
}

const recordReads = ({ one, rows }: Find): Store['records'] => {
  const records = async (filter: Filter<Doc>, options: FindOptions) =>
    (await rows<RecordRow>('records', filter, options)).map(named)
  return {
    get: async (kind, id) => {
      const row = await one<RecordRow>('records', key(kind, id))
      return row && named(row)
    },
    named: async (kind, app, name) => (await records({ kind, app, name: plain(name) }, {}))[0] ?? null,
    list: query => records(narrowed(query), { sort: sortOf(query), limit: query.limit }),
    due: (kind, now, limit) => records({ kind, due_at: { $gt: 0, $lte: now } }, { sort: { due_at: 1, id: 1 }, limit }),
  }
}

const WITHOUT_LOG: FindOptions = { projection: { webhook_log: 0 } }
const LOG: FindOptions = { projection: { webhook_due_at: 1, webhook_log: 1 } }

/** A run without its payload. */
const READY_FIELDS = Object.fromEntries(READY.map(name => [name, 1]))
const SUMMARY: FindOptions = {
  projection: {
    kwargs: 0,
    result: 0,
    auth_user: 0,
    traceparent: 0,
    webhook_log: 0,
    '_parts.kwargs': 0,
    '_parts.result': 0,
  },
}
const OLDEST = { created_at: 1, _id: 1 } as const
const NEWEST = { created_at: -1, _id: -1 } as const

const place = (way: '$gt' | '$lt', after: RunCursor | undefined): Filter<Doc> =>
  after === undefined ? {} : beyond(way, 'created_at', after.created_at, '_id', after.run_id)

const named = (row: RecordRow): RecordRow => ({ ...row, name: row.name === null ? null : nameFrom(row.name) })

const sortOf = ({ sort = 'created_at', order }: RecordQuery): { [field: string]: 1 | -1 } => {
  const way = order === 'asc' ? 1 : -1
  return sort === 'id' ? { id: way } : { [sort]: way, id: way }
}

function narrowed({ kind, app, parent, keys = [], sort = 'created_at', order, after }: RecordQuery): Filter<Doc> {
  const filter: Filter<Doc> = { kind }
  if (app !== undefined) filter.app = app
  if (parent !== undefined) filter.parent = parent
  const and = keyed('keys', keys)
  if (after !== undefined) and.push(beyond(order === 'asc' ? '$gt' : '$lt', sort, after[sort], 'id', after.id))
  return and.length === 0 ? filter : { ...filter, $and: and }
}
