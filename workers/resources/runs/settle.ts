/**
 * Ending a run: saves → run row terminal → thread row (releases the lock, writes status, values, interrupts) →
 * terminal event → wake the next. Every step is repeatable by run id; a client that reads the thread right after its
 * stream ended sees the final values, because the event comes after the commit.
 */
import { unpackAs } from '../../../bus/decode.js'
import { announceEnd } from '../../../bus/events.js'
import type { Reply } from '../../../bus/serve.js'
import { purgeEvents, purgeSpans } from '../../../bus/streams.js'
import type { Lease } from '../../../schemas/calls.js'
import { fail } from '../../../schemas/errors.js'
import { jsonText } from '../../../schemas/exact.js'
import { validateFinishHead } from '../../../schemas/host.js'
import { token } from '../../../schemas/ids.js'
import { cutter } from '../../../schemas/packed.js'
import type { ErrorPlace, RunStatus } from '../../../schemas/runs.js'
import type { Interrupt } from '../../../schemas/threads.js'
import type { RunSummary } from '../../../store/rows/runs.js'
import type { ThreadRow } from '../../../store/rows/threads.js'
import type { Step } from '../../../store/steps.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { rowsOf } from '../rows/checkpoint.js'
import { resultText } from '../rows/text.js'
import { leftBy, readBase, statusOf } from '../rows/thread-status.js'
import { computeFinalState, type Left, refreshLater } from '../state/final-state.js'
import { isRefusedAnswer, settledOf } from '../state/kept-state.js'
import { countEnd } from './figures.js'
import { wakeLimited, wakeNext } from './wake.js'
import { deliver } from './webhooks.js'

/** How a run ended. `state` is absent when its host died: then it is computed (state/final-state.ts). */
interface Outcome {
  status: RunStatus
  error: { error: string; message: string } | null
  /** Stored with the error of the run. Threads, wait and webhooks say the error without it. */
  at?: ErrorPlace | null
  last_event_id: number
  /** No host wrote the error as an event: readers render it. */
  render?: boolean
  /** Ends the run only if no heartbeat arrived since: the holder was found dead by this count. */
  heartbeats?: number
  save?: Uint8Array
  state?: {
    head: string | null
    next: string[]
    interrupts: { [task_id: string]: Interrupt[] }
    interrupts_only: boolean
    values: Uint8Array | null
    rest: Uint8Array | null
    /** The part of the values that wait and join answer; null: all of them. */
    output: Uint8Array | null
    feedback: { [key: string]: string } | null
  }
}

/** The body of rpc.runs.finish: what the host sent, unread by the supervisor. Throws bad_request and invalid. */
export async function finish(deps: Deps, lease: Lease, bytes: Uint8Array): Promise<Reply> {
  const { head: sent, rest: parts } = unpackAs(bytes, validateFinishHead)
  const cut = cutter(parts)
  const part = (size: number) => (size > 0 ? cut(size) : null)
  const values = part(sent.values_size)
  const rest = part(sent.rest_size)
  const save = part(sent.save_size) ?? undefined
  const output = part(sent.output_size ?? 0)
  const { status, error, at, last_event_id, next, interrupts, interrupts_only = false, feedback = null, head } = sent
  return settle(deps, lease, {
    status,
    error,
    at,
    last_event_id,
    save,
    state: { head, next, interrupts, interrupts_only, values, rest, output, feedback },
  })
}

const steps = [rollBack, readFinalState, store, announce, deliverAndWake] as const

interface Settling {
  deps: Deps
  lease: Lease
  outcome: Outcome
  thread: ThreadRow
  run: RunSummary
  /** From readFinalState on. */
  final?: Final
}

interface Final {
  left: LeftBehind | null
  /** The answer of `wait`; null when no caller waits for it. */
  result: Buffer | null
  /** Time of the end, milliseconds since the epoch. */
  now: number
}

/** The rows changed: read them again. */
const READ_AGAIN = 'read again'
/** The run has ended. */
const ENDED = 'ended'
type Progress = typeof READ_AGAIN | typeof ENDED | undefined

