/**
 * Ending a run: saves → run row terminal → thread row (releases the lock, writes status, values, interrupts) →
 * terminal event → wake the next. Every step is repeatable by run id; a client that reads the thread right after its
 * stream ended sees the final values, because the event comes after the commit.
 */
import { announceEnd } from '../../../bus/events.js'
import type { Reply } from '../../../bus/serve.js'
import { purgeEvents } from '../../../bus/streams.js'
import type { Lease } from '../../../schemas/calls.js'
import { fail } from '../../../schemas/errors.js'
import type { FinishHead } from '../../../schemas/host.js'
import { token } from '../../../schemas/ids.js'
import { cutter, unpack } from '../../../schemas/packed.js'
import { isTerminal, type RunStatus } from '../../../schemas/runs.js'
import type { Interrupt } from '../../../schemas/threads.js'
import type { Queued, RunSummary, Step, ThreadRow } from '../../../store/port.js'
import type { Deps } from '../context.js'
import { rowsOf } from '../rows/checkpoint.js'
import { resultText } from '../rows/text.js'
import { firstEligible, readBase, statusOf } from '../rows/thread-status.js'
import { computeFinalState, type Left, refreshLater } from '../state/final-state.js'
import { settledOf } from '../state/kept-state.js'
import { wakeRun } from './wake.js'
import { deliver } from './webhooks.js'

/** How a run ended. Without `state` no host lived to tell what it left: then it is computed (run-left.ts). */
interface Outcome {
  status: RunStatus
  error: { error: string; message: string } | null
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
  }
}

/** The body of rpc.runs.finish: what the host sent, unread by the supervisor. */
export async function finish(deps: Deps, lease: Lease, bytes: Uint8Array): Promise<Reply> {
  const { head, rest: parts } = unpack<FinishHead>(bytes)
  const cut = cutter(parts)
  const part = (size: number) => (size > 0 ? cut(size) : null)
  const values = part(head.values_size)
  const rest = part(head.rest_size)
  const save = part(head.save_size) ?? undefined
  const { status, error, last_event_id, next, interrupts, interrupts_only = false } = head
  return settle(deps, lease, {
    status,
    error,
    last_event_id,
    save,
    state: { head: head.head, next, interrupts, interrupts_only, values, rest },
  })
}

export async function settle(deps: Deps, lease: Lease, outcome: Outcome): Promise<Reply> {
  const { store, link } = deps
  const { run_id, thread_id } = lease
  for (;;) {
    const [thread, [run]] = await Promise.all([store.threads.get(null, thread_id), store.runs.summary([run_id])])
    if (thread === null || run === undefined || run.token !== lease.token || run.attempt !== lease.attempt)
      throw fail('fenced')
    if (run.cancel === 'rollback') {
      if (await rollback(deps, run, thread)) return {}
      continue
    }
    const holds = thread.active?.token === lease.token
    const head = outcome.state?.head ?? thread.latest_checkpoint_id
    const left = await finalStateOf(deps, thread, run, outcome)
    const now = Date.now()
    const error = outcome.error === null ? null : JSON.stringify(outcome.error)
    const interrupts = left === null ? thread.interrupts : JSON.stringify(left.interrupts)
    const raised = Object.values(left?.interrupts ?? {}).flat()
    const interruptsOnly = outcome.state?.interrupts_only === true
    const stored = run.temporary || interruptsOnly
    const values = interruptsOnly ? null : (left?.values ?? null)
    const result = stored || run.mode === 'wait' ? Buffer.from(resultText(values, raised, error)) : null
    const steps: Step[] = []
    if (outcome.save !== undefined) {
      steps.push({ step: 'checkpoints.insert', thread_id, run_id, attempt: lease.attempt, ...rowsOf(outcome.save) })
      // Before the run row: once that is terminal, nobody brings these checkpoints again.
      if (holds)
        steps.push({
          step: 'threads.patch',
          thread_id,
          where: { token: lease.token },
          set: { latest_checkpoint_id: head },
        })
    }
    steps.push({
      step: 'runs.patch',
      run_id,
      where: { attempt: lease.attempt, token: lease.token, heartbeats: outcome.heartbeats },
      set: {
        status: outcome.status,
        ended_at: now,
        updated_at: now,
        last_event_id: outcome.last_event_id,
        error,
        cancel_due_at: null,
        ...(stored ? { result } : {}),
        ...(run.webhook === null ? {} : { webhook_due_at: now }),
      },
    })
    if (!run.temporary && left !== null && left.fresh && left.values !== null)
      steps.push({ step: 'threads.state', thread_id, latest_checkpoint_id: head, values: left.values, rest: left.rest })
    const settled = settledOf(error, left, thread.settled)
    const after = { active: null, queue: thread.queue, settled }
    const set = {
      active: null,
      settled,
      error,
      interrupts,
      status: statusOf(after),
      latest_checkpoint_id: head,
      updated_at: now,
      state_updated_at: now,
    }
    // A run that a crash left terminal with its thread still held comes here again: the condition is then the lock alone.
    if (holds) steps.push({ step: 'threads.patch', thread_id, where: { rev: thread.rev, token: lease.token }, set })
    const failed = await store.apply(steps)
    if (failed >= 0 && steps[failed]!.step === 'runs.patch') throw fail('fenced')
    if (failed !== -1) continue
    if (left === null) refreshLater(deps, thread)
    announceEnd(link, token('run', run_id), {
      status: outcome.status,
      last_event_id: outcome.last_event_id,
      resumable_until_id: run.resumable_until_id,
      result: run.mode === 'wait' ? result : null,
      error: outcome.render ? outcome.error : null,
    })
    link.log.info(
      {
        run_id,
        thread_id,
        graph_id: run.graph_id,
        assistant_id: run.assistant_id,
        attempt: lease.attempt,
        status: outcome.status,
        ms: now - run.created_at,
      },
      'run ended',
    )
    if (run.webhook !== null) void deliver(deps, run_id)
    wakeNext(deps, thread.queue)
    return {}
  }
}

