/**
 * The effect of a new run on the runs before it (docs/spec/runs.md#multitask-strategies). The decision is made on the
 * thread row that is then compared and set, so that two callers cannot both be first.
 */
import { sendCancel } from '../../../bus/events.js'
import { fail } from '../../../schemas/errors.js'
import { token } from '../../../schemas/ids.js'
import { isTerminal } from '../../../schemas/runs.js'
import type { RunRow, RunSummary } from '../../../store/rows/runs.js'
import type { Active, Queued, ThreadRow } from '../../../store/rows/threads.js'
import type { Step } from '../../../store/steps.js'
import type { Deps } from '../context.js'
import { announceDropped, dropStep } from './drop.js'

/** Length of the queue of a thread; the next run is refused with 429. */
const MAX_QUEUED = 1_000

export interface Decision {
  queue: Queued[]
  /** Waiting runs that must not start. */
  dropped: RunSummary[]
  /** The running run, which must stop. */
  stopped: Active | null
  /** The run is queued already: a repeated create. */
  known: boolean
}

export async function decide({ store }: Deps, run: RunRow, thread: ThreadRow): Promise<Decision> {
  const known = thread.active?.run_id === run.run_id || thread.queue.some(one => one.run_id === run.run_id)
  const mine: Queued = { run_id: run.run_id, position: thread.next_position, due_at: run.due_at }
  const busy = thread.active !== null || thread.queue.length > 0
  const strategy = run.multitask_strategy
  // A repeated create: the first one emptied the queue already, but the running run may not have the signal yet.
  if (known && (strategy === 'interrupt' || strategy === 'rollback')) {
    const stopped = thread.active?.run_id === run.run_id ? null : thread.active
    return { queue: thread.queue, dropped: [], stopped, known }
  }
  if (known || !busy || strategy === 'enqueue') {
    if (!known && thread.queue.length >= MAX_QUEUED)
      throw fail('too_many', `The thread has ${MAX_QUEUED} runs in line; wait for one of them to end`)
    return { queue: [...thread.queue, mine], dropped: [], stopped: null, known }
  }
  if (strategy === 'reject') {
    // A repeated create whose run ended meanwhile makes no second run.
    const [stored] = await store.runs.summary([run.run_id])
    if (stored !== undefined && stored.status !== 'accepting')
      return { queue: thread.queue, dropped: [], stopped: null, known: true }
    throw fail(
      'conflict',
      'Thread is already running a task. Wait for it to finish or choose a different multitask strategy.',
    )
  }
  const dropped = (await store.runs.summary(thread.queue.map(one => one.run_id))).filter(one => !isTerminal(one.status))
  return { queue: [mine], dropped, stopped: thread.active, known }
}

/**
 * The steps that end or stop the earlier runs, after the new run is queued. Optional: outside the queue they cannot start,
 * and a run that ended meanwhile needs nothing.
 */
export function dropSteps({ dropped, stopped }: Decision, run: RunRow): Step[] {
  const action = run.multitask_strategy === 'rollback' ? 'rollback' : 'interrupt'
  const cancel_reason = `superseded: run ${run.run_id} took its place`
  const steps: Step[] = dropped.map(one => ({
    ...dropStep(one, action, cancel_reason, run.created_at),
    optional: true,
  }))
  if (stopped !== null) {
    steps.push({
      step: 'runs.patch',
      run_id: stopped.run_id,
      where: { token: stopped.token, status: ['running'] },
      set: { cancel: action, cancel_reason },
      optional: true,
    })
  }
  return steps
}

/** Notifies the readers of dropped runs, and signals the holder of the running one to stop. */
export function followUp(deps: Deps, { dropped, stopped }: Decision, run: RunRow): void {
  // Runs that were rolled back have no webhook: their rows were removed.
  const rollback = run.multitask_strategy === 'rollback'
  for (const one of dropped) announceDropped(deps, rollback ? { ...one, webhook: null } : one)
  if (stopped !== null) sendCancel(deps.link, token('pool', stopped.pool ?? run.pool), token('run', stopped.run_id))
}
