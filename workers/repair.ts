/**
 * What a crash between two steps of a create, claim or end leaves half done, and how it is finished (design 2.3). A
 * store that applies steps all or none never needs it; it is called all the same, because the port allows the other.
 */
import { isTerminal } from '../schemas/runs.js'
import type { RunSummary, Step, ThreadRow } from '../store/port.js'
import type { Tools } from './context.js'
import { settledOf } from './projection.js'
import { leftOf, refreshLater } from './run-left.js'
import { forgetKey } from './run-once.js'
import { firstEligible, statusOf } from './run-status.js'
import { wakeRun } from './wake.js'

/** Brings one thread and its runs back into step. True when something was changed. */
export async function repair(tools: Tools, thread: ThreadRow): Promise<boolean> {
  const { store, link } = tools
  const ids = [...thread.queue.map(one => one.run_id), ...(thread.active === null ? [] : [thread.active.run_id])]
  const runs = new Map((await store.runs.summary(ids)).map(run => [run.run_id, run]))
  const steps: Step[] = []
  let { active, queue } = thread
  let after: Pick<ThreadRow, 'settled' | 'interrupts' | 'error'> = thread
  if (active !== null) {
    const run = runs.get(active.run_id)
    // Ended, but the thread was not released: the run row went first.
    if (run === undefined) active = null
    else if (isTerminal(run.status)) {
      active = null
      after = await settledBy(tools, thread, run)
    }
    // Claimed on the thread, never on the run: nobody executes it.
    else if (run.token !== active.token) {
      queue = [
        { run_id: run.run_id, no: Math.min(thread.next_no, ...queue.map(one => one.no)) - 1, due_at: 0 },
        ...queue,
      ]
      active = null
    }
  }
  // Ended or removed while they stood in line.
  queue = queue.filter(one => {
    const run = runs.get(one.run_id)
    return run !== undefined && !isTerminal(run.status)
  })
  // Taken by the thread, but never shown.
  for (const { run_id } of queue)
    if (runs.get(run_id)?.status === 'accepting')
      steps.push({ step: 'runs.patch', run_id, where: { status: ['accepting'] }, set: { status: 'pending' } })
  const changed = active !== thread.active || queue.length !== thread.queue.length
  const { settled, interrupts, error } = after
  const status = statusOf({ active, queue, settled })
  if (changed || status !== thread.status)
    steps.push({
      step: 'threads.patch',
      thread_id: thread.thread_id,
      where: { rev: thread.rev },
      set: { active, queue, status, settled, interrupts, error, updated_at: Date.now() },
    })
  if (steps.length === 0) return false
  if ((await store.apply(steps)) !== -1) return false
  link.log.warn({ thread_id: thread.thread_id }, 'a thread was brought back into step with its runs')
  await wakeFirst(tools, { ...thread, active, queue }, runs)
  return true
}

/** What the thread would say, had the end of the run come through. */
async function settledBy(tools: Tools, thread: ThreadRow, run: RunSummary) {
  const left = await leftOf(tools, thread, run)
  if (left === null) refreshLater(tools, thread)
  const interrupts = left === null ? thread.interrupts : JSON.stringify(left.interrupts)
  return { settled: settledOf(run.error, left, thread.settled), interrupts, error: run.error }
}

async function wakeFirst(tools: Tools, thread: ThreadRow, runs: Map<string, RunSummary>): Promise<void> {
  const first = thread.active === null ? firstEligible(thread.queue, Date.now()) : null
  const run = first === null ? undefined : runs.get(first.run_id)
  if (run !== undefined) await wakeRun(tools, run, `${run.run_id}:${run.attempt}:repair${thread.rev}`)
}

/** A run that no thread row has taken within 30 s of its insert was never accepted: its client got no 2xx. */
export async function dropUnaccepted({ store }: Tools, run: RunSummary): Promise<void> {
  const thread = await store.threads.get(run.app, run.thread_id)
  const taken =
    thread !== null && (thread.active?.run_id === run.run_id || thread.queue.some(one => one.run_id === run.run_id))
  if (taken) return
  await forgetKey(store, run)
  await store.apply([{ step: 'runs.remove', run_id: run.run_id, where: { status: ['accepting'] } }])
}
