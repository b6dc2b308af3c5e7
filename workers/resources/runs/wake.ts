/** Publishes the wake-ups of runs, each to the pool that serves its application now. */
import { wake } from '../../../bus/queue.js'
import { token } from '../../../schemas/ids.js'
import { isTerminal } from '../../../schemas/runs.js'
import type { RecordRow } from '../../../store/rows/records.js'
import type { RunSummary } from '../../../store/rows/runs.js'
import type { Queued } from '../../../store/rows/threads.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { firstEligible } from '../rows/thread-status.js'

type Waking = Pick<Deps, 'link' | 'mux' | 'apps' | 'streams' | 'store' | 'scheduler'>

/**
 * Resolves to false when the broker did not confirm. A run that was accepted under an earlier revision goes to the pool of
 * the active one, because its own workers may have been stopped. `id` makes a repeat within two minutes harmless.
 */
export async function wakeRun(
  { link, mux, apps, streams, store, scheduler }: Waking,
  run: Pick<RunSummary, 'app' | 'run_id' | 'thread_id' | 'pool' | 'status' | 'tenant' | 'ready_at'>,
  id: string,
): Promise<boolean> {
  const { run_id, thread_id } = run
  // The wake-up of a running run is for whoever takes it from its dead holder.
  const any = scheduler.isOn && run.status !== 'running'
  if (any && !run.ready_at) {
    // A run that was created before the operator asked for scheduling has no tenant.
    const set = { ready_at: clock.now(), tenant: run.tenant ?? '' }
    await store.apply([{ step: 'runs.patch', run_id, where: { status: ['pending'] }, set }])
  }
  const pool = await apps.poolFor(run.app, run.pool)
  const wakeUp = { run_id, thread_id, ...(any ? { any } : {}) }
  const published = await wake(link, mux, token('pool', pool), wakeUp, id)
  if (!published) void streams.check()
  return published
}

/** A run has left its slot: runs that a limit kept waiting were woken in vain before. */
export function wakeLimited(deps: Waking, run: RunSummary): void {
  if (!deps.scheduler.hasLimits) return
  const id = `${run.run_id}:${run.attempt}:left`
  wakeRun(deps, { ...run, status: 'pending', ready_at: clock.now() }, id).catch(error =>
    deps.link.log.warn({ err: error, run_id: run.run_id }, 'a wake-up was not published'),
  )
}

/** The alarm of a rate: wakes as many runs of its tenant as may start. The wake-ups come first, so that none is lost. */
export async function wakePaced(deps: Deps, row: RecordRow): Promise<boolean> {
  const { runs, step } = await deps.scheduler.due(row)
  const wakeUps = runs.map((run, i) =>
    // All workers that fire the alarm publish the same ones.
    wakeRun(
      deps,
      { ...run, app: row.app, status: 'pending', ready_at: run.created_at },
      `rate:${row.id}:${row.rev}:${i}`,
    ),
  )
  await Promise.all(wakeUps)
  return (await deps.store.apply([step])) === -1
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
