/**
 * Runs that a graph worker held when its process ended, as the launcher of `weft start` has seen: nobody has to wait for
 * their heartbeats. They are taken over as those of any dead holder, and their attempt is charged.
 */
import type { RunningRun } from '../../../store/rows/runs.js'
import type { Deps } from '../context.js'
import { pages } from '../rows/pages.js'

const PAGE = 1_000

/** `ended`: what the launcher has named the processes, the end of the names of their workers. */
export async function endHolders({ store, encryption, holders, link }: Deps, ended: readonly string[]): Promise<void> {
  let count = 0
  const read = (after: RunningRun | undefined) => store.runs.running(PAGE, after?.run_id)
  for await (const page of pages(read, PAGE))
    for (const run of await encryption.plain.runs.summary(page.map(({ run_id }) => run_id))) {
      if (run.status !== 'running' || !ended.some(instance => run.worker?.endsWith(`-${instance}`))) continue
      holders.end(run)
      count++
    }
  if (count > 0) link.log.warn({ runs: count }, 'runs of a process that has ended are taken over')
}
