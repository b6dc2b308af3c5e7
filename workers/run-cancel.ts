/** Cancelling a run with action interrupt (API: threads-and-runs 11): a field of the row first, a message to be quick. */
import { announceEnd, sendCancel } from '../bus/events.js'
import { token } from '../schemas/ids.js'
import { isTerminal } from '../schemas/runs.js'
import type { Tools } from './context.js'
import { wakeNext } from './run-settle.js'
import { restingStatus } from './run-status.js'

/** Repeatable. A pending run ends at once; a running one is told to stop and settles as `interrupted`. */
export async function cancel(tools: Tools, run_id: string): Promise<void> {
  const { store, link } = tools
  for (;;) {
    const [run] = await store.runs.summary([run_id])
    if (run === undefined || isTerminal(run.status)) return
    if (run.status === 'running') {
      const failed = await store.apply([{ step: 'runs.patch', run_id, where: { status: ['running'] }, set: { cancel: 'interrupt', cancel_due_at: null } }])
      if (failed !== -1) continue
      return sendCancel(link, token('run', run_id))
    }
    const thread = await store.threads.get(run.app, run.thread_id)
    if (thread === null) return
    const now = Date.now()
    const queue = thread.queue.filter(one => one.run_id !== run_id)
    const failed = await store.apply([
      {
        step: 'runs.patch',
        run_id,
        where: { status: ['accepting', 'pending'] },
        set: { status: 'interrupted', cancel: 'interrupt', cancel_due_at: null, ended_at: now, updated_at: now, last_event_id: -1, ...(run.temporary ? { result: Buffer.from('{}') } : {}) },
      },
      { step: 'threads.patch', thread_id: run.thread_id, where: { rev: thread.rev }, set: { queue, status: restingStatus({ ...thread, queue }), updated_at: now } },
    ])
    if (failed !== -1) continue
    announceEnd(link, token('run', run_id), { status: 'interrupted', last_event_id: -1, result: Buffer.from('{}'), error: null })
    if (thread.active === null) await wakeNext(tools, queue, run.thread_id)
    return
  }
}
