/**
 * Creating a run. Accepted = its row is stored durably and the thread row has taken it; the wake-up comes after.
 * Order of checks: API threads-and-runs 8.1. Repeatable by run id: a repeated create answers the stored run.
 */
import { v7 } from 'uuid'
import type { Context, Reply } from '../bus/serve.js'
import type { JsonObject } from '../schemas/assistants.js'
import type { CallHead } from '../schemas/calls.js'
import { fail } from '../schemas/errors.js'
import type { RunCreate, RunMode } from '../schemas/runs.js'
import type { AssistantRow, RecordRow, RunRow, Step, Store, ThreadRow } from '../store/port.js'
import { appOf } from './apps.js'
import { find } from './assistants.js'
import { keysOf } from './contains.js'
import { isObject, merge, type Tools } from './context.js'
import { refusal } from './outbound.js'
import { answer } from './run-answer.js'
import { type Decision, decide, dropSteps, followUp } from './run-multitask.js'
import { forgetKey, holds, type Once, recall, recordOf, shortText } from './run-once.js'
import { kwargsOf, userOf, withoutAuth } from './run-payload.js'
import { firstEligible } from './run-status.js'
import { newThread } from './thread-row.js'
import { wakeRun } from './wake.js'

/** `once`: what its Idempotency-Key stands for. */
export async function create(tools: Tools, body: RunCreate, { head }: Context, once?: Once): Promise<Reply> {
  const run_id = head.run?.run_id ?? v7()
  const stored = once === undefined ? null : await recall(tools, once, run_id)
  if (stored !== null) return stored
  const run = { ...(await prepare(tools, body, head, run_id)), idempotency_id: once?.id ?? null }
  const stateless = isStateless(head)
  const record = once === undefined ? null : recordOf(once, run, { run_id, stateless, text: shortText(run) })
  const outcome = stateless
    ? await acceptNew(tools, run, record)
    : await tools.inTurn(run.thread_id, () => accept(tools, run, body.if_not_exists === 'create', record))
  if (outcome === 'taken') return (await recall(tools, once!, run_id)) ?? create(tools, body, { head } as Context, once)
  if (outcome === 'known') return answerKnown(tools, run, stateless)
  if (outcome === 'first' || run.due_at > 0) wakeWhenDue(tools, run)
  return answer(run, stateless)
}

export interface Place {
  app: string
  run_id: string
  thread_id: string
  /** The run brings its thread, with this metadata beside its own; null: the thread is there. */
  brings: JsonObject | null
}

/** A run in the background that nobody waits for. False: it was there already. Throws why it is refused. */
export async function place(
  tools: Tools,
  body: RunCreate,
  { app, run_id, thread_id, brings }: Place,
): Promise<boolean> {
  const head: CallHead = {
    request_id: run_id,
    app,
    ...(brings === null ? { params: { thread_id } } : {}),
    run: { run_id, mode: 'background' },
  }
  const run = await prepare(tools, body, head, run_id, thread_id)
  const outcome =
    brings === null
      ? await tools.inTurn(thread_id, () => accept(tools, run, false, null))
      : await acceptNew(tools, run, null, brings)
  if (outcome === 'first' || (outcome === 'waits' && run.due_at > 0)) wakeWhenDue(tools, run)
  return outcome !== 'known'
}

const isStateless = (head: CallHead): boolean => head.params?.thread_id === undefined

/**
 * The row of a new run, after the checks that do not look at its thread. Nothing is stored yet. `own_thread`: the id of
 * the thread that a stateless run brings.
 */
export async function prepare(
  tools: Tools,
  body: RunCreate,
  head: CallHead,
  run_id: string,
  own_thread = v7(),
): Promise<RunRow> {
  const mode = head.run?.mode ?? 'background'
  const stateless = isStateless(head)
  if (body.webhook) {
    const no = refusal(body.webhook, tools.allowed)
    if (no !== null) throw fail('invalid', `webhook: ${no}`)
  }
  const app = appOf(head)
  const assistant = await find(tools.store, app, body.assistant_id)
  if (assistant === null) throw fail('not_found', noAssistant(body.assistant_id))
  const pool = await tools.apps.pool(app, assistant.graph_id)
  if (pool === null)
    throw fail('not_found', `Graph '${assistant.graph_id}' is not one of those that this application serves now`)
  const thread_id = head.params?.thread_id?.toLowerCase() ?? own_thread
  const temporary = stateless && (body.on_completion ?? 'delete') === 'delete'
  const identity = head.identity?.identity
  const run = runRow(body, assistant, { pool, run_id, thread_id, mode, stateless, temporary, identity })
  await checkSelection(tools, body, run)
  return run
}

export const noAssistant = (given: string): string =>
  `No assistant found for "${given}". Make sure the assistant ID is for a valid assistant or a valid graph ID.`

