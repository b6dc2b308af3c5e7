/**
 * What a run leaves on its thread when no host lived to say it (cancelled or given up with its host): the state of the
 * latest checkpoint, which decides the thread's status (API: threads-and-runs 4). A host computes it before the thread
 * is released, so that whoever reads the thread after the end of the run sees the truth.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { WeftError } from '../../../schemas/errors.js'
import type { Interrupt } from '../../../schemas/threads.js'
import type { RunSummary, StateRow, ThreadRow } from '../../../store/port.js'
import type { Deps } from '../context.js'
import { computed, readLeft, refreshed, splitState } from './kept-state.js'

/** The thread is held so long at most; a host that was killed is back in about a second. */
const COMPUTE_MS = 5_000
const AGAIN_MS = 100
/** When no host could say it in time, it is asked again; and by whoever reads the thread. */
const LATER_MS = [1_000, 10_000, 60_000]

export interface Left {
  next: string[]
  interrupts: { [task_id: string]: Interrupt[] }
  /** Null where there is no checkpoint. */
  state: StateRow | null
  /** It was not kept yet. */
  fresh: boolean
}

/** Null when no host could say it. */
export async function leftOf(deps: Deps, thread: ThreadRow, run: RunSummary): Promise<Left | null> {
  const { app, head, thread_id } = thread
  if (head === null) return { next: [], interrupts: {}, state: null, fresh: false }
  const kept = await deps.store.threads.state(thread_id)
  if (kept?.head === head && kept.rest !== null) return { ...readLeft(kept.rest), state: kept, fresh: false }
  const until = Date.now() + COMPUTE_MS
  for (;;) {
    try {
      const ms = until - Date.now()
      const text = await computed(deps, { app, thread_id, graph_id: run.graph_id, subgraphs: false, ms })
      const state = splitState(head, text)
      return { ...readLeft(state.rest), state, fresh: true }
    } catch (error) {
      const again = error instanceof WeftError && error.code === 'unavailable' && Date.now() + AGAIN_MS < until
      if (again) await sleep(AGAIN_MS)
      else {
        deps.link.log.warn({ err: error, thread_id, run_id: run.run_id }, 'what a run left could not be computed')
        return null
      }
    }
  }
}

/** `left` was not to be had: the thread gets it as soon as a host can say it. */
export function refreshLater(deps: Deps, { app, thread_id }: ThreadRow, tries = 0): void {
  const pause = LATER_MS[tries]
  if (pause === undefined) return
  const refresh = async () => {
    const row = await deps.store.threads.get(app, thread_id)
    if (row === null || row.active !== null) return
    const { state } = await refreshed(deps, row, await deps.store.threads.state(thread_id))
    if (row.head !== null && (state?.head !== row.head || state.rest === null)) refreshLater(deps, row, tries + 1)
  }
  setTimeout(() => {
    refresh().catch(error => deps.link.log.warn({ err: error, thread_id }, 'a thread could not be brought up to date'))
  }, pause).unref()
}
