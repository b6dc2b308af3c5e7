/** Threads and their state (API: threads-and-runs 5, 6). */
import { v7 } from 'uuid'
import { door, open } from '../bus/serve.js'
import { fail } from '../schemas/errors.js'
import { isTrue } from '../schemas/query.js'
import { type ThreadCreate, validateThreadCreate } from '../schemas/threads.js'
import type { Store, ThreadRow } from '../store/port.js'
import { EMPTY_STATE, stateText, threadText } from './answers.js'
import { appOf } from './apps.js'
import type { Tools } from './context.js'
import { computed, graphOf, refreshed } from './projection.js'

export const threads = (tools: Tools) => ({
  create: door<ThreadCreate>(validateThreadCreate, (body, { head }) => create(body, appOf(head), tools.store)),
  get: open(async (_, { head }) => {
    const id = head.params?.thread_id ?? ''
    const [row, kept] = await Promise.all([visible(tools.store, appOf(head), id), tools.store.threads.state(id)])
    const { row: fresh, state } = await refreshed(tools, row, kept)
    return { body: threadText(fresh, state) }
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
    ttl: null,
    expires_at: null,
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
    const { state, stale } = await refreshed(tools, row, await tools.store.threads.state(row.thread_id))
    if (stale) throw fail('unavailable', 'No graph host can tell the state of this thread at the moment')
    return { body: state?.rest ? stateText(state.values, state.rest) : EMPTY_STATE }
  }
  const graph_id = row.head === null ? null : graphOf(row)
  if (graph_id === null) return { body: EMPTY_STATE }
  return { body: await computed(tools, { app, thread_id: row.thread_id, graph_id, subgraphs: true }) }
}
