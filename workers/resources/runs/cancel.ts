/** Cancelling runs (docs/spec/runs.md#cancel): a field of the row makes it durable, a message makes it fast. */
import { setTimeout as sleep } from 'node:timers/promises'
import { cancelReaches } from '../../../bus/events.js'
import { type CallHead, HAND_OVER_MS } from '../../../schemas/calls.js'
import { fail, WeftError } from '../../../schemas/errors.js'
import { token } from '../../../schemas/ids.js'
import { isTerminal } from '../../../schemas/runs.js'
import type { RunSummary } from '../../../store/rows/runs.js'
import type { Step } from '../../../store/steps.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { leftBy, statusOf } from '../rows/thread-status.js'
import { announceDropped, dropStep } from './drop.js'
import { release } from './release.js'
import { wakeNext } from './wake.js'

export type Action = 'interrupt' | 'rollback'

/** `action` of the query; throws invalid. */
export function actionOf({ query }: CallHead): Action {
  const action = new URLSearchParams(query).get('action') || 'interrupt'
  if (action !== 'interrupt' && action !== 'rollback')
    throw fail('invalid', `action: expected interrupt or rollback, got "${action.slice(0, 80)}"`)
  return action
}

/** `cancel_reason` of a run: a word and a sentence (docs/spec/runs.md#run; the SDK knows `taken`). */
export const REASONS = {
  client: 'cancelled: a client asked for it',
  taken: 'taken: its input was absorbed by another run',
  disconnect: 'disconnected: the client that waited for it went away',
  thread: 'deleted: its thread is deleted',
  assistant: 'deleted: its assistant is deleted',
  key: 'revoked: the key that created it was revoked or has expired',
} as const

/** `reason` of the query; throws invalid. */
export function reasonOf({ query }: CallHead, action: Action): string {
  if (new URLSearchParams(query).get('reason') !== 'taken') return REASONS.client
  if (action === 'rollback') throw fail('invalid', 'reason: taken is allowed with action interrupt only')
  return REASONS.taken
}

/**
 * Repeatable. A pending run ends at once (rollback: is removed); the holder of a running one gets a signal and ends it.
 * Throws conflict when the run has ended already.
 */
export async function cancel(deps: Deps, run_id: string, action: Action, reason: string): Promise<void> {
  const [run] = await deps.store.runs.summary([run_id])
  if (run !== undefined) await deps.serialize(run.thread_id, () => cancelNow(deps, run, action, reason))
}

/** Like `cancel`, inside the work of its thread. */
export async function cancelNow(deps: Deps, found: RunSummary, action: Action, reason: string): Promise<void> {
  const { store } = deps
  const { app, run_id, thread_id } = found
  /** The run row is terminal, but the run is still in the queue of its thread. */
  let marked: RunSummary | null = null
  for (;;) {
    const [run] = await store.runs.summary([run_id])
    if (marked === null) {
      if (run === undefined) return
      if (isTerminal(run.status)) throw fail('conflict', `Run ${run_id} has already ended with status ${run.status}`)
      if (run.status === 'running') {
        // A later interrupt does not revoke a rollback.
        const wanted = run.cancel === 'rollback' ? 'rollback' : action
        // The first request decides the reason.
        const cancel_reason = run.cancel === null ? reason : run.cancel_reason
        const set = { cancel: wanted, cancel_due_at: null, cancel_reason } as const
        const failed = await store.apply([{ step: 'runs.patch', run_id, where: { status: ['running'] }, set }])
        if (failed !== -1) continue
        void endAbandoned(deps, run)
        return
      }
    }
    const thread = await store.threads.get(app, thread_id)
    if (thread === null) return
    const now = clock.now()
    const queue = thread.queue.filter(one => one.run_id !== run_id)
    // The run row first: an ended run in the queue is skipped, while a pending run outside the queue would be lost.
    const place: Step = {
      step: 'threads.patch',
      thread_id,
      where: { rev: thread.rev },
      set: {
        queue,
        status: statusOf({ ...thread, queue }),
        updated_at: now,
        // An earlier attempt may have stored checkpoints.
        ...leftBy(marked ?? run!, thread.latest_checkpoint_id),
      },
    }
    const failed = await store.apply(marked === null ? [dropStep(run!, action, reason, now), place] : [place])
    if (failed === 1) marked = (await store.runs.summary([run_id]))[0]?.status === run!.status ? null : run!
    if (failed !== -1) continue
    announceDropped(deps, marked ?? run!)
    if (thread.active === null) wakeNext(deps, queue)
    return
  }
}

/** Looks at the holder of a cancelled run: as long as it may take to stop. */
const LOOKS_MS = 30_000
const LOOK_MS = 1_000
/** Time until a run that is being handed over is signalled again. */
const AGAIN_MS = 100

/**
 * Signals the holder of a run to stop. When the holder turns out to be dead, the run is ended here: its next attempt would
 * end it at once, but only after the wake-up is delivered again. A holder that nobody can signal may be cut off and start
 * nodes until its lease is too old (host/node-gate.ts), so that alone ends no run.
 */
async function endAbandoned(
  deps: Deps,
  { app, run_id, thread_id, attempt, token: lease, ...found }: RunSummary,
): Promise<void> {
  const { store, holders, link } = deps
  try {
    let isReached = false
    for (const until = performance.now() + LOOKS_MS; performance.now() < until; ) {
      // A claim by the pool of a newer revision may be under way.
      const pools = new Set([found.pool, await deps.apps.poolFor(app, found.pool)])
      for (const pool of pools) isReached ||= await cancelReaches(deps.mux, token('pool', pool), token('run', run_id))
      const [run] = await store.runs.summary([run_id])
      if (run === undefined || run.status !== 'running' || run.attempt !== attempt) return
      if (holders.isDead(run)) {
        const error = { error: 'Cancelled', message: 'the run was cancelled' }
        const body = { charge: false, end: null, error, last_event_id: null }
        const { heartbeats } = run
        const ended = await deps
          .serialize(thread_id, () =>
            release(deps, { run_id, thread_id, attempt, token: lease! }, body, { heartbeats }),
          )
          .then(() => true, isFenced)
        // Else a heartbeat arrived meanwhile: the holder is alive.
        if (ended === true) return
      }
      await sleep(!isReached && mayBeUnderWay(run) ? AGAIN_MS : LOOK_MS, undefined, { ref: false })
    }
  } catch (error) {
    link.log.warn({ err: error, run_id }, 'a cancelled run could not be ended; its next claim ends it')
  }
}

/** Claimed just now, by the commit that accepted it: its holder may receive it after the signal. */
const mayBeUnderWay = ({ started_at, heartbeats }: RunSummary): boolean =>
  heartbeats === 0 && Math.abs(clock.now() - (started_at ?? 0)) < HAND_OVER_MS

/** False for `fenced`; throws other errors. */
function isFenced(error: unknown): false {
  if (error instanceof WeftError && error.code === 'fenced') return false
  throw error
}

/** Handles the error of `cancel` where a run that has ended already is no failure. */
export const ignoreEnded = (error: unknown) => {
  if (!(error instanceof WeftError) || error.code !== 'conflict') throw error
}

/** Cancels a run after the grace of its client. */
export const cancelDue = (deps: Deps, { run_id }: RunSummary): Promise<void> =>
  cancel(deps, run_id, 'interrupt', REASONS.disconnect).catch(ignoreEnded)
