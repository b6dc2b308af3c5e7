/**
 * The state of threads and its history (docs/spec/threads.md#state-and-history). A host does what needs graph code,
 * and stores nothing: it answers an update completely, and the update is written here under the thread's `rev`.
 */
import { unpackAs } from '../../../bus/decode.js'
import { bytesHandler, jsonHandler } from '../../../bus/serve.js'
import { type Checkpoint, PER_CLAIM } from '../../../schemas/checkpoints.js'
import { fail } from '../../../schemas/errors.js'
import { jsonText } from '../../../schemas/exact.js'
import { type UpdatedHead, validateUpdatedHead } from '../../../schemas/host.js'
import { cutter } from '../../../schemas/packed.js'
import { isTrue, readBoolean, readInteger, readList } from '../../../schemas/query.js'
import {
  type HistoryQuery,
  type StateAt,
  type StateMetadata,
  type StateUpdate,
  type Superstep,
  validateHistoryQuery,
  validateStateAt,
  validateStateMetadata,
  validateStateUpdate,
} from '../../../schemas/threads.js'
import type { Author, ThreadRow } from '../../../store/rows/threads.js'
import type { Step } from '../../../store/steps.js'
import { type Access, accessOf } from '../access.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { requireCheckpoint, rowsOf } from '../rows/checkpoint.js'
import { EMPTY_STATE, stateText } from '../rows/text.js'
import { requireThread, threadIdOf } from '../rows/thread.js'
import { HALF_MADE_MS } from '../rows/thread-ttl.js'
import { askGraph, authorOf, graphIds, isUnavailable } from '../state/ask-graph.js'
import { refreshState, settledOf } from '../state/kept-state.js'
import { selectFields } from '../state/select.js'
import { patch } from './patch.js'

export const stateHandlers = (deps: Deps) => ({
  state: bytesHandler(async (_, { head }) => {
    const row = await requireThread(deps.store, accessOf(head, 'threads:read'), threadIdOf(head))
    const query = new URLSearchParams(head.query)
    const subgraphs = readBoolean(query, 'subgraphs')
    const reduce = selectFields(readList(query, 'select'))
    return { body: reduce(await stateOf(deps, row, { checkpoint_id: head.params?.checkpoint_id ?? null }, subgraphs)) }
  }),
  state_at: jsonHandler<StateAt>(validateStateAt, async ({ checkpoint, subgraphs, select }, { head }) => {
    const row = await requireThread(deps.store, accessOf(head, 'threads:read'), threadIdOf(head))
    const wanted = subgraphs === true || isTrue(`${subgraphs}`)
    const reduce = selectFields(select ?? [])
    return { body: reduce(await stateOf(deps, row, checkpoint, wanted)) }
  }),
  update_state: jsonHandler<StateUpdate>(validateStateUpdate, async (body, { head }) => ({
    body: await update(deps, accessOf(head, 'threads:update'), threadIdOf(head), body),
  })),
  patch_state: jsonHandler<StateMetadata>(validateStateMetadata, async ({ metadata }, { head }) => {
    await patch(deps, accessOf(head, 'threads:update'), threadIdOf(head), { metadata })
    return { head: { status: 204 } }
  }),
  history: bytesHandler(async (_, { head }) => {
    const query = new URLSearchParams(head.query)
    const limit = readInteger(query, 'limit', HISTORY, 1, 1_000)
    const row = await requireThread(deps.store, accessOf(head, 'threads:read'), threadIdOf(head))
    const reduce = selectFields(readList(query, 'select'))
    return { body: reduce(await history(deps, row, { limit, before: query.get('before') })) }
  }),
  search_history: jsonHandler<HistoryQuery>(validateHistoryQuery, async (body, { head }) => {
    const row = await requireThread(deps.store, accessOf(head, 'threads:read'), threadIdOf(head))
    const reduce = selectFields(body.select ?? [])
    return { body: reduce(await history(deps, row, body)) }
  }),
})

/** Default length of a history. */
const HISTORY = 10

const hasGraph = (row: ThreadRow): boolean => row.left_by != null || graphIds(row).graph_id !== undefined

/**
 * The ThreadState at a checkpoint, or the latest of a namespace, as JSON text. The latest state is that of the newest
 * stored checkpoint, also while a run executes: clients decide by its `next` whether they join the run. When no host
 * answers, a stored state of this checkpoint is served, without the states of subgraphs.
 */
export async function stateOf(deps: Deps, row: ThreadRow, checkpoint: Checkpoint, subgraphs: boolean) {
  const { checkpoint_id, checkpoint_ns } = checkpoint
  if (!checkpoint_id && (row.latest_checkpoint_id === null || !hasGraph(row))) return EMPTY_STATE
  if (!checkpoint_id && !checkpoint_ns && !subgraphs) {
    const kept = await deps.store.threads.state(row.thread_id)
    const { state, stale } = await refreshState(deps, row, kept, { newest: true })
    if (state?.rest) return stateText(state.values, state.rest)
    if (stale) throw fail('unavailable', 'No graph host can compute the state of this thread at the moment')
    return EMPTY_STATE
  }
  // The library would answer an empty state for an unknown checkpoint.
  await requireCheckpoint(deps.store, row.thread_id, checkpoint)
  return askGraph(deps, row, { verb: 'state', checkpoint, subgraphs }).catch(async error => {
    const stored = checkpoint_ns || !isUnavailable(error) ? null : await deps.store.threads.state(row.thread_id)
    if (!stored?.rest || stored.latest_checkpoint_id !== (checkpoint_id ?? row.latest_checkpoint_id)) throw error
    deps.link.log.warn({ err: error, thread_id: row.thread_id }, 'no host answered: the stored state is served')
    return stateText(stored.values, stored.rest)
  })
}

