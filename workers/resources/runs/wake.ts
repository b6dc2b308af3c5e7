/** Publishes the wake-up of a run to the pool that serves its application now. */
import { wake } from '../../../bus/queue.js'
import { token } from '../../../schemas/ids.js'
import type { RunSummary } from '../../../store/port.js'
import type { Deps } from '../context.js'

/**
 * Resolves to false when the broker did not confirm. A run that was accepted under an earlier revision goes to the pool of
 * the active one, because its own workers may have been stopped. `id` makes a repeat within two minutes harmless.
 */
export async function wakeRun(
  { link, mux, apps, streams }: Pick<Deps, 'link' | 'mux' | 'apps' | 'streams'>,
  run: Pick<RunSummary, 'app' | 'run_id' | 'thread_id' | 'pool'>,
  id: string,
): Promise<boolean> {
  const pool = await apps.poolFor(run.app, run.pool)
  const published = await wake(link, mux, token('pool', pool), { run_id: run.run_id, thread_id: run.thread_id }, id)
  if (!published) void streams.check()
  return published
}