/** Throws `fenced` when a later attempt has the run, or it has ended. */
export async function settle(deps: Deps, lease: Lease, outcome: Outcome): Promise<Reply> {
  const { threads, runs } = deps.store
  for (;;) {
    const [thread, [run]] = await Promise.all([threads.get(null, lease.thread_id), runs.summary([lease.run_id])])
    if (thread === null || run === undefined || run.token !== lease.token || run.attempt !== lease.attempt)
      throw fail('fenced')
    const progress = await settleOnce({ deps, lease, outcome, thread, run })
    if (progress !== READ_AGAIN) return {}
  }
}

async function settleOnce(settling: Settling): Promise<Progress> {
  for (const step of steps) {
    const progress: Progress = await step(settling)
    if (progress !== undefined) return progress
  }
  return ENDED
}

/** A run that is cancelled with `rollback` leaves nothing. */
async function rollBack({ deps, run, thread }: Settling): Promise<Progress> {
  if (run.cancel !== 'rollback') return undefined
  return (await rollback(deps, run, thread)) ? ENDED : READ_AGAIN
}

async function readFinalState(settling: Settling): Promise<Progress> {
  const { deps, thread, run, outcome } = settling
  const left = await finalStateOf(deps, thread, run, outcome)
  const raised = Object.values(left?.interrupts ?? {}).flat()
  const values = outcome.state?.interrupts_only ? null : (outcome.state?.output ?? left?.values ?? null)
  const isRead = keepsResult(settling) || run.mode === 'wait'
  const feedback = outcome.state?.feedback ?? null
  const result = isRead ? Buffer.from(resultText(values, raised, errorText(outcome), feedback)) : null
  settling.final = { left, result, now: clock.now() }
  return undefined
}

const errorText = ({ error }: Outcome): string | null => (error === null ? null : jsonText(error))
const storedErrorText = ({ error, at }: Outcome): string | null =>
  error === null ? null : jsonText(at ? { ...error, at } : error)
/** The result cannot be read from the thread. */
const keepsResult = ({ run, outcome: { state } }: Settling): boolean =>
  run.temporary ||
  state?.interrupts_only === true ||
  (state !== undefined && (state.output !== null || state.feedback !== null))

async function store(settling: Settling): Promise<Progress> {
  const { deps, lease, outcome, thread, run } = settling
  const { left } = settling.final!
  const { run_id, thread_id } = lease
  const holds = thread.active?.token === lease.token
  const latest_checkpoint_id = outcome.state?.head ?? thread.latest_checkpoint_id
  const list: Step[] = []
  if (outcome.save !== undefined) {
    list.push({ step: 'checkpoints.insert', thread_id, run_id, attempt: lease.attempt, ...rowsOf(outcome.save) })
    // Before the run row: once that is terminal, these checkpoints are not sent again.
    if (holds)
      list.push({ step: 'threads.patch', thread_id, where: { token: lease.token }, set: { latest_checkpoint_id } })
  }
  list.push(runStep(settling))
  if (!run.temporary && left !== null && left.fresh && left.values !== null)
    list.push({ step: 'threads.state', thread_id, latest_checkpoint_id, values: left.values, rest: left.rest })
  // A run that a crash left terminal with its thread still held comes here again: the condition is then the lock alone.
  if (holds) list.push(threadStep(settling, latest_checkpoint_id))
  const failed = await deps.store.apply(list)
  if (failed >= 0 && list[failed]!.step === 'runs.patch') throw fail('fenced')
  if (failed !== -1) return READ_AGAIN
  if (left === null) refreshLater(deps, thread)
  return undefined
}

const runStep = (settling: Settling): Step => {
  const { lease, outcome, run } = settling
  const { now, result } = settling.final!
  return {
    step: 'runs.patch',
    run_id: lease.run_id,
    where: { attempt: lease.attempt, token: lease.token, heartbeats: outcome.heartbeats },
    set: {
      status: outcome.status,
      ended_at: now,
      updated_at: now,
      last_event_id: outcome.last_event_id,
      error: storedErrorText(outcome),
      cancel_due_at: null,
      ...(keepsResult(settling) ? { result } : {}),
      ...(run.webhook === null ? {} : { webhook_due_at: now }),
    },
  }
}

function threadStep({ lease, outcome, run, thread, final }: Settling, latest_checkpoint_id: string | null): Step {
  const { left, now } = final!
  const error = errorText(outcome)
  const settled = settledOf(error, left, thread.settled)
  return {
    step: 'threads.patch',
    thread_id: lease.thread_id,
    where: { rev: thread.rev, token: lease.token },
    set: {
      active: null,
      settled,
      error: isRefusedAnswer(error) ? null : error,
      interrupts: left === null ? thread.interrupts : jsonText(left.interrupts, withoutNoSchema),
      ...leftBy(run, latest_checkpoint_id),
      status: statusOf({ active: null, queue: thread.queue, settled }),
      latest_checkpoint_id,
      updated_at: now,
      state_updated_at: now,
    },
  }
}

