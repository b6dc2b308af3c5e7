/** Removes the run-plane data of a deleted deployment: crons first, so that they create no further runs. */
import { fail } from '../../../schemas/errors.js'
import type { Deps } from '../context.js'
import { CRON } from '../crons/record.js'
import { removeThread } from '../threads/remove.js'

const PAGE = 200
const CONCURRENCY = 8
/** Time limit of one call; the caller repeats it. */
const BUDGET_MS = 5_000

/** Repeatable. Throws unavailable while data is left. The sweeper removes runs without a thread. */
export async function removeApplication(deps: Deps, app: string): Promise<void> {
  const until = performance.now() + BUDGET_MS
  const { store } = deps
  for (;;) {
    const rows = await store.records.list({ kind: CRON, app, limit: PAGE })
    if (rows.length === 0) break
    await store.apply(rows.map(({ id }) => ({ step: 'records.remove' as const, kind: CRON, id, where: {} })))
  }
  for (;;) {
    const { rows, next } = await store.threads.list({ app, sort: 'created_at', order: 'asc', limit: PAGE })
    if (rows.length === 0 && next === null) return
    for (let at = 0; at < rows.length; at += CONCURRENCY) {
      await Promise.all(rows.slice(at, at + CONCURRENCY).map(row => removeThread(deps, row, { copies: false })))
      if (performance.now() > until) throw fail('unavailable', 'Threads of the deployment are still being removed')
    }
  }
}
