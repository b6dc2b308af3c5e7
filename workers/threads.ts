/** Threads and their state (API: threads-and-runs 5, 6). */
import { v7 } from 'uuid'
import { door, open } from '../bus/serve.js'
import type { CallHead } from '../schemas/calls.js'
import { fail } from '../schemas/errors.js'
import { isTrue, readNames } from '../schemas/query.js'
import {
  type ThreadCreate,
  type ThreadFilter,
  type ThreadPatch,
  type ThreadSearch,
  validateThreadCreate,
  validateThreadFilter,
  validateThreadPatch,
  validateThreadSearch,
} from '../schemas/threads.js'
import type { Step, Store, ThreadRow, Ttl } from '../store/port.js'
import { EMPTY_STATE, stateText, threadText, ttlText } from './answers.js'
import { appOf } from './apps.js'
import { keysOf } from './contains.js'
import type { Tools } from './context.js'
import { computed, graphOf, refreshed } from './projection.js'
import { patch, removeThread } from './thread-edit.js'
import { count, search } from './thread-search.js'
import { expiryOf, readTtl, ttlFields } from './thread-ttl.js'

export const threads = (tools: Tools) => ({
  create: door<ThreadCreate>(validateThreadCreate, (body, { head }) => create(tools, appOf(head), body)),
  get: open(async (_, { head }) => {
    const more = readNames(new URLSearchParams(head.query), 'include', ['ttl'])
    return shown(tools, await visible(tools.store, appOf(head), idOf(head)), more.length > 0)
  }),
  update: door<ThreadPatch>(validateThreadPatch, async (body, { head }) => {
    const row = await patch(tools, appOf(head), idOf(head), body)
    return head.minimal ? { head: { status: 204, headers: MINIMAL } } : shown(tools, row)
  }),
  delete: open(async (_, { head }) => {
    await removeThread(tools, await visible(tools.store, appOf(head), idOf(head)))
    return { head: { status: 204 } }
  }),
  search: door<ThreadSearch>(validateThreadSearch, (body, { head }) => search(tools, appOf(head), body)),
  count: door<ThreadFilter>(validateThreadFilter, async (body, { head }) => ({
    body: `${await count(tools, appOf(head), body)}`,
  })),
  state: open((_, { head }) => state(tools, appOf(head), idOf(head), new URLSearchParams(head.query))),
})

const MINIMAL = { 'Preference-Applied': 'return=minimal' }
const idOf = ({ params }: CallHead): string => params?.thread_id ?? ''

async function shown(tools: Tools, row: ThreadRow, ttl = false) {
  const { row: fresh, state } = await refreshed(tools, row, await tools.store.threads.state(row.thread_id))
  return { body: threadText(fresh, state, ttl ? ttlText(fresh, expiryOf(fresh)) : '') }
}

/** The thread, unless it is unknown or the hidden one of a stateless run. */
export async function visible(store: Store, app: string, thread_id: string): Promise<ThreadRow> {
  const row = await store.threads.get(app, thread_id.toLowerCase())
  if (row === null || row.temporary) throw fail('not_found', `Thread with ID ${thread_id} not found`)
  return row
}

/** A thread row as it is first written. */
export function newThread(
  app: string,
  thread_id: string,
  metadata: string,
  temporary: boolean,
  ttl: Ttl | null = null,
): ThreadRow {
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
    ...ttlFields(ttl, now),
  }
}

async function create(tools: Tools, app: string, body: ThreadCreate) {
  const { store } = tools
  if (body.supersteps && body.supersteps.length > 0)
    throw fail('invalid', 'supersteps: expected nothing, replaying a history is not available yet')
  const metadata = body.metadata ?? {}
  const ttl = readTtl(body.ttl) ?? (await tools.ttls.of(app))
  const row = newThread(app, (body.thread_id ?? v7()).toLowerCase(), JSON.stringify(metadata), false, ttl)
  const keys = keysOf(metadata)
  const step: Step = keys.length > 0 ? { step: 'threads.insert', row, keys } : { step: 'threads.insert', row }
  if ((await store.apply([step])) === -1) return { body: threadText(row, null) }
  if (body.if_exists !== 'do_nothing') throw fail('conflict', 'Thread already exists')
  const stored = await store.threads.get(app, row.thread_id)
  if (stored === null || stored.temporary) throw fail('conflict', 'Thread already exists')
  return shown(tools, stored)
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
