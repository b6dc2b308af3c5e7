/**
 * Claiming a run: one compare-and-set on the thread row, then the run row. A run with a dead holder is released first,
 * which charges its attempt; a living holder is never replaced.
 */
import type { Reply } from '../../../bus/serve.js'
import type { Claim } from '../../../schemas/calls.js'
import { fail, WeftError } from '../../../schemas/errors.js'
import { isTerminal } from '../../../schemas/runs.js'
import type { Sender } from '../../../schemas/subjects.js'
import type { RunRow } from '../../../store/rows/runs.js'
import type { ThreadRow } from '../../../store/rows/threads.js'
import type { Step } from '../../../store/steps.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { firstEligible } from '../rows/thread-status.js'
import type { CountedStart } from '../scheduling/starts.js'
import { cancelNow, ignoreEnded } from './cancel.js'
import { type ClaimRows, checkpointFor, claimRows, findKwargs, startBody } from './claimed.js'
import { refusalOf } from './refusal.js'
import { release } from './release.js'
import { isHalfClaimed, repair } from './repair.js'
import { announceClaim } from './view.js'
import { wakeNext } from './wake.js'

const steps = [repairHalfDone, answerEnded, answerHeld, answerWaiting, endRefused, take] as const

/** The rows changed: read them again. */
const READ_AGAIN = 'read again'

interface Claiming {
  deps: Deps
  request: Claim
  /** The graph worker that claims it. */
  sender: Sender
  thread: ThreadRow
  run: RunRow
  /** The thread holds the run as its running one. */
  isHeld: boolean
  /** … by a worker that sends no heartbeats any more. */
  isDead: boolean
}

type Outcome = Reply | typeof READ_AGAIN | null

export async function claim(deps: Deps, request: Claim, sender: Sender): Promise<Reply> {
  const { store } = deps
  for (;;) {
    const [thread, run] = await Promise.all([
      store.threads.get(null, request.thread_id),
      store.runs.get(request.run_id),
    ])
    if (thread === null || run === null) return ENDED
    await checkPool(deps, run, sender)
    const isHeld = thread.active?.run_id === run.run_id
    const isDead = isHeld && deps.holders.isDead(run)
    const outcome = await first({ deps, request, sender, thread, run, isHeld, isDead })
    if (outcome === READ_AGAIN) continue
    deps.link.figures.count('weft_run_claims_total', { answer: outcome.head!.claim! })
    return outcome
  }
}

/**
 * A run is executed by the pool that it waits in, or by that of the revision which is active now. Throws forbidden for a
 * worker of another pool or application.
 */
async function checkPool({ apps }: Deps, { run_id, app, pool }: RunRow, sender: Sender): Promise<void> {
  if (app === sender.app && (pool === sender.pool || (await apps.poolFor(app, pool)) === sender.pool)) return
  throw fail('forbidden', `Run ${run_id} waits for another pool than ${sender.pool}`)
}

/** The outcome of the first step that has one. */
async function first(claiming: Claiming): Promise<Reply | typeof READ_AGAIN> {
  for (const step of steps) {
    const outcome: Outcome = await step(claiming)
    if (outcome !== null) return outcome
  }
  return READ_AGAIN
}

const ENDED: Reply = { head: { claim: 'ended' } }

/** Not shown yet; ended while its thread is held; or claimed on the thread row alone, and not just now. */
async function repairHalfDone({ deps, thread, run, isHeld, isDead }: Claiming): Promise<Outcome> {
  const isQueued = thread.queue.some(one => one.run_id === run.run_id)
  const isHalfDone =
    run.status === 'accepting' ||
    (isDead && isHalfClaimed(thread.active!, run)) ||
    (isTerminal(run.status) && (isHeld || isQueued))
  return isHalfDone && (await repair(deps, thread, run.run_id)) ? READ_AGAIN : null
}

function answerEnded({ run }: Claiming): Outcome {
  return isTerminal(run.status) ? ENDED : null
}

/** The holder of a run that is alive keeps it; that of a dead one loses it, and the attempt is charged. */
async function answerHeld({ deps, thread, run, isHeld, isDead }: Claiming): Promise<Outcome> {
  if (!isHeld) return null
  // The rows are two reads: this run row may be that of a dead attempt, when the thread row is that of the next one.
  if (!isDead || thread.active!.token !== run.token) return { head: { claim: 'held' } }
  const { attempt, heartbeats } = run
  const lost = { error: 'WorkerLost', message: 'its worker was lost' }
  const release_ = { charge: true, end: null, error: lost, last_event_id: null }
  deps.link.log.warn({ run_id: run.run_id, attempt, worker: run.worker }, 'run taken from a dead worker')
  try {
    await release(deps, { ...thread.active!, thread_id: thread.thread_id }, release_, { heartbeats })
    deps.link.figures.count('weft_run_takeovers_total')
  } catch (error) {
    // Another claim or a late heartbeat was faster.
    if (!(error instanceof WeftError) || error.code !== 'fenced') throw error
  }
  return READ_AGAIN
}

async function answerWaiting({ deps, thread, run }: Claiming): Promise<Outcome> {
  const next = thread.active === null ? firstEligible(thread.queue, nowFor(run, thread)) : null
  if (next?.run_id === run.run_id) return null
  // Chosen, although another run of its thread is first: it is ready again when its turn comes.
  if (deps.scheduler.isOn && run.ready_at !== null) await unready(deps, run)
  if (next !== null) wakeNext(deps, thread.queue)
  return { head: { claim: 'waiting' } }
}

