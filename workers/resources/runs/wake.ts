/** Publishes the wake-ups of runs, each to the pool that serves its application now. */
import { wake } from '../../../bus/queue.js'
import { token } from '../../../schemas/ids.js'
import { isTerminal } from '../../../schemas/runs.js'
import type { RunSummary } from '../../../store/rows/runs.js'
import type { Queued } from '../../../store/rows/threads.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { firstEligible } from '../rows/thread-status.js'

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

/** Publishes the wake-up of the first run in line, beside what waits for the caller: the sweeper repeats a lost one. */
export function wakeNext(deps: Deps, queue: readonly Queued[]): void {
  const next = firstEligible(queue, clock.now())
  if (next === null) return
  const publish = async () => {
    const [run] = await deps.encryption.plain.runs.summary([next.run_id])
    if (run === undefined || isTerminal(run.status)) return
    const id = `${next.run_id}:${run.attempt + 1}:next`
    await wakeRun(deps, run, id)
  }
  publish().catch(error => deps.link.log.warn({ err: error, run_id: next.run_id }, 'a wake-up was not published'))
}
