/**
 * Webhooks (docs/spec/runs.md#webhooks): one signed POST after a run has ended. The intent is written with the end of the
 * run (`webhook_due_at`), so that a crash loses none; at least once, with the same id each time. Never affects the run.
 */
import { createHmac, randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { type Config, isEmbedded } from '../../../schemas/config.js'
import { BUILT_IN_APP, token } from '../../../schemas/ids.js'
import { time } from '../../../schemas/json.js'
import { isTerminal } from '../../../schemas/runs.js'
import { type WebhookField, webhookFault } from '../../../schemas/webhooks.js'
import type { Store } from '../../../store/port.js'
import type { RunRow } from '../../../store/rows/runs.js'
import { originOf, post, postOver } from '../../outbound.js'
import { clock } from '../clock.js'
import type { Deliveries, Deps, WebhookHost } from '../context.js'
import { readOrCreateSecret } from '../keys/secret-file.js'
import { webhookHeaders, webhookRules } from '../keys/webhook-settings.js'
import { onceInStore } from '../rows/record.js'
import { plainError, runFields } from '../rows/text.js'
import { allowedFor, isRoute, routeFault } from './webhook-check.js'
import { type Attempt, beginAttempt, endAttempt, isDelivered, readKept } from './webhook-log.js'

/** Pauses before the 2nd to 6th try. */
const PAUSES_MS = [5_000, 30_000, 120_000, 300_000, 600_000]
/** Deliveries under way in this worker, to all hosts and to one: a host that never answers leaves room for others. */
const MAX_AT_ONCE = 32
const MAX_PER_HOST = 4
/** A try takes at most 10 s. A try that has not ended after this time ended with its worker. */
const LEASE_MS = 60_000
/** Pause of a delivery while its host has no free place. */
const CROWDED_MS = 2_000
/** After so many failed tries in a row a host is left alone for a while; then one try decides. */
const MAX_FAILURES = 5
const BREAK_MS = 30_000

export const newDeliveries = (): Deliveries => ({ underWay: new Set(), hosts: new Map(), isCrowded: false })

/**
 * Starts a try for a run whose webhook is due; resolves once this worker has taken it, or to false when it could not.
 * Never rejects: the row stays due until a try of it has ended.
 */
export async function deliver(deps: Deps, run_id: string): Promise<boolean> {
  const { deliveries } = deps
  const { underWay } = deliveries
  if (underWay.has(run_id)) return true
  if (underWay.size >= MAX_AT_ONCE) {
    deliveries.isCrowded = true
    return true
  }
  underWay.add(run_id)
  const taken = await take(deps, run_id).catch(error => {
    deps.link.log.warn({ err: error, run_id }, 'webhook delivery failed; it is retried')
    return null
  })
  if (taken === null) underWay.delete(run_id)
  else void tryOnce(deps, taken)
  return taken !== null
}

interface Taken {
  run: RunRow
  /** Ends with the attempt that begins. */
  log: Attempt[]
}

/** One of several workers makes the try: it moves the due time to the moment at which its own crash would show. */
async function take({ store, deliveries, alarms }: Deps, run_id: string): Promise<Taken | null> {
  const [run, kept] = await Promise.all([store.runs.get(run_id), store.runs.webhookLog(run_id)])
  const now = clock.now()
  if (run === null || kept === null || run.webhook === null || !isTerminal(run.status)) return null
  const { webhook_due_at } = kept
  if (webhook_due_at === null || webhook_due_at > now) return null
  const host = hostOf(deliveries, placeOf(run))
  const free = host.closed_until > now ? host.closed_until : host.active >= MAX_PER_HOST ? now + CROWDED_MS : null
  if (free !== null) {
    // Due again later, so that the rows of this host do not delay those of others. It does not count as a try.
    const due = free + Math.round(CROWDED_MS * Math.random())
    await store.apply([{ step: 'runs.patch', run_id, where: { webhook_due_at }, set: { webhook_due_at: due } }])
    alarms.set(due)
    return null
  }
  host.active++
  const set = { webhook_due_at: now + LEASE_MS, webhook_tries: run.webhook_tries + 1 }
  const log = beginAttempt(readKept(kept).attempts, now)
  const stored = { ...set, webhook_log: JSON.stringify(log) }
  const failed = await store
    .apply([{ step: 'runs.patch', run_id, where: { webhook_due_at }, set: stored }])
    .catch(error => {
      host.active--
      throw error
    })
  if (failed === -1) return { run: { ...run, ...set }, log }
  host.active--
  return null
}

/** Where a delivery goes: a host, or the routes of an application. */
const placeOf = ({ app, webhook }: RunRow): string => (isRoute(webhook!) ? `application ${app}` : originOf(webhook!))

function hostOf({ hosts }: Deliveries, name: string): WebhookHost {
  const known = hosts.get(name)
  if (known !== undefined) return known
  const made: WebhookHost = { active: 0, failures: 0, closed_until: 0 }
  hosts.set(name, made)
  return made
}

/** A host without deliveries and failures needs no entry. */
function freeHost(deliveries: Deliveries, name: string, isReached: boolean): void {
  const host = hostOf(deliveries, name)
  host.active--
  host.failures = isReached ? 0 : host.failures + 1
  if (host.failures >= MAX_FAILURES) host.closed_until = clock.now() + BREAK_MS
  if (host.active === 0 && host.failures === 0) deliveries.hosts.delete(name)
}

async function tryOnce(deps: Deps, { run, log }: Taken): Promise<void> {
  const { run_id, webhook_tries: tries, webhook_due_at } = run
  const { deliveries } = deps
  let status: number | null = null
  try {
    const outcome = await attempt(deps, run).catch((error: Error) => error)
    status = typeof outcome === 'number' ? outcome : null
    const good = isDelivered(status)
    const pause = PAUSES_MS[tries - 1]
    // Half to one and a half of the pause, so that deliveries that failed together are not retried together.
    const due = good || pause === undefined ? null : clock.now() + Math.round(pause * (0.5 + Math.random()))
    const set = { webhook_due_at: due, webhook_log: JSON.stringify(endAttempt(log, outcome, placeOf(run))) }
    // Another worker has taken it when this try outlasted its lease, and stores the outcome of its own.
    await deps.store.apply([{ step: 'runs.patch', run_id, where: { webhook_due_at }, set, optional: true }])
    deps.link.figures.count('weft_webhooks_total', {
      outcome: good ? 'delivered' : due === null ? 'given_up' : 'retried',
    })
    if (good) deps.link.log.info({ run_id, tries }, 'webhook delivered')
    else {
      const reason = typeof outcome === 'number' ? { status } : { status: outcome.message }
      deps.link.log.warn({ run_id, tries, ...reason, given_up: due === null }, 'webhook not delivered')
    }
    if (due !== null) deps.alarms.set(due)
  } catch (error) {
    deps.link.log.warn({ err: error, run_id }, 'webhook delivery failed; it is retried')
  } finally {
    freeHost(deliveries, placeOf(run), status !== null && status < 500)
    deliveries.underWay.delete(run_id)
    if (deliveries.isCrowded) {
      deliveries.isCrowded = false
      void deps.alarms.look()
    }
  }
}

async function attempt(deps: Deps, run: RunRow): Promise<number> {
  const { allowed, store, settings, webhookSecret } = deps
  const pool = await deps.apps.poolFor(run.app, run.pool)
  const rules = await webhookRules(deps, run.app, pool)
  const { url, disabled } = rules
  const fault = disabled
    ? 'the application has switched webhooks off (http.disable_webhooks)'
    : isRoute(run.webhook!)
      ? routeFault(run.webhook!, url, await settings.get('app_http', run.app, pool))
      : webhookFault(run.webhook!, url)
  if (fault !== null) throw new Error(`${placeOf(run)} is not called: ${fault}`)
  const headers = await webhookHeaders(deps, run.app, pool)
  const body = Buffer.from(await payloadOf(store, run, rules.fields ?? null))
  const at = Math.floor(clock.now() / 1000)
  const signature = createHmac('sha256', webhookSecret).update(`${run.run_id}.${at}.`).update(body).digest('base64')
  const sent = {
    // Ours win: the receiver checks the signature by them.
    ...lowerCase(headers),
    'content-type': 'application/json',
    'webhook-id': run.run_id,
    'webhook-timestamp': `${at}`,
    'webhook-signature': `v1,${signature}`,
  }
  if (!isRoute(run.webhook!)) return post(run.webhook!, body, sent, allowedFor(rules, allowed))
  // The app host of the built-in application belongs to the edges, that of another one to its graph workers.
  const stream = deps.tunnels.open(run.app === BUILT_IN_APP ? 'any edge' : token('pool', pool))
  return postOver(stream, run.webhook!, body, sent)
}

const lowerCase = (headers: { [name: string]: string }): { [name: string]: string } =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))

