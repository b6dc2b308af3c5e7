/** Why a pending run has not begun: the first reason that holds, in the order in which they would delay it. */
import { time } from '../../../schemas/json.js'
import type { RunWait } from '../../../schemas/runs.js'
import type { RunRow } from '../../../store/rows/runs.js'
import type { Access } from '../access.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { firstEligible } from '../rows/thread-status.js'

/** Null: the run has begun, or its thread is being removed. A caller who sees only some threads gets no counts of others. */
export async function waitOf(
  { store, apps, scheduler }: Pick<Deps, 'store' | 'apps' | 'scheduler'>,
  run: RunRow,
  { filter }: Pick<Access, 'filter'>,
): Promise<RunWait | null> {
  if (run.status !== 'pending' && run.status !== 'accepting') return null
  const now = clock.now()
  if (run.due_at > now) return { reason: 'time', until: time(run.due_at) }
  const thread = await store.threads.get(run.app, run.thread_id)
  if (thread === null) return null
  const before = thread.active?.run_id ?? firstEligible(thread.queue, now)?.run_id
  if (before !== undefined && before !== run.run_id) return { reason: 'thread', run_id: before }
  if (apps.announcedFor(await apps.poolFor(run.app, run.pool)) === null) return { reason: 'worker' }
  const limit = await scheduler.limitOf(run)
  if (limit === null) {
    const free = await scheduler.freeAt(run)
    return free === null ? { reason: 'slot' } : { reason: 'rate', of: 'tenant', until: time(free) }
  }
  const { of, running, most } = limit
  return { reason: 'limit', of, ...(filter === null ? { running, most } : {}) }
}
