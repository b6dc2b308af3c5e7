/**
 * Webhooks (API: threads-and-runs 16): one signed POST after a run has settled. The intent is written with the end of
 * the run (`webhook_due_at`), so a crash loses none; at least once, with the same id each time. Never affects the run.
 */
import { createHmac, randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type { Config } from '../../../schemas/config.js'
import { time } from '../../../schemas/json.js'
import { isTerminal } from '../../../schemas/runs.js'
import type { RunRow, Store } from '../../../store/port.js'
import { post } from '../../outbound.js'
import type { Deps } from '../context.js'
import { readOrCreateSecret } from '../keys/secret-file.js'
import { onceInStore } from '../rows/record.js'
import { runText } from '../rows/text.js'

/** Pauses before the 2nd to 6th try. */
const PAUSES_MS = [5_000, 30_000, 120_000, 300_000, 600_000]
/** Deliveries under way in this worker at once, to all hosts. */
const MAX_AT_ONCE = 32
/** A try takes at most 10 s. One that has not ended after so long ended with its worker. */
const LEASE_MS = 60_000

const underWay = new Set<string>()
/** Somebody was turned away: the alarms look again when a place is free. */
let crowded = false

/**
 * Begins a try for a run whose webhook is due; resolves once it is this worker's to make, or, with false, was not to be
 * had. Never rejects: the row stays due until a try of it has ended.
 */
export async function deliver(deps: Deps, run_id: string): Promise<boolean> {
  if (underWay.has(run_id)) return true
  if (underWay.size >= MAX_AT_ONCE) {
    crowded = true
    return true
  }
  underWay.add(run_id)
  const run = await take(deps, run_id).catch(error => {
    deps.link.log.warn({ err: error, run_id }, 'a webhook has to be tried again')
    return null
  })
  if (run === null) underWay.delete(run_id)
  else void tryOnce(deps, run)
  return run !== null
}

/** Of several workers one has the try: it moves the due time to where a crash of its own would be noticed. */
async function take({ store }: Deps, run_id: string): Promise<RunRow | null> {
  const run = await store.runs.get(run_id)
  const now = Date.now()
  if (run === null || run.webhook === null || !isTerminal(run.status)) return null
  const { webhook_due_at } = run
  if (webhook_due_at === null || webhook_due_at > now) return null
  const set = { webhook_due_at: now + LEASE_MS, webhook_tries: run.webhook_tries + 1 }
  const failed = await store.apply([{ step: 'runs.patch', run_id, where: { webhook_due_at }, set }])
  return failed === -1 ? { ...run, ...set } : null
}

async function tryOnce(deps: Deps, run: RunRow): Promise<void> {
  const { run_id, webhook_tries: tries } = run
  try {
    const status = await attempt(deps, run).catch((error: Error) => error.message)
    const good = typeof status === 'number' && status >= 200 && status < 300
    const pause = PAUSES_MS[tries - 1]
    // Half to one and a half of the pause: those that failed together do not come back together.
    const due = good || pause === undefined ? null : Date.now() + Math.round(pause * (0.5 + Math.random()))
    await deps.store.apply([{ step: 'runs.patch', run_id, where: {}, set: { webhook_due_at: due } }])
    if (good) deps.link.log.info({ run_id, tries }, 'webhook delivered')
    else deps.link.log.warn({ run_id, tries, status, given_up: due === null }, 'webhook not delivered')
    if (due !== null) deps.alarms.set(due)
  } catch (error) {
    deps.link.log.warn({ err: error, run_id }, 'a webhook has to be tried again')
  } finally {
    underWay.delete(run_id)
    if (crowded) {
      crowded = false
      void deps.alarms.look()
    }
  }
}

async function attempt({ allowed, store, webhookSecret }: Deps, run: RunRow): Promise<number> {
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

async function valuesOf(store: Deps['store'], run: RunRow): Promise<string | null> {
  if (run.temporary) return run.error === null && run.result !== null ? Buffer.from(run.result).toString() : null
  const state = await store.threads.state(run.thread_id)
  return state?.values ? Buffer.from(state.values).toString() : null
}

/**
 * The secret of the signatures: given, else made once and kept where the rows are. That is the data folder (mode 0600)
 * beside the embedded store, and the store itself where several workers share it.
 */
export async function webhookSecret({ webhook_secret, data, mongodb_url }: Config, store: Store): Promise<Buffer> {
  const make = () => `whsec_${randomBytes(32).toString('base64')}`
  const own = () => readOrCreateSecret(join(data, 'webhook.secret'), make)
  const text = webhook_secret || (mongodb_url === '' ? own() : (await onceInStore(store, 'webhook_secret', make)).value)
  return Buffer.from(text.replace(/^whsec_/, ''), 'base64')
}
