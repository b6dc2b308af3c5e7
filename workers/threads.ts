/** Threads and their state (API: threads-and-runs 5, 6). */
import { v7 } from 'uuid'
import { door, open } from '../bus/serve.js'
import { fail } from '../schemas/errors.js'
import { BUILT_IN_APP, token } from '../schemas/ids.js'
import { host } from '../schemas/subjects.js'
import { type ThreadCreate, validateThreadCreate } from '../schemas/threads.js'
import type { Store, ThreadRow } from '../store/port.js'
import { EMPTY_STATE, stateText, threadText } from './answers.js'
import { isObject, type Tools } from './context.js'

export const threads = (tools: Tools) => ({
  create: door<ThreadCreate>(validateThreadCreate, body => create(body, tools.store)),
  get: open(async (_, { head }) => {
    const id = head.params?.thread_id ?? ''
    const [row, state] = await Promise.all([visible(tools.store, id), tools.store.threads.state(id)])
    return { body: threadText(row, state) }
  }),
  state: open((_, { head }) => state(tools, head.params?.thread_id ?? '', new URLSearchParams(head.query))),
})

/** The thread, unless it is unknown or the hidden one of a stateless run. */
export async function visible(store: Store, thread_id: string): Promise<ThreadRow> {
  const row = await store.threads.get(BUILT_IN_APP, thread_id.toLowerCase())
  if (row === null || row.temporary) throw fail('not_found', `Thread with ID ${thread_id} not found`)
  return row
}

/** A thread row as it is first written. */
export function newThread(thread_id: string, metadata: string, temporary: boolean): ThreadRow {
  const now = Date.now()
  return {
    app: BUILT_IN_APP,
    thread_id,
    created_at: now,
    updated_at: now,
    state_updated_at: now,
    metadata,
    config: '{}',
    status: 'idle',
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

async function create(body: ThreadCreate, store: Store) {
  if (body.ttl !== undefined && body.ttl !== null) throw fail('invalid', 'ttl: expected nothing, thread expiry is not available yet')
  if (body.supersteps && body.supersteps.length > 0) throw fail('invalid', 'supersteps: expected nothing, replaying a history is not available yet')
  const row = newThread((body.thread_id ?? v7()).toLowerCase(), JSON.stringify(body.metadata ?? {}), false)
  if ((await store.apply([{ step: 'threads.insert', row }])) === -1) return { body: threadText(row, null) }
  if (body.if_exists !== 'do_nothing') throw fail('conflict', 'Thread already exists')
  const [stored, state] = await Promise.all([store.threads.get(BUILT_IN_APP, row.thread_id), store.threads.state(row.thread_id)])
  if (stored === null || stored.temporary) throw fail('conflict', 'Thread already exists')
  return { body: threadText(stored, state) }
}

async function state(tools: Tools, thread_id: string, query: URLSearchParams) {
  const row = await visible(tools.store, thread_id)
  if (row.head === null) return { body: EMPTY_STATE }
  if (!isTrue(query.get('subgraphs'))) {
    const kept = await tools.store.threads.state(row.thread_id)
    if (kept !== null && kept.head === row.head && kept.rest !== null) return { body: stateText(kept.values, kept.rest) }
  }
  const metadata: unknown = JSON.parse(row.metadata)
  const graph_id = isObject(metadata) && typeof metadata.graph_id === 'string' ? metadata.graph_id : null
  if (graph_id === null) return { body: EMPTY_STATE }
  const call = { verb: 'state', graph_id, thread_id: row.thread_id, subgraphs: isTrue(query.get('subgraphs')), config: {} }
  const pool = token<'pool'>('pool', tools.pools.get(graph_id) ?? 'default')
  const answer = await tools.caller.ask(host(pool, 'state'), { request_id: '' }, Buffer.from(JSON.stringify(call)), { timeout: 30_000 })
  return { body: answer.body }
}

/** API: threads-and-runs 1, truthy strings. */
export const isTrue = (text: string | null): boolean => text !== null && ['true', '1', 'yes'].includes(text.toLowerCase())