/** A checkpoint that is named must be one of the thread: an unknown one would start from nothing, silently. */
async function checkSelection({ store }: Tools, body: RunCreate, { thread_id, temporary }: RunRow): Promise<void> {
  const checkpoint_id = body.checkpoint?.checkpoint_id ?? body.checkpoint_id
  if (!checkpoint_id || temporary) return
  const ns = body.checkpoint?.checkpoint_ns ?? ''
  if ((await store.checkpoints.get({ thread_id, ns, checkpoint_id })) === null)
    throw fail('not_found', `Checkpoint ${checkpoint_id} not found on thread ${thread_id}`)
}

/** The last time that a date can name. */
const LAST_MS = 8.64e15

interface Given {
  pool: string
  run_id: string
  thread_id: string
  mode: RunMode
  stateless: boolean
  temporary: boolean
  identity: string | undefined
}

function runRow(
  body: RunCreate,
  assistant: AssistantRow,
  { pool, run_id, thread_id, mode, stateless, temporary, identity }: Given,
): RunRow {
  const now = Date.now()
  const { graph_id, assistant_id } = assistant
  const user_id = userOf(body, JSON.parse(assistant.config)) ?? identity
  const ids = { graph_id, assistant_id, thread_id, run_id, ...(user_id === undefined ? {} : { user_id }) }
  const metadata = merge(withoutAuth(merge(JSON.parse(assistant.metadata), body.metadata)), ids)
  return {
    app: assistant.app,
    run_id,
    thread_id,
    assistant_id: assistant.assistant_id,
    graph_id: assistant.graph_id,
    pool,
    status: 'accepting',
    created_at: now,
    updated_at: now,
    metadata: JSON.stringify(metadata),
    kwargs: JSON.stringify(kwargsOf(body, assistant, { ids, metadata, temporary })),
    multitask_strategy: body.multitask_strategy ?? 'enqueue',
    mode,
    resumable: body.stream_resumable ?? false,
    temporary,
    on_disconnect:
      mode === 'background' || mode === 'events'
        ? 'continue'
        : (body.on_disconnect ?? (stateless && mode === 'stream' ? 'cancel' : 'continue')),
    due_at: body.after_seconds ? Math.min(now + Math.ceil(body.after_seconds * 1000), LAST_MS) : 0,
    attempt: 0,
    token: null,
    hb: 0,
    worker: null,
    cancel: null,
    cancel_due_at: null,
    cancel_reason: null,
    joined_at: null,
    started_at: null,
    ended_at: null,
    last_event_id: null,
    claim_no: null,
    resumable_until_id: null,
    error: null,
    base: null,
    webhook: body.webhook ?? null,
    webhook_due_at: null,
    webhook_tries: 0,
    idempotency_id: null,
    result: null,
  }
}

/**
 * first: it is this one's turn. waits: others go before it, or its time. known: the same create came before.
 * taken: another create has its Idempotency-Key.
 */
type Outcome = 'first' | 'waits' | 'known' | 'taken'

/** A stateless run brings its own thread row, so there is nothing to compare. */
export async function acceptNew(
  tools: Tools,
  run: RunRow,
  record: RecordRow | null = null,
  more: JsonObject = {},
): Promise<Outcome> {
  const { store } = tools
  const metadata = { ...more, graph_id: run.graph_id, assistant_id: run.assistant_id }
  const ttl = run.temporary ? null : await tools.ttls.of(run.app)
  const row: ThreadRow = {
    ...newThread(run.app, run.thread_id, JSON.stringify(metadata), run.temporary, ttl),
    status: 'busy',
    queue: [{ run_id: run.run_id, no: 0, due_at: run.due_at }],
    next_no: 1,
  }
  // A hidden thread is never searched for.
  const keys = run.temporary ? [] : keysOf(metadata)
  const steps: Step[] = [
    { step: 'runs.insert', row: run },
    ...claimKey(record),
    { step: 'threads.insert', row, keys },
    pending(run),
  ]
  const failed = await store.apply(steps)
  const at = steps[failed]?.step
  if (at === 'records.insert') return lost(store, run)
  // The thread is there: a create of the same run was cut short after it.
  if (at === 'threads.insert') return (await store.apply([pending(run)])) === -1 ? 'first' : 'known'
  return failed === -1 ? 'first' : 'known'
}

/** After the row of the run, which goes with it when the create comes to nothing (dropOrphan). */
const claimKey = (row: RecordRow | null): Step[] => (row === null ? [] : [{ step: 'records.insert', row }])

async function lost(store: Store, { run_id }: RunRow): Promise<'taken'> {
  await store.apply([{ step: 'runs.remove', run_id, where: { status: ['accepting'] } }])
  return 'taken'
}

