/** Writes of the tests of a store. */
import type { Store } from '../../store/port.js'
import type { RunRow } from '../../store/rows/runs.js'
import type { Step } from '../../store/steps.js'
import { run, thread } from './conformance-rows.js'

export function writer(store: Store) {
  const done = async (...steps: Step[]) => {
    const failed = await store.apply(steps)
    if (failed !== -1) throw new Error(`step ${failed} (${steps[failed]?.step}) failed`)
  }
  return {
    /** Applies the steps; rejects when one fails. */
    done,
    async newThread(set: Parameters<typeof thread>[0] = {}) {
      const row = thread(set)
      await done({ step: 'threads.insert', row })
      return row
    },
    async newRun(thread_id: string, set: Partial<RunRow> = {}) {
      const row = run(thread_id, set)
      await done({ step: 'runs.insert', row })
      return row
    },
    patchRev: (thread_id: string, rev: number, set = {}): Step => ({
      step: 'threads.patch',
      thread_id,
      where: { rev },
      set,
    }),
    texts: (tuples: readonly { id: string }[]) => tuples.map(({ id }) => id),
  }
}
