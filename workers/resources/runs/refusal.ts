/** Why a run may not start: asked when it is accepted and may start at once, else when it is claimed. */
import { parseJson } from '../../../schemas/exact.js'
import type { JsonObject } from '../../../schemas/json.js'
import type { RunRow } from '../../../store/rows/runs.js'
import type { ThreadRow } from '../../../store/rows/threads.js'
import type { Deps } from '../context.js'
import { findValidKey } from '../keys/row.js'
import { graphIds } from '../state/ask-graph.js'
import { REASONS } from './cancel.js'

/** The `cancel_reason` of a run that was accepted earlier; null: it may start. `thread`: its row, with the run in its queue. */
export async function refusalOf(deps: Deps, thread: ThreadRow, run: RunRow): Promise<string | null> {
  // A delayed run is work for later, as that of a cron: a key that is no longer valid does not begin it.
  const isDelayed = thread.queue.some(({ run_id, due_at }) => run_id === run.run_id && due_at > 0)
  if (isDelayed && run.key_id !== null && (await findValidKey(deps.store, run.key_id)) === null) return REASONS.key
  const fault = await resumeFault(deps, thread, run)
  return fault === null ? null : `refused: ${fault}`
}

/**
 * Why the thread does not take the run as an answer: its tasks wait for that of another graph, which would be lost (decision
 * 076). Null: it does, or nothing waits, or the graph that waits is no longer served. Nothing is read and parsed but for
 * a run of another graph on a thread that waits.
 */
export async function resumeFault({ apps }: Deps, thread: ThreadRow, run: RunRow): Promise<string | null> {
  if (thread.settled !== 'interrupted' && thread.interrupts === '{}') return null
  const { graph_id: waiting } = thread.left_by ?? graphIds(thread)
  if (waiting === undefined || waiting === run.graph_id || !answers(run, thread)) return null
  if (!(await apps.serves(run.app, waiting))) return null
  return `command.resume: the tasks of this thread wait for an answer to graph '${waiting}', and assistant ${run.assistant_id} is of graph '${run.graph_id}'; answer with an assistant of graph '${waiting}'`
}

/** Whether the run answers the tasks of the newest checkpoint; those of an earlier one may be of another graph. */
function answers({ kwargs }: RunRow, { latest_checkpoint_id }: ThreadRow): boolean {
  const { command, config } = parseJson(kwargs) as {
    command: JsonObject | null
    config?: { configurable?: JsonObject }
  }
  const { checkpoint_id = latest_checkpoint_id } = config?.configurable ?? {}
  return command?.resume !== undefined && checkpoint_id === latest_checkpoint_id
}
