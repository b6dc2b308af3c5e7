/** Runs for clients: create, read, join, wait (docs/spec/runs.md#routes). */
import { decodeAs } from '../../../bus/decode.js'
import { bytesHandler, jsonHandler } from '../../../bus/serve.js'
import type { AuthEvent } from '../../../schemas/auth/auth.js'
import {
  type CallHead,
  type Disconnect,
  type RunIds,
  validateDisconnect,
  validateRunIds,
} from '../../../schemas/calls.js'
import { fail } from '../../../schemas/errors.js'
import { jsonText, parseJson } from '../../../schemas/exact.js'
import { cancelsByLeaving } from '../../../schemas/query.js'
import {
  isTerminal,
  type RunBatch,
  type RunCreate,
  type RunFilter,
  type RunKwargs,
  type RunSearch,
  type RunsCancel,
  type StreamMode,
  validateRunBatch,
  validateRunCreate,
  validateRunFilter,
  validateRunSearch,
  validateRunsCancel,
} from '../../../schemas/runs.js'
import type { RunRow, RunSummary } from '../../../store/rows/runs.js'
import { accessOf, seesThread } from '../access.js'
import { appOf } from '../apps.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { resultText, runText } from '../rows/text.js'
import { createBatch } from './batch.js'
import { actionOf, cancel, ignoreEnded, REASONS, reasonOf } from './cancel.js'
import { cancelMany } from './cancel-many.js'
import { create } from './create.js'
import { keyOf } from './idempotency.js'
import { list } from './list.js'
import { targetOf } from './prepare.js'
import { remove } from './remove.js'
import { count, search } from './search.js'
import { spansOf } from './spans.js'
import { executionOf, headOf } from './view.js'
import { waitOf } from './waits.js'
import { deliveries, repeat } from './webhook-repeat.js'

export const runs = (deps: Deps) => ({
  // Takes the bytes, because an Idempotency-Key is bound to exactly them.
  create: bytesHandler((bytes, { head }) =>
    create(deps, decodeAs<RunCreate>(bytes, validateRunCreate), targetOf(head), { key: keyOf(head, bytes) }),
  ),
  batch: bytesHandler((bytes, { head }) =>
    createBatch(
      deps,
      decodeAs<RunBatch>(bytes, validateRunBatch),
      { ...targetOf(head), mode: 'background', brings: {} },
      keyOf(head, bytes),
    ),
  ),
  list: bytesHandler((_, context) => list(deps, context)),
  search: jsonHandler<RunSearch>(validateRunSearch, (body, { head }) =>
    search(deps, accessOf(head, 'threads:search'), body),
  ),
  count: jsonHandler<RunFilter>(validateRunFilter, async (body, { head }) => ({
    body: `${await count(deps, accessOf(head, 'threads:search'), body)}`,
  })),
  delete: bytesHandler(async (_, context) =>
    remove(deps, await summary(deps, context.head, 'threads:delete'), context),
  ),
  cancel_many: jsonHandler<RunsCancel>(validateRunsCancel, (body, context) => cancelMany(deps, body, context)),
  get: bytesHandler(async (_, { head }) => {
    const row = await deps.store.runs.get(head.params?.run_id?.toLowerCase() ?? '')
    await requireRun(deps, row, head, 'threads:read')
    if (row!.temporary && isTerminal(row!.status)) throw fail('not_found', 'Run not found')
    return { body: runText(row!) }
  }),
  execution: bytesHandler(async (_, { head }) => {
    const row = await deps.store.runs.get(head.params?.run_id?.toLowerCase() ?? '')
    await requireRun(deps, row, head, 'threads:read')
    const access = accessOf(head, 'threads:read')
    return { body: jsonText(executionOf(row!, access, await waitOf(deps, row!, access))) }
  }),
  /** Authorises a reader and answers where it may start. A reader clears a cancel that waits for its grace. */
  join: bytesHandler(async (_, { head }) => {
    const found = await summary(deps, head, 'threads:read')
    if (cancelsByLeaving(new URLSearchParams(head.query))) await requireRun(deps, found, head, 'threads:update')
    const { temporary, resumable, ended_at } = found
    const over = (ended_at ?? 0) < clock.now() - deps.config.keep_ended_ms
    if (isTerminal(found.status) && temporary && !resumable && over) throw fail('not_found', 'Run not found')
    const row = await rejoin(deps, found, head)
    // Without a body the edge requests the result separately.
    const body = head.run?.mode === 'wait' && isTerminal(row.status) ? await result(deps, row) : null
    // Only a reader with a filter needs the modes.
    const filters = head.query?.includes('stream_mode') ?? false
    const modes = filters ? await modesOf(deps, row.run_id) : []
    return {
      head: { run: headOf(row, head.params?.thread_id === undefined, modes) },
      ...(body === null ? {} : { body }),
    }
  }),
  /** Durable when it answers; the run stops soon after. With `wait` the edge waits for the end. */
  cancel: bytesHandler(async (_, { head }) => {
    const row = await summary(deps, head, 'threads:update')
    const action = actionOf(head)
    await cancel(deps, row.run_id, action, reasonOf(head, action))
    return { head: { status: 202, run: headOf(row, false) } }
  }),
  /** The answer of wait for an ended run. */
  result: bytesHandler(async (_, { head }) => {
    const [row] = await deps.store.runs.summary([head.params?.run_id ?? ''])
    if (row === undefined) throw fail('not_found', 'Run not found')
    if (!isTerminal(row.status)) throw fail('conflict', 'The run has not ended')
    const body = await result(deps, row)
    if (body === null) throw fail('unavailable', 'The end of the run is being written; ask again')
    return { body }
  }),
  spans: bytesHandler(async (_, { head }) => ({
    body: jsonText(await spansOf(deps, await summary(deps, head, 'threads:read'))),
  })),
  webhook: bytesHandler(async (_, { head }) => ({
    body: jsonText(await deliveries(deps, await summary(deps, head, 'threads:read'))),
  })),
  repeat_webhook: bytesHandler(async (_, { head }) => ({
    head: { status: 202 },
    body: jsonText(await repeat(deps, await summary(deps, head, 'threads:update'))),
  })),
  /** The state of many runs in one call: an edge learns so of ends whose message was lost. */
  peek: jsonHandler<RunIds>(validateRunIds, async ({ run_ids }) => {
    const rows = await deps.store.runs.summary(run_ids)
    return {
      body: jsonText({
        runs: rows.map(({ run_id, status, attempt, pool, last_event_id, resumable_until_id }) => ({
          run_id,
          status: status === 'accepting' ? 'pending' : status,
          attempt,
          pool,
          last_event_id,
          resumable_until_id,
        })),
      }),
    }
  }),
  /** A client disconnected. If that cancels the run: at once, or after the grace when the client may come back. */
  disconnect: jsonHandler<Disconnect>(validateDisconnect, async ({ run_id, reader = false, joined_at = null }) => {
    const [row] = await deps.store.runs.summary([run_id])
    if (row === undefined || isTerminal(row.status) || (!reader && row.on_disconnect !== 'cancel')) return {}
    if (!row.resumable) {
      await cancel(deps, run_id, 'interrupt', REASONS.disconnect).catch(ignoreEnded)
      return {}
    }
    const now = clock.now()
    const grace = deps.config.disconnect_grace_ms
    // A client that reconnects at once often arrives before the end of its old connection is reported.
    if (row.joined_at !== null && row.joined_at !== joined_at && row.joined_at > now - grace) return {}
    // A client may come back meanwhile: then the patch fails.
    const where = { status: ACTIVE, joined_at: row.joined_at }
    const failed = await deps.store.apply([{ step: 'runs.patch', run_id, where, set: { cancel_due_at: now + grace } }])
    if (failed === -1) deps.alarms.set(now + grace)
    return {}
  }),
})