async function unready({ store }: Deps, { run_id, attempt }: RunRow): Promise<void> {
  const where = { status: ['pending' as const], attempt }
  await store.apply([{ step: 'runs.patch', run_id, where, set: { ready_at: null } }])
}

/** A run whose alarm fired may start, even if the clock of this worker is a little behind. */
function nowFor({ run_id, due_at }: RunRow, { queue }: ThreadRow): number {
  const own = due_at === 0 ? queue.find(one => one.run_id === run_id)?.due_at : 0
  return Math.max(clock.now(), own ?? 0)
}

/** A run that may not start ends here, and leaves its thread as it is. */
async function endRefused({ deps, thread, run }: Claiming): Promise<Outcome> {
  const reason = await refusalOf(deps, thread, run)
  if (reason === null) return null
  const { run_id, thread_id } = run
  deps.link.log.warn({ run_id, thread_id, reason }, 'run ended before its start')
  await cancelNow(deps, run, 'interrupt', reason).catch(ignoreEnded)
  return ENDED
}

async function take(claiming: Claiming): Promise<Outcome> {
  const { deps, thread, run } = claiming
  const kwargs = await findKwargs(deps, run)
  const [held, tuple] = await Promise.all([holdAtRate(claiming), checkpointFor(deps, run, thread)])
  if (held === READ_AGAIN) return READ_AGAIN
  // It is woken by the alarm of the rate.
  if (held === null) return { head: { claim: 'waiting' } }
  const { rows, counted } = held
  const { lease } = rows
  announceClaim(deps, { ...run, ...rows.run })
  if (deps.scheduler.hasLimits && (await deps.scheduler.isOver(run))) {
    // Whoever counts after its claim sees every claim before: no more runs than the limit ever execute.
    const over = { error: 'LimitReached', message: 'as many runs execute as the limits allow' }
    const body = { charge: false, end: null, error: over, last_event_id: null }
    await release(deps, lease, body, undefined, { started_at: run.started_at })
    if (counted !== null) await undoStart(deps, counted)
    return { head: { claim: 'waiting' } }
  }
  if (run.cancel !== null) {
    // Cancelled while it waited for its next attempt: it ends without another step.
    const cancelled = { error: 'Cancelled', message: 'the run was cancelled' }
    await release(deps, lease, { charge: false, end: null, error: cancelled, last_event_id: null })
    return ENDED
  }
  if (kwargs === null) {
    const error = { error: 'AssistantNotFound', message: 'the assistant of the run was deleted' }
    await release(deps, lease, { charge: false, end: 'error', error, last_event_id: null })
    return ENDED
  }
  return { head: { claim: 'taken', lease }, body: startBody(deps, { ...run, kwargs }, rows, tuple) }
}

interface HeldRun {
  rows: ClaimRows
  /** Null: its start counts for no rate. */
  counted: CountedStart | null
}

/** Holds the run, with the start counted where its tenant has a rate. Null: the rate lets it start later. */
async function holdAtRate(claiming: Claiming): Promise<HeldRun | typeof READ_AGAIN | null> {
  const { deps, run } = claiming
  const { scheduler, serialize } = deps
  if (!scheduler.hasRate(run)) return hold(claiming, null)
  // All claims of a tenant change one record.
  return serialize(`rate ${run.app} ${run.tenant}`, async () => {
    const now = clock.now()
    const counted = await scheduler.countStart(run, now)
    if (counted === null) return null
    const held = await hold(claiming, counted, now)
    if (held === READ_AGAIN) await undoStart(deps, counted)
    else deps.alarms.set(counted.due_at)
    return held
  })
}

/** A start that did not happen counts no more, unless others have started since. */
async function undoStart({ store, alarms }: Deps, { undo }: CountedStart): Promise<void> {
  const step = await undo()
  if (step !== null && (await store.apply([step])) === -1) alarms.set(clock.now())
}

async function hold(
  { deps, request, sender, thread, run }: Claiming,
  counted: CountedStart | null,
  now?: number,
): Promise<HeldRun | typeof READ_AGAIN> {
  const { store } = deps
  const rows = claimRows(run, thread, { worker: request.worker, pool: sender.pool }, now)
  const take: Step = {
    step: 'threads.patch',
    thread_id: thread.thread_id,
    where: { rev: thread.rev },
    set: rows.thread,
  }
  const show: Step = {
    step: 'runs.patch',
    run_id: run.run_id,
    // With the attempt that was read: a repair of this claim raises it, and the claim must fail then.
    where: { status: ['pending', 'running', 'accepting'], attempt: run.attempt },
    set: rows.run,
  }
  // The count first: a crash between the steps starts no run too many.
  const steps = [...(counted === null ? [] : [counted.step]), take, show]
  const failed = await store.apply(steps)
  if (steps[failed] === show) {
    // Held on the thread row, while another claim has the run or it has ended: no other call would release it soon.
    const held = await store.threads.get(null, thread.thread_id)
    if (held?.active?.token === rows.lease.token) await repair(deps, held, run.run_id)
  }
  return failed === -1 ? { rows, counted } : READ_AGAIN
}
