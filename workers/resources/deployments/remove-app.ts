/** What a deployment leaves in the run plane when it is deleted: crons first, so that none makes a run any more. */
import { fail } from '../../../schemas/errors.js'
import type { Deps } from '../context.js'
import { CRON } from '../crons/record.js'
import { removeThread } from '../threads/remove.js'

const PAGE = 200
const AT_ONCE = 8
/** One call works so long; who asked asks again. */
const BUDGET_MS = 5_000

/** Repeatable. Throws unavailable while something is left. Runs without a thread are swept as everywhere. */
export async function removeApplication(deps: Deps, app: string): Promise<void> {
  const until = Date.now() + BUDGET_MS
  const { store } = deps
  for (;;) {
    const rows = await store.records.list({ kind: CRON, app, limit: PAGE })
    if (rows.length === 0) break
    await store.apply(rows.map(({ id }) => ({ step: 'records.remove' as const, kind: CRON, id, where: {} })))
  }
  for (;;) {
    const { rows, next } = await store.threads.list({ app, sort: 'created_at', order: 'asc', limit: PAGE })
    if (rows.length === 0 && next === null) return
    for (let at = 0; at < rows.length; at += AT_ONCE) {
      await Promise.all(rows.slice(at, at + AT_ONCE).map(row => removeThread(deps, row)))
      if (Date.now() > until) throw fail('unavailable', 'Threads of the deployment are still being removed')
    }
  }
}
