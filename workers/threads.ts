/** Threads and their state (API: threads-and-runs 5, 6). */
import { v7 } from 'uuid'
import { door, open } from '../bus/serve.js'
import { fail } from '../schemas/errors.js'
import { token } from '../schemas/ids.js'
import { isTrue } from '../schemas/query.js'
import { host } from '../schemas/subjects.js'
import { type ThreadCreate, validateThreadCreate } from '../schemas/threads.js'
import type { StateRow, Store, ThreadRow } from '../store/port.js'
import { EMPTY_STATE, stateText, threadText } from './answers.js'
import { appOf } from './apps.js'
import { isObject, type Tools } from './context.js'

export const threads = (tools: Tools) => ({
  create: door<ThreadCreate>(validateThreadCreate, (body, { head }) => create(body, appOf(head), tools.store)),
  get: open(async (_, { head }) => {
    const id = head.params?.thread_id ?? ''
    const [row, kept] = await Promise.all([visible(tools.store, appOf(head), id), tools.store.threads.state(id)])
    return { body: threadText(row, await projection(tools, row, kept)) }
  }),
  state: open((_, { head }) =>
    state(tools, appOf(head), head.params?.thread_id ?? '', new URLSearchParams(head.query)),
  ),
})

/** The thread, unless it is unknown or the hidden one of a stateless run. */
export async function visible(store: Store, app: string, thread_id: string): Promise<ThreadRow> {
  const row = await store.threads.get(app, thread_id.toLowerCase())
  if (row === null || row.temporary) throw fail('not_found', `Thread with ID ${thread_id} not found`)
  return row
}

/** A thread row as it is first written. */
export function newThread(app: string, thread_id: string, metadata: string, temporary: boolean): ThreadRow {
  const now = Date.now()
  return {
    app,
    thread_id,
    created_at: now,
    updated_at: now,
    state_updated_at: now,
    metadata,
    config: '{}',
    status: 'idle',
    settled: 'idle',
    interrupts: '{}',
    error: null,
    temporary,
    rev: 0,
    active: null,
    queue: [],
    next_no: 0,
    claim_no: 0,
    head: null,
  }
}

async function create(body: ThreadCreate, app: string, store: Store) {
  if (body.ttl !== undefined && body.ttl !== null)
    throw fail('invalid', 'ttl: expected nothing, thread expiry is not available yet')
  if (body.supersteps && body.supersteps.length > 0)
    throw fail('invalid', 'supersteps: expected nothing, replaying a history is not available yet')
  const row = newThread(app, (body.thread_id ?? v7()).toLowerCase(), JSON.stringify(body.metadata ?? {}), false)
  if ((await store.apply([{ step: 'threads.insert', row }])) === -1) return { body: threadText(row, null) }
  if (body.if_exists !== 'do_nothing') throw fail('conflict', 'Thread already exists')
  const [stored, state] = await Promise.all([store.threads.get(app, row.thread_id), store.threads.state(row.thread_id)])
  if (stored === null || stored.temporary) throw fail('conflict', 'Thread already exists')
  return { body: threadText(stored, state) }
}

async function state(tools: Tools, app: string, thread_id: string, query: URLSearchParams) {
  const row = await visible(tools.store, app, thread_id)
  const subgraphs = isTrue(query.get('subgraphs'))
  if (!subgraphs) {
    const kept = await projection(tools, row, await tools.store.threads.state(row.thread_id))
    return { body: kept?.rest ? stateText(kept.values, kept.rest) : EMPTY_STATE }
  }
  return { body: (row.head === null ? null : await computed(tools, row, true)) ?? EMPTY_STATE }
}

/**
 * The finished state of the thread: what is kept while it is of the thread's head, else a host computes it once (after
 * a rollback, or when the run that made the head never finished). Null when the thread has no checkpoint.
 */
export async function projection(tools: Tools, row: ThreadRow, kept: StateRow | null): Promise<StateRow | null> {
  if (row.head === null) return null
  if (kept !== null && kept.head === row.head && kept.rest !== null) return kept
  // A run is under way: what the last one left is the last known state.
  if (row.active !== null && kept?.values) return kept
  const text = await computed(tools, row, false).catch(error => {
    tools.link.log.warn({ err: error, thread_id: row.thread_id }, 'no host could compute the state of a thread')
    return null
  })
  if (text === null) return kept
  const { values, ...rest } = JSON.parse(Buffer.from(text).toString()) as { values: unknown }
  const state: StateRow = {
    head: row.head,
    values: Buffer.from(JSON.stringify(values)),
    rest: Buffer.from(JSON.stringify(rest).slice(1)),
  }
  if (row.active === null)
    await tools.store.apply([
      { step: 'threads.patch', thread_id: row.thread_id, where: { rev: row.rev }, set: {} },
      { step: 'threads.state', thread_id: row.thread_id, ...state },
    ])
  return state
}

/** The ThreadState of the thread as a host renders it; null when no graph has run on it. */
async function computed({ caller, apps }: Tools, row: ThreadRow, subgraphs: boolean): Promise<Uint8Array | null> {
  const metadata: unknown = JSON.parse(row.metadata)
  const graph_id = isObject(metadata) && typeof metadata.graph_id === 'string' ? metadata.graph_id : null
  if (graph_id === null) return null
  const call = { verb: 'state', graph_id, thread_id: row.thread_id, subgraphs, config: {} }
  const pool = await apps.pool(row.app, graph_id)
  if (pool === null) return null
  return (
    await caller.ask(host(token('pool', pool), 'state'), { request_id: '' }, Buffer.from(JSON.stringify(call)), {
      timeout: 30_000,
    })
  ).body
}
