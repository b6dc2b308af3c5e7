/**
 * The state that a run leaves on its thread when no host reported it (the run was cancelled, or given up together with
 * its host): the state at the latest checkpoint, which decides the status of the thread (docs/spec/threads.md#status). A
 * host computes it before the thread is released, so that a client that reads the thread after the end of the run gets it.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Interrupt } from '../../../schemas/threads.js'
import type { RunSummary } from '../../../store/rows/runs.js'
import type { StateRow, ThreadRow } from '../../../store/rows/threads.js'
import type { Deps } from '../context.js'
import { askHost, isUnavailable } from './ask-graph.js'
import { readLeft, refreshState, STATE, splitState } from './kept-state.js'

/** Longest time that the thread is held for this; a host that was killed is replaced in about a second. */
const COMPUTE_MS = 5_000
const RETRY_MS = 100
/** When no host computed it in time, these retries follow; a read of the thread computes it, too. */
const LATER_MS = [1_000, 10_000, 60_000]

export interface Left {
  next: string[]
  interrupts: { [task_id: string]: Interrupt[] }
  /** Null when there is no checkpoint. */
  state: StateRow | null
  /** It is not stored yet. */
  fresh: boolean
}

/** Null when no host could compute it. */
export async function computeFinalState(deps: Deps, thread: ThreadRow, run: RunSummary): Promise<Left | null> {
  const { app, latest_checkpoint_id: head, thread_id } = thread
  if (head === null) return { next: [], interrupts: {}, state: null, fresh: false }
  const kept = await deps.store.threads.state(thread_id)
  if (kept?.latest_checkpoint_id === head && kept.rest !== null)
    return { ...readLeft(kept.rest), state: kept, fresh: false }
  const until = performance.now() + COMPUTE_MS
  for (;;) {
    try {
      const timeout = until - performance.now()
      const text = await askHost(deps, { app, thread_id, graph_id: run.graph_id, timeout }, STATE)
      const state = splitState(head, text)
      return { ...readLeft(state.rest), state, fresh: true }
    } catch (error) {
      const retry = isUnavailable(error) && performance.now() + RETRY_MS < until
      if (retry) await sleep(RETRY_MS)
      else {
        deps.link.log.warn({ err: error, thread_id, run_id: run.run_id }, 'the final state of a run was not computed')
        return null
      }
    }
  }
}

/** No host computed the final state: retries until one does. */
export function refreshLater(deps: Deps, { app, thread_id }: ThreadRow, tries = 0): void {
  const pause = LATER_MS[tries]
  if (pause === undefined) return
  const refresh = async () => {
    const row = await deps.store.threads.get(app, thread_id)
    if (row === null || row.active !== null) return
    const { state } = await refreshState(deps, row, await deps.store.threads.state(thread_id))
    if (
      row.latest_checkpoint_id !== null &&
      (state?.latest_checkpoint_id !== row.latest_checkpoint_id || state.rest === null)
    )
      refreshLater(deps, row, tries + 1)
  }
  setTimeout(() => {
    refresh().catch(error => deps.link.log.warn({ err: error, thread_id }, 'the state of a thread was not refreshed'))
  }, pause).unref()
}