/** States of the thread, newest first, as JSON text. */
export async function history(deps: Deps, row: ThreadRow, { limit, before, metadata, checkpoint }: HistoryQuery) {
  if (row.latest_checkpoint_id === null || !hasGraph(row)) return '[]'
  return askGraph(deps, row, {
    verb: 'history',
    limit: limit ?? HISTORY,
    before: typeof before === 'object' ? ((before?.configurable ?? before)?.checkpoint_id ?? null) : (before ?? null),
    metadata: metadata ?? null,
    checkpoint: checkpoint ?? null,
  })
}

/** Tries of an update; it restarts when the thread changed meanwhile. */
const TRIES = 3
/** How long an update waits for the ones before it: a host has 30 s for each. */
const UPDATE_MS = 30_000

async function update(deps: Deps, access: Access, thread_id: string, body: StateUpdate): Promise<string> {
  const { values = null, as_node } = body
  const checkpoint = { checkpoint_id: body.checkpoint_id ?? null, ...body.checkpoint }
  const work = async () => {
    for (let tries = 0; tries < TRIES; tries++) {
      const row = await requireThread(deps.store, access, thread_id)
      if (row.status === 'busy') break
      await requireCheckpoint(deps.store, row.thread_id, checkpoint)
      const supersteps = [{ updates: [{ values, as_node: as_node ?? null }] }]
      const updated = await updateBy(deps, row, supersteps, checkpoint)
      if (await commit(deps, row, updated)) {
        const made = { ...updated.head.checkpoint, thread_id: row.thread_id }
        return jsonText({ checkpoint: made, configurable: made })
      }
    }
    throw fail('conflict', 'Thread is busy with a run: cancel it, or wait for its end')
  }
  return deps.serialize(thread_id.toLowerCase(), work, UPDATE_MS)
}

/** A new thread with the history of the supersteps, stored completely or not at all; null when its id is taken. */
export async function replay(
  deps: Deps,
  row: ThreadRow,
  keys: string[],
  supersteps: Superstep[],
): Promise<ThreadRow | null> {
  const updated = await updateBy(deps, row, supersteps, {}, true)
  const { ttl, expires_at } = row
  // Hidden until it is complete; the sweeper removes an incomplete one.
  const half: ThreadRow = { ...row, temporary: true, ttl: null, expires_at: row.created_at + HALF_MADE_MS }
  const set = { ...fieldsOf(row, updated), temporary: false, ttl, expires_at, updated_at: row.updated_at }
  const failed = await deps.store.apply([
    { step: 'threads.insert', row: half, keys },
    ...savesOf(row, updated),
    { step: 'threads.patch', thread_id: row.thread_id, where: { rev: 0 }, set },
  ])
  return failed === -1 ? { ...half, ...set, rev: 1 } : null
}

interface Updated {
  by: Partial<Author>
  head: UpdatedHead
  values: Uint8Array
  rest: Uint8Array
  saves: Uint8Array[]
}

async function updateBy(
  deps: Deps,
  row: ThreadRow,
  supersteps: { updates: object[] }[],
  checkpoint: Checkpoint,
  replay = false,
): Promise<Updated> {
  const by = await authorOf(deps, row)
  const metadata = { ...by, thread_id: row.thread_id }
  const first_seq = (row.claim_no + 1) * PER_CLAIM
  const answer = await askGraph(deps, row, { verb: 'update', supersteps, checkpoint, first_seq, metadata, replay })
  const { head, rest } = unpackAs(answer, validateUpdatedHead)
  const cut = cutter(rest)
  return {
    by,
    head,
    values: cut(head.values_size),
    rest: cut(head.rest_size),
    saves: head.save_sizes.filter(size => size > 0).map(cut),
  }
}

/**
 * Writes an update; false when the thread has changed since `row`. The first patch takes the numbers of the checkpoints,
 * so that no prefix of the steps leaves two with the same number.
 */
async function commit({ store }: Deps, row: ThreadRow, updated: Updated): Promise<boolean> {
  const { thread_id, rev } = row
  const failed = await store.apply([
    { step: 'threads.patch', thread_id, where: { rev }, set: { claim_no: row.claim_no + 1 } },
    ...savesOf(row, updated),
    { step: 'threads.patch', thread_id, where: { rev: rev + 1 }, set: fieldsOf(row, updated) },
  ])
  return failed === -1
}

function savesOf(
  { thread_id, latest_checkpoint_id: head }: ThreadRow,
  { saves, values, rest, head: made }: Updated,
): Step[] {
  return [
    ...saves.map(
      (body): Step => ({ step: 'checkpoints.insert', thread_id, run_id: null, attempt: 0, ...rowsOf(body) }),
    ),
    { step: 'threads.state', thread_id, latest_checkpoint_id: made.head ?? head, values, rest },
  ]
}

/** The fields of the thread after the update; an update of a subgraph keeps the latest checkpoint. */
function fieldsOf(row: ThreadRow, { by: { graph_id, assistant_id }, head: { head, next, interrupts } }: Updated) {
  const now = clock.now()
  const settled = settledOf(null, { next, interrupts }, row.settled)
  return {
    latest_checkpoint_id: head ?? row.latest_checkpoint_id,
    claim_no: row.claim_no + 1,
    settled,
    status: settled,
    interrupts: jsonText(interrupts),
    ...(graph_id === undefined
      ? {}
      : { left_by: { graph_id, ...(assistant_id === undefined ? {} : { assistant_id }) } }),
    error: null,
    updated_at: now,
    state_updated_at: now,
  }
}
