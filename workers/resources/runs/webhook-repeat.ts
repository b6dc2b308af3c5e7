/** The deliveries of the webhook of a run for clients: what is kept of them, and one more on request. */
import { fail } from '../../../schemas/errors.js'
import { isTerminal } from '../../../schemas/runs.js'
import type { WebhookDeliveries } from '../../../schemas/webhooks.js'
import type { RunSummary } from '../../../store/rows/runs.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { deliveriesOf, isSending, type Kept, readKept } from './webhook-log.js'
import { deliver } from './webhooks.js'

/** Throws `not_found` when the run has no webhook, or was removed. */
export async function deliveries(deps: Deps, run: RunSummary): Promise<WebhookDeliveries> {
  return deliveriesOf(run, await read(deps, run))
}

/**
 * Delivers the webhook again at once, and then as often as after the end of the run. Stored when it resolves. While an
 * attempt is under way or due nothing changes, so a repeated request makes no second delivery. Throws `conflict` unless
 * the run has ended, else as `deliveries`.
 */
export async function repeat(deps: Deps, run: RunSummary): Promise<WebhookDeliveries> {
  const { run_id } = run
  for (;;) {
    const kept = await read(deps, run)
    if (!isTerminal(run.status)) throw fail('conflict', 'The run has not ended: its webhook is delivered after its end')
    const { due_at } = kept
    if (isSending(kept)) return deliveriesOf(run, kept)
    const now = clock.now()
    if (due_at === null || due_at > now) {
      const set = { webhook_due_at: now, webhook_tries: 0 }
      const where = { webhook_due_at: due_at }
      const failed = await deps.store.apply([{ step: 'runs.patch', run_id, where, set }])
      // Taken or repeated meanwhile.
      if (failed !== -1) continue
      kept.due_at = now
    }
    void deliver(deps, run_id)
    return deliveriesOf(run, kept)
  }
}

async function read({ store }: Deps, { run_id, webhook }: RunSummary): Promise<Kept> {
  if (webhook === null) throw fail('not_found', 'The run has no webhook')
  const found = await store.runs.webhookLog(run_id)
  if (found === null) throw fail('not_found', 'Run not found')
  return readKept(found)
}