/** What decides the thread's values, interrupts and status. Null: nobody can tell now. */
type LeftBehind = Pick<Left, 'next' | 'interrupts' | 'fresh'> & { values: Uint8Array | null; rest: Uint8Array | null }

async function finalStateOf(
  deps: Deps,
  thread: ThreadRow,
  run: RunSummary,
  { state }: Outcome,
): Promise<LeftBehind | null> {
  if (state !== undefined && (run.temporary || state.rest !== null)) return { ...state, fresh: true }
  if (run.temporary) return { next: [], interrupts: {}, values: null, rest: null, fresh: false }
  // Its last checkpoints are not stored before it ends: until then nobody can read them.
  if (state !== undefined && state.head !== null && state.head !== thread.latest_checkpoint_id) return null
  const left = await computeFinalState(deps, thread, run)
  return left && { ...left, values: left.state?.values ?? null, rest: left.state?.rest ?? null }
}

/**
 * Ends a run as if it had never been: its checkpoints, its events and its row are removed, the thread goes back to
 * what the run found. Its values are computed again when somebody asks. False: the thread row has moved on meanwhile.
 */
async function rollback(deps: Deps, run: RunSummary, thread: ThreadRow): Promise<boolean> {
  const { store, link, mux } = deps
  const { run_id, thread_id } = run
  const base = readBase(run.base)
  const kept = await store.threads.state(thread_id)
  const now = Date.now()
  const after = { active: null, queue: thread.queue, settled: base.settled }
  const failed = await store.apply([
    { step: 'checkpoints.rollback', thread_id, run_id },
    // What is kept is mostly that of the base still: the run has not ended, so it has left none.
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
  link.log.info({ run_id, thread_id, attempt: run.attempt }, 'run rolled back')
  wakeNext(deps, thread.queue)
  return true
}

const noState = (thread_id: string, head: string | null): Step => ({
  step: 'threads.state',
  thread_id,
  latest_checkpoint_id: head,
  values: null,
  rest: null,
})

/** Publishes the wake-up of the first run in line, beside what waits for the caller: the sweeper repeats a lost one. */
export function wakeNext(deps: Deps, queue: readonly Queued[]): void {
  const next = firstEligible(queue, Date.now())
  if (next === null) return
  const publish = async () => {
    const [run] = await deps.store.runs.summary([next.run_id])
    if (run === undefined || isTerminal(run.status)) return
    const id = `${next.run_id}:${run.attempt + 1}:next`
    await wakeRun(deps, run, id)
  }
  publish().catch(error => deps.link.log.warn({ err: error, run_id: next.run_id }, 'a wake-up was not published'))
}
