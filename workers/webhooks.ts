/**
 * Webhooks (API: threads-and-runs 16): one signed POST after a run has settled. The intent is written with the end of
 * the run (`webhook_due_at`), so a crash loses none; at least once, with the same id each time. Never affects the run.
 */
import { createHmac, randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type { Config } from '../schemas/config.js'
import { isTerminal } from '../schemas/runs.js'
import type { RunRow } from '../store/port.js'
import { runText } from './answers.js'
import { type Tools, time } from './context.js'
import { kept } from './kept.js'
import { post } from './outbound.js'

/** Pauses before the 2nd to 6th try. */
const PAUSES_MS = [5_000, 30_000, 120_000, 300_000, 600_000]
/** Deliveries under way in this worker at once, to all hosts. */
const MAX_AT_ONCE = 32
const BATCH = 100

const underWay = new Set<string>()

/** One try for a run whose webhook is due; plans the next one when it fails. */
export async function deliver(tools: Tools, run_id: string): Promise<void> {
  if (underWay.has(run_id) || underWay.size >= MAX_AT_ONCE) return
  underWay.add(run_id)
  try {
    const run = await tools.store.runs.get(run_id)
    if (run === null || run.webhook === null || run.webhook_due_at === null || !isTerminal(run.status)) return
    const status = await attempt(tools, run).catch((error: Error) => error.message)
    const good = typeof status === 'number' && status >= 200 && status < 300
    const tries = run.webhook_tries + 1
    const pause = PAUSES_MS[tries - 1]
    // Half to one and a half of the pause: those that failed together do not come back together.
    const due = good || pause === undefined ? null : Date.now() + Math.round(pause * (0.5 + Math.random()))
    await tools.store.apply([
      { step: 'runs.patch', run_id, where: {}, set: { webhook_due_at: due, webhook_tries: tries } },
    ])
    if (good) tools.link.log.info({ run_id, tries }, 'webhook delivered')
    else tools.link.log.warn({ run_id, tries, status, given_up: due === null }, 'webhook not delivered')
    if (due !== null) setTimeout(() => void deliver(tools, run_id), due - Date.now()).unref()
  } catch (error) {
    tools.link.log.warn({ err: error, run_id }, 'a webhook has to be tried again')
  } finally {
    underWay.delete(run_id)
  }
}

/** Every webhook that is due: what a restart or a full house left. */
export async function deliverDue(tools: Tools): Promise<void> {
  for (const { run_id } of await tools.store.runs.webhooksDue(Date.now(), BATCH)) await deliver(tools, run_id)
}

async function attempt({ allowed, store, webhookSecret }: Tools, run: RunRow): Promise<number> {
  const values = await valuesOf(store, run)
  const body = Buffer.from(
    `${runText(run).slice(0, -1)},"run_started_at":${run.started_at === null ? 'null' : `"${time(run.started_at)}"`},"run_ended_at":"${time(run.ended_at ?? run.updated_at)}",` +
      `"webhook_sent_at":"${time(Date.now())}"${values === null ? '' : `,"values":${values}`}${run.error === null ? '' : `,"error":${run.error}`}}`,
  )
  const at = Math.floor(Date.now() / 1000)
  const signature = createHmac('sha256', webhookSecret).update(`${run.run_id}.${at}.`).update(body).digest('base64')
  return post(
    run.webhook!,
    body,
    {
      'content-type': 'application/json',
      'webhook-id': run.run_id,
      'webhook-timestamp': `${at}`,
      'webhook-signature': `v1,${signature}`,
    },
    allowed,
  )
}

async function valuesOf(store: Tools['store'], run: RunRow): Promise<string | null> {
  if (run.temporary) return run.error === null && run.result !== null ? Buffer.from(run.result).toString() : null
  const state = await store.threads.state(run.thread_id)
  return state?.values ? Buffer.from(state.values).toString() : null
}

/** The secret of the signatures: given, else made once and kept in the data folder (mode 0600). */
export function webhookSecret({ webhook_secret, data }: Config): Buffer {
  const text = webhook_secret || kept(join(data, 'webhook.secret'), () => `whsec_${randomBytes(32).toString('base64')}`)
  return Buffer.from(text.replace(/^whsec_/, ''), 'base64')
}
