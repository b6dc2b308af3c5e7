/**
 * Completes creates, claims and ends that a crash interrupted between two steps (decision 003). A store with transactions
 * never needs it; it is called for all stores, because the port allows stores without.
 */
import { jsonText } from '../../../schemas/exact.js'
import { isTerminal } from '../../../schemas/runs.js'
import type { RunSummary } from '../../../store/rows/runs.js'
import type { Active, ThreadRow } from '../../../store/rows/threads.js'
import type { Step } from '../../../store/steps.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { plainError } from '../rows/text.js'
import { firstEligible, leftBy, statusOf } from '../rows/thread-status.js'
import { computeFinalState, refreshLater } from '../state/final-state.js'
import { isRefusedAnswer, settledOf } from '../state/kept-state.js'
import { announceDropped, dropStep } from './drop.js'
import { removeKey } from './idempotency.js'
import { wakeRun } from './wake.js'

/** Claimed on the thread row, not on the run row: no worker executes it. Or the claim was undone on the run row already. */
export const isHalfClaimed = (active: Active, run: RunSummary): boolean =>
  run.attempt < active.attempt || (run.attempt === active.attempt && run.token !== active.token)

/** Released on the run row, not on the thread row. */
const isHalfReleased = (active: Active, run: RunSummary): boolean =>
  run.status === 'pending' && run.attempt === active.attempt && run.token === active.token

/**
 * Makes one thread and its runs consistent. True when something was changed, here or by another worker: then read again.
 * `only`: leaves the claim or end of other runs alone, because it may be under way.
 */
export async function repair(deps: Deps, thread: ThreadRow, only?: string): Promise<boolean> {
  const { store, link } = deps
  const ids = [...thread.queue.map(one => one.run_id), ...(thread.active === null ? [] : [thread.active.run_id])]
  const runs = new Map((await store.runs.summary(ids)).map(run => [run.run_id, run]))
  const steps: Step[] = []
  let { active, queue } = thread
  let after: Pick<ThreadRow, 'settled' | 'interrupts' | 'error' | 'left_by'> = thread
  if (active !== null && (only === undefined || active.run_id === only)) {
    const run = runs.get(active.run_id)
    // Ended, but the thread was not released: the run row is written first.
    if (run === undefined) active = null
    else if (isTerminal(run.status)) {
      active = null
      after = await settledBy(deps, thread, run)
    } else if (isHalfClaimed(active, run) || (only === undefined && isHalfReleased(active, run))) {
      // The claim may still be under way: another attempt in the run row makes it fail.
      const { run_id, attempt } = run
      if (attempt < active.attempt)
        steps.push({ step: 'runs.patch', run_id, where: { attempt }, set: { attempt: active.attempt } })
      const { charges } = active
      const position = Math.min(thread.next_position, ...queue.map(one => one.position)) - 1
      queue = [{ run_id, position, due_at: 0, ...(charges ? { charges } : {}) }, ...queue]
      active = null
    }
  }
  // Ended or removed while they were queued.
  queue = queue.filter(one => {
    const run = runs.get(one.run_id)
    return run !== undefined && !isTerminal(run.status)
  })
  // Queued, but never shown.
  for (const { run_id } of queue)
    if (runs.get(run_id)?.status === 'accepting')
      steps.push({
        step: 'runs.patch',
        run_id,
        where: { status: ['accepting'] },
        set: { status: 'pending' },
        optional: true,
      })
  const changed = active !== thread.active || queue.length !== thread.queue.length
  const { settled, interrupts, error, left_by } = after
  const status = statusOf({ active, queue, settled })
  if (changed || status !== thread.status)
    steps.push({
      step: 'threads.patch',
      thread_id: thread.thread_id,
      where: { rev: thread.rev },
      set: { active, queue, status, settled, interrupts, left_by, error, updated_at: clock.now() },
    })
  if (steps.length === 0) return false
  if ((await store.apply(steps)) !== -1) return true
  link.log.warn({ thread_id: thread.thread_id }, 'thread repaired')
  await wakeFirst(deps, { ...thread, active, queue }, runs)
  return true
}

/** The fields of the thread as the end of the run would have written them. */
async function settledBy(deps: Deps, thread: ThreadRow, run: RunSummary) {
  const left = await computeFinalState(deps, thread, run)
  if (left === null) refreshLater(deps, thread)
  const interrupts = left === null ? thread.interrupts : jsonText(left.interrupts)
  const { left_by } = { ...thread, ...leftBy(run, thread.latest_checkpoint_id) }
  return {
    settled: settledOf(run.error, left, thread.settled),
    interrupts,
    left_by,
    error: run.error === null || isRefusedAnswer(run.error) ? null : plainError(run.error),
  }
}

async function wakeFirst(deps: Deps, thread: ThreadRow, runs: Map<string, RunSummary>): Promise<void> {
  const first = thread.active === null ? firstEligible(thread.queue, clock.now()) : null
  const run = first === null ? undefined : runs.get(first.run_id)
  if (run !== undefined) await wakeRun(deps, run, `${run.run_id}:${run.attempt}:repair${thread.rev}`)
}

/**
 * Ends a run that its thread does not hold, neither as the running one nor in its queue. If it was not queued within 30 s
 * of its insert, it was never accepted: its client got no 2xx. Else a crash came between the thread row, which released
 * it, and its own row: it was rolled back, or a newer run replaced it.
 */
export async function dropOrphan(deps: Deps, run: RunSummary): Promise<void> {
  const { store, link } = deps
  const { run_id, status, attempt } = run
  const thread = await store.threads.get(run.app, run.thread_id)
  const held = thread !== null && (thread.active?.run_id === run_id || thread.queue.some(one => one.run_id === run_id))
  if (held) return
  const where = { status: [status], attempt }
  if (status === 'accepting' || run.cancel === 'rollback' || thread === null) {
    if (status === 'accepting') await removeKey(store, run)
    await store.apply([{ step: 'runs.remove', run_id, where, optional: true }])
    return
  }
  const drop = dropStep(run, 'interrupt', run.cancel_reason ?? 'superseded: a newer run took its place', clock.now())
  if ((await store.apply([{ ...drop, where }])) !== -1) return
  link.log.warn({ run_id, thread_id: run.thread_id }, 'orphaned run ended')
  announceDropped(deps, run)
}