const ACTIVE = ['pending', 'running'] as const

/** Revokes the cancel that the end of an earlier connection caused, or will cause when it is reported late. */
async function rejoin({ store }: Deps, row: RunSummary, { query, run }: CallHead): Promise<RunSummary> {
  const cancels = row.on_disconnect === 'cancel' || cancelsByLeaving(new URLSearchParams(query))
  if (isTerminal(row.status) || !row.resumable || (!cancels && row.cancel_due_at === null)) return row
  const set = {
    joined_at: clock.now(),
    cancel_due_at: null,
    // It resumes its old connection: from now on this one decides, by its cancel_on_disconnect.
    ...(run?.resumes ? { on_disconnect: 'continue' as const } : {}),
  }
  await store.apply([{ step: 'runs.patch', run_id: row.run_id, where: { status: ACTIVE }, set }])
  return { ...row, ...set }
}

async function modesOf({ store }: Deps, run_id: string): Promise<StreamMode[]> {
  const run = await store.runs.get(run_id)
  return run === null ? [] : (parseJson(run.kwargs) as RunKwargs).stream_mode
}

async function summary(deps: Deps, head: CallHead, event: AuthEvent): Promise<RunSummary> {
  const [row] = await deps.store.runs.summary([head.params?.run_id?.toLowerCase() ?? ''])
  await requireRun(deps, row ?? null, head, event)
  return row!
}

/** Throws not_found unless the run is that of the path, in its application, on a visible thread. */
async function requireRun({ store }: Deps, row: RunSummary | null, head: CallHead, event: AuthEvent): Promise<void> {
  const thread_id = head.params?.thread_id
  if (
    row === null ||
    row.app !== appOf(head) ||
    row.status === 'accepting' ||
    (thread_id !== undefined && row.thread_id !== thread_id.toLowerCase()) ||
    !(await seesThread(store, accessOf(head, event), row.thread_id))
  )
    throw fail('not_found', 'Run not found')
}

/**
 * docs/spec/runs.md#wait-and-join. A temporary run stores its result, as do a run of an entrypoint that stopped at an
 * interrupt, one of a graph with a schema for its output, and one with URLs for feedback; other runs are answered from their thread. Null while the thread still holds the run: a store without transactions shows the end of a run before its final state.
 */
async function result({ store }: Deps, row: RunSummary): Promise<string | Uint8Array | null> {
  if (row.temporary) {
    const whole: RunRow | null = await store.runs.get(row.run_id)
    return whole?.result ?? resultText(null, [], row.error)
  }
  if (row.error !== null) return resultText(null, [], row.error)
  const thread = await store.threads.get(row.app, row.thread_id)
  if (thread === null) return '{}'
  if (thread.active?.run_id === row.run_id) return null
  const interrupts = Object.values(parseJson(thread.interrupts) as { [task: string]: unknown[] }).flat()
  const own = (await store.runs.get(row.run_id))?.result
  if (own) return own
  const state = await store.threads.state(row.thread_id)
  return resultText(state?.values ?? null, interrupts, null)
}