/** One compare-and-set on the thread row takes the multitask decision and the place in the line. */
async function accept(tools: Tools, run: RunRow, mayCreate: boolean, record: RecordRow | null): Promise<Outcome> {
  const { store } = tools
  for (let key = record; ; ) {
    const thread = await store.threads.get(run.app, run.thread_id)
    if ((thread === null && !mayCreate) || thread?.temporary)
      throw fail('not_found', `Thread with ID ${run.thread_id} not found`)
    const base = thread ?? newThread(run.app, run.thread_id, '{}', false, await tools.ttls.of(run.app))
    const decision: Decision = await decide(tools, run, base)
    if (decision.known) {
      const outcome = await again(tools, decision, run, base)
      if (outcome === null) continue
      return outcome
    }
    const stored: unknown = JSON.parse(base.metadata)
    const ids = { graph_id: run.graph_id, assistant_id: run.assistant_id }
    const merged = merge(isObject(stored) ? stored : null, ids)
    const metadata = JSON.stringify(merged)
    const isNew = thread === null || metadata !== thread.metadata
    const set = {
      queue: decision.queue,
      next_no: base.next_no + 1,
      status: 'busy' as const,
      updated_at: run.created_at,
      ...(isNew ? { metadata } : {}),
    }
    const keys = isNew ? { keys: keysOf(merged) } : {}
    const take: Step =
      thread === null
        ? { step: 'threads.insert', row: { ...base, ...set }, ...keys }
        : { step: 'threads.patch', thread_id: run.thread_id, where: { rev: thread.rev }, set, ...keys }
    const steps = [
      { step: 'runs.insert', row: run } as const,
      ...claimKey(key),
      take,
      ...dropSteps(decision, run),
      pending(run),
    ]
    const failed = await store.apply(steps)
    if (failed === 0) return 'known'
    if (steps[failed]?.step === 'records.insert') {
      // Ours already, where the steps of a try that came to nothing are not taken back.
      if (!(await holds(store, record!, run.run_id))) return lost(store, run)
      key = null
      continue
    }
    // Taken by a thread of another application: it never shows here.
    if (steps[failed] === take && thread === null && (await store.threads.get(run.app, run.thread_id)) === null) {
      await forgetKey(store, run)
      await lost(store, run)
      throw fail('conflict', `Thread ID ${run.thread_id} is taken`)
    }
    // Lost the race for the thread row: look again.
    if (steps[failed] === take) continue
    followUp(tools, decision, run)
    // In line, but somebody has looked at the thread meanwhile, and has shown the run or not found its row.
    if (failed !== -1) continue
    const first = base.active === null ? firstEligible(decision.queue, run.created_at) : null
    return first?.run_id === run.run_id ? 'first' : 'waits'
  }
}

/**
 * A create whose first try took the place in line, and may have been cut short right after: what is missing is done.
 * Null: the thread has moved on meanwhile, look again.
 */
async function again(tools: Tools, decision: Decision, run: RunRow, thread: ThreadRow): Promise<Outcome | null> {
  const { thread_id } = run
  const failed = await tools.store.apply([
    { step: 'runs.insert', row: run },
    // Nobody has taken it out of line in the belief that it has no row.
    { step: 'threads.patch', thread_id, where: { rev: thread.rev }, set: {} },
    pending(run),
  ])
  if (failed > 0) return null
  if (failed === -1) {
    await tools.store.apply(dropSteps(decision, run))
    followUp(tools, decision, run)
  }
  if (thread.active === null && firstEligible(thread.queue, Date.now())?.run_id === run.run_id) wakeWhenDue(tools, run)
  return 'known'
}

const pending = (run: RunRow): Step => ({
  step: 'runs.patch',
  run_id: run.run_id,
  where: { status: ['accepting'] },
  set: { status: 'pending' },
})

/** Wakes a run whose turn it is, or sets the alarm of one that is to start later. */
export function wakeWhenDue({ alarms, ...tools }: Tools, run: RunRow): void {
  if (run.due_at > 0) alarms.set(run.due_at)
  else void wakeRun(tools, run, `${run.run_id}:1`)
}

async function answerKnown(tools: Tools, run: RunRow, stateless: boolean): Promise<Reply> {
  const stored = await tools.store.runs.get(run.run_id)
  if (stored === null) throw fail('unavailable', 'The run is being accepted; ask again')
  if (stored.status !== 'accepting') return answer(stored, stateless)
  // Cut short before its thread was made, or before the run was shown: this create brought another thread id along.
  if (!stateless) throw fail('unavailable', 'The run is being accepted; ask again')
  if ((await acceptNew(tools, stored)) === 'first') wakeWhenDue(tools, stored)
  return answer(stored, stateless)
}
