/**
 * Runs of a graph that is not loaded here. Workers of one pool may load other graphs: during a deployment, or when two
 * applications use the pool by mistake. The run is not charged while another worker may take it.
 */
import type { Log } from '../../bus/log.js'
import type { Pool, RunId } from '../../schemas/ids.js'
import type { HandBack } from './hand-back.js'
import type { ActiveRun } from './run-table.js'

/** Such a run is given back after this time, so that another worker may take it. */
const MISPLACED_MS = 1_000
/** After this time it is charged: it ends as an error when no worker of the pool loads its graph. */
const MISPLACED_LIMIT_MS = 60_000
const MAX_MISPLACED = 10_000

export function openMisplaced({ log, pool, handBack }: { log: Log; pool: Pool; handBack: HandBack }) {
  /** When the first attempt of each came. */
  const firstSeen = new Map<RunId, number>()
  return {
    giveBack(run: ActiveRun): void {
      const { run_id, graph_id, attempt } = run.lease
      const since = firstSeen.get(run.run_id) ?? performance.now()
      firstSeen.set(run.run_id, since)
      if (firstSeen.size > MAX_MISPLACED) firstSeen.delete(firstSeen.keys().next().value!)
      log.warn({ run_id, graph_id, attempt, pool }, 'a run of this pool needs a graph that is not loaded here')
      const charge = performance.now() - since > MISPLACED_LIMIT_MS
      const error = {
        error: 'GraphNotLoaded',
        message: `Graph "${graph_id}" is not loaded by the workers of pool "${pool}"`,
      }
      setTimeout(() => handBack.giveBack(run, { charge, end: null, error }), MISPLACED_MS)
    },
  }
}
