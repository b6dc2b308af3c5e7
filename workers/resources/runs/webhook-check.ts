/** Whether a run or a cron may name a webhook: the rules of every outgoing call, and those of the application. */
import { fail } from '../../../schemas/errors.js'
import { webhookFault } from '../../../schemas/webhooks.js'
import { refusal } from '../../outbound.js'
import type { Deps } from '../context.js'

const RELATIVE =
  'webhook: expected an absolute http or https URL; a path of this server (a relative webhook) would be called without authentication'

/** The URL; null when there is none, or when the application has switched webhooks off. Throws `invalid`. */
export async function webhookOf(
  { allowed, webhooks }: Deps,
  app: string,
  pool: string,
  given: string | null | undefined,
): Promise<string | null> {
  if (!given) return null
  if (given.startsWith('/')) throw fail('invalid', RELATIVE)
  const { url, disabled } = await webhooks.rules(app, pool)
  const reason = refusal(given, allowed) ?? webhookFault(given, url)
  if (reason !== null) throw fail('invalid', `webhook: ${reason}`)
  return disabled ? null : given
}