/** The interrupts of a thread name a schema for their answer only where there is one; those of wait say null. */
const withoutNoSchema = (name: string, value: unknown): unknown =>
  name === 'response_schema' && value === null ? undefined : value

function announce({ deps: { link }, lease, outcome, run, final }: Settling): Progress {
  const { now, result } = final!
  const { run_id, thread_id, attempt } = lease
  const { status } = outcome
  announceEnd(link, token('run', run_id), {
    status,
    last_event_id: outcome.last_event_id,
    resumable_until_id: run.resumable_until_id,
    result: run.mode === 'wait' ? result : null,
    error: outcome.render ? outcome.error : null,
  })
  countEnd(link, run, status, now)
  const { graph_id, assistant_id } = run
  link.log.info({ run_id, thread_id, graph_id, assistant_id, attempt, status, ms: now - run.created_at }, 'run ended')
  return undefined
}

function deliverAndWake({ deps, thread, run }: Settling): Progress {
  if (run.webhook !== null) void deliver(deps, run.run_id)
  wakeNext(deps, thread.queue)
  wakeLimited(deps, run)
  return ENDED
}

/** The data that decides the thread's values, interrupts and status. Null: it cannot be computed now. */
type LeftBehind = Pick<Left, 'next' | 'interrupts' | 'fresh'> & { values: Uint8Array | null; rest: Uint8Array | null }

async function finalStateOf(
  deps: Deps,
  thread: ThreadRow,
  run: RunSummary,
  { state }: Outcome,
): Promise<LeftBehind | null> {
  if (state !== undefined && (run.temporary || state.rest !== null)) return { ...state, fresh: true }
  if (run.temporary) return { next: [], interrupts: {}, values: null, rest: null, fresh: false }
  // Its last checkpoints are stored with its end: no host can read them before.
  if (state !== undefined && state.head !== null && state.head !== thread.latest_checkpoint_id) return null
  const left = await computeFinalState(deps, thread, run)
  return left && { ...left, values: left.state?.values ?? null, rest: left.state?.rest ?? null }
}

/**
 * Ends a run and undoes it: its checkpoints, its events and its row are removed, and the thread gets the state that the
 * run found. Its values are computed again at the next read. False: the thread row changed meanwhile.
 */
async function rollback(deps: Deps, run: RunSummary, thread: ThreadRow): Promise<boolean> {
  const { store, link, mux } = deps
  const { run_id, thread_id } = run
  const base = readBase(run.base)
  const kept = await store.threads.state(thread_id)
  const now = clock.now()
  const after = { active: null, queue: thread.queue, settled: base.settled }
  const failed = await store.apply([
    { step: 'checkpoints.rollback', thread_id, run_id },
    // The kept state is mostly that of the base still: the run has not ended, so it has left none.
    ...(kept?.latest_checkpoint_id === base.latest_checkpoint_id
      ? []
      : [noState(thread_id, base.latest_checkpoint_id)]),
    {
      step: 'threads.patch',
      thread_id,
      where: { rev: thread.rev, token: run.token ?? '' },
      set: { ...base, active: null, status: statusOf(after), updated_at: now, state_updated_at: now },
    },
    { step: 'runs.remove', run_id, where: { token: run.token ?? '' } },
  ])
  if (failed !== -1) return false
  const id = token<'run'>('run', run_id)
  announceEnd(link, id, { status: 'interrupted', last_event_id: -1, result: Buffer.from('{}'), error: null })
  if (run.resumable) await purgeEvents(link, mux, id)
  await purgeSpans(link, mux, token('thread', thread_id), id)
  countEnd(link, run, 'rolled_back', now)
  link.log.info({ run_id, thread_id, attempt: run.attempt }, 'run rolled back')
  wakeNext(deps, thread.queue)
  wakeLimited(deps, run)
  return true
}

const noState = (thread_id: string, head: string | null): Step => ({
  step: 'threads.state',
  thread_id,
  latest_checkpoint_id: head,
  values: null,
  rest: null,
})