/** JSON text with the members that the application allows; null: with all. */
async function payloadOf(store: Store, run: RunRow, allowed: readonly WebhookField[] | null): Promise<string> {
  const isSent = (name: string) => allowed === null || (allowed as readonly string[]).includes(name)
  const members = {
    ...runFields(run),
    run_started_at: run.started_at === null ? 'null' : `"${time(run.started_at)}"`,
    run_ended_at: `"${time(run.ended_at ?? run.updated_at)}"`,
    webhook_sent_at: `"${time(clock.now())}"`,
    values: isSent('values') ? await valuesOf(store, run) : null,
    error: run.error === null ? null : plainError(run.error),
  }
  const sent = Object.entries(members).filter(([name, text]) => text !== null && isSent(name))
  return `{${sent.map(([name, text]) => `"${name}":${text}`).join()}}`
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
export async function webhookSecret({ webhook_secret, data, ...config }: Config, store: Store): Promise<Buffer> {
  const make = () => `whsec_${randomBytes(32).toString('base64')}`
  const own = () => readOrCreateSecret(join(data, 'webhook.secret'), make)
  const text = webhook_secret || (isEmbedded(config) ? own() : (await onceInStore(store, 'webhook_secret', make)).value)
  return Buffer.from(text.replace(/^whsec_/, ''), 'base64')
}
