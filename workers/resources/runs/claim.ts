/**
 * Claiming a run: one compare-and-set on the thread row, then the run row. A run with a dead holder is released first,
 * which charges its attempt; a living holder is never replaced.
 */
import { v4 } from 'uuid'
import type { Reply } from '../../../bus/serve.js'
import type { Claim } from '../../../schemas/calls.js'
import { PER_CLAIM } from '../../../schemas/checkpoints.js'
import { WeftError } from '../../../schemas/errors.js'
import { packText } from '../../../schemas/packed.js'
import { isTerminal } from '../../../schemas/runs.js'
import { firstIdOf } from '../../../schemas/subjects.js'
import type { RunRow, ThreadRow } from '../../../store/port.js'
import type { Deps } from '../context.js'
import { packTuples } from '../rows/checkpoint.js'
import { baseText, firstEligible } from '../rows/thread-status.js'
import { readReference } from './payload.js'
import { release } from './release.js'
import { isHalfClaimed, repair } from './repair.js'
import { announceClaim } from './view.js'
import { wakeNext } from './wake.js'

const steps = [repairHalfDone, answerEnded, answerHeld, answerWaiting, take] as const

/** The rows changed: read them again. */
const READ_AGAIN = 'read again'

interface Claiming {
  deps: Deps
  request: Claim
  thread: ThreadRow
  run: RunRow
  /** The thread holds the run as its running one. */
  isHeld: boolean
  /** … by a worker that sends no heartbeats any more. */
  isDead: boolean
}

type Outcome = Reply | typeof READ_AGAIN | null

export async function claim(deps: Deps, request: Claim): Promise<Reply> {
  const { store } = deps
  for (;;) {
    const [thread, run] = await Promise.all([
      store.threads.get(null, request.thread_id),
      store.runs.get(request.run_id),
    ])
    if (thread === null || run === null) return ENDED
    const isHeld = thread.active?.run_id === run.run_id
    const isDead = isHeld && deps.holders.isDead(run)
    const outcome = await first({ deps, request, thread, run, isHeld, isDead })
    if (outcome === READ_AGAIN) continue
    deps.link.figures.count('weft_run_claims_total', { answer: outcome.head!.claim! })
    return outcome
  }
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
  if (!isDead) return { head: { claim: 'held' } }
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
  if (next !== null) wakeNext(deps, thread.queue)
  return { head: { claim: 'waiting' } }
}

/** A run whose alarm fired may start, even if the clock of this worker is a little behind. */
function nowFor({ run_id, due_at }: RunRow, { queue }: ThreadRow): number {
  const own = due_at === 0 ? queue.find(one => one.run_id === run_id)?.due_at : 0
  return Math.max(Date.now(), own ?? 0)
}

async function take({ deps, request, thread, run }: Claiming): Promise<Outcome> {
  const { store } = deps
  const now = Date.now()
  const attempt = run.attempt + 1
  const token = v4()
  const claim_no = thread.claim_no + 1
  const { charges = 0 } = thread.queue.find(one => one.run_id === run.run_id) ?? {}
  const { latest_checkpoint_id: checkpoint_id } = thread
  const kwargs = await findKwargs(deps, run)
  const [failed, tuple] = await Promise.all([
    store.apply([
      {
        step: 'threads.patch',
        thread_id: thread.thread_id,
        where: { rev: thread.rev },
        set: {
          active: { run_id: run.run_id, attempt, token, charges, checkpoint_id },
          queue: thread.queue.filter(one => one.run_id !== run.run_id),
          claim_no,
          status: 'busy',
        },
      },
      {
        step: 'runs.patch',
        run_id: run.run_id,
        // With the attempt that was read: a repair of this claim raises it, and the claim must fail then.
        where: { status: ['pending', 'running', 'accepting'], attempt: run.attempt },
        set: {
          status: 'running',
          attempt,
          token,
          worker: request.worker,
          started_at: run.started_at ?? now,
          updated_at: now,
          claim_no,
          base: run.base ?? baseText(thread),
        },
      },
    ]),
    run.temporary || checkpoint_id === null ? null : store.checkpoints.get({ thread_id: thread.thread_id }),
  ])
  if (failed === 1) {
    // Held on the thread row, while another claim has the run or it has ended: no other call would release it soon.
    const held = await store.threads.get(null, thread.thread_id)
    if (held?.active?.token === token) await repair(deps, held, run.run_id)
  }
  if (failed !== -1) return READ_AGAIN
  announceClaim(deps, { ...run, status: 'running', attempt, claim_no })
  const lease = { ...leaseFields(run), attempt, token }
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
  return {
    head: { claim: 'taken', lease },
    body: packText(startText({ ...run, kwargs }, attempt, claim_no), tuple === null ? [] : [packTuples([tuple])]),
  }
}

/** The whole kwargs; null when the assistant that they refer to was deleted. */
async function findKwargs({ store }: Deps, run: RunRow): Promise<string | null> {
  const reference = readReference(run)
  if (reference === null) return run.kwargs
  const { app, assistant_id } = run
  const { version, created_at } = reference
  const current = await store.assistants.get(app, assistant_id)
  // Another one may have been made with the same id.
  if (current === null || current.created_at !== created_at) return null
  const found = current.version === version ? current : await store.assistants.version(app, assistant_id, version)
  return found && reference.whole(found)
}

/** Fields of a lease that stay the same over the attempts. */
const leaseFields = (run: RunRow) => ({
  run_id: run.run_id,
  thread_id: run.thread_id,
  graph_id: run.graph_id,
  resumable: run.resumable,
  temporary: run.temporary,
  resumable_until_id: run.resumable_until_id,
  ...(run.traceparent === null ? {} : { traceparent: run.traceparent }),
})

/** StartHead (schemas/host.ts) as JSON text; stored JSON is inserted as it is. */
const startText = (run: RunRow, attempt: number, claim_no: number): string =>
  `{"run_id":"${run.run_id}","thread_id":"${run.thread_id}","graph_id":${JSON.stringify(run.graph_id)},"attempt":${attempt},"first_id":${firstIdOf(attempt)},` +
  `"first_seq":${claim_no * PER_CLAIM},"metadata":${run.metadata},"kwargs":${run.kwargs},"want_values":${run.mode !== 'stream' || run.temporary},"events":${run.mode === 'events'}${run.auth_user ? `,"user":${run.auth_user}` : ''}}`
