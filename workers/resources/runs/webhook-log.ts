/**
 * The log of the deliveries of a webhook: the latest attempts, beside the run and removed with it. Neither the body of
 * an answer (the address may be of a host that the reader of the run cannot reach) nor a path or a query of the address
 * (they may hold a token) is kept.
 */
import { time } from '../../../schemas/json.js'
import { isTerminal } from '../../../schemas/runs.js'
import type { WebhookAttempt, WebhookDeliveries } from '../../../schemas/webhooks.js'
import type { RunSummary, WebhookLog } from '../../../store/rows/runs.js'
import { originOf } from '../../outbound.js'
import { clock } from '../clock.js'
import { isRoute } from './webhook-check.js'

/** An attempt as it is stored. */
export interface Attempt {
  /** From 1; a repeat counts on. */
  attempt: number
  /** Milliseconds since the epoch. */
  started_at: number
  /** Null: it is under way, or its worker ended. */
  ended_at: number | null
  /** HTTP status of the answer. */
  status: number | null
  /** Why there is no answer. */
  error: string | null
}

/** Three repeats that fail, and more than the attempts of any of them. */
const KEPT = 20
/** Characters of an error. */
const MAX_ERROR = 300
const UNKNOWN = 'The outcome is not known: the worker ended before it was stored'

export interface Kept {
  /** When the next attempt is due; null: none follows. */
  due_at: number | null
  /** The latest, oldest first. */
  attempts: Attempt[]
}

export const readKept = ({ webhook_due_at, webhook_log }: WebhookLog): Kept => ({
  due_at: webhook_due_at,
  attempts: webhook_log === null ? [] : (JSON.parse(webhook_log) as Attempt[]),
})

/** The attempts with a new one. One without an end has ended with its worker. */
export function beginAttempt(attempts: readonly Attempt[], now: number): Attempt[] {
  const before = attempts.map(one => (one.ended_at === null ? { ...one, ended_at: now, error: UNKNOWN } : one))
  const attempt = (before.at(-1)?.attempt ?? 0) + 1
  return [...before, { attempt, started_at: now, ended_at: null, status: null, error: null }].slice(-KEPT)
}

/** The attempts with the end of the last one: the status of the answer, or why there is none. */
export function endAttempt(attempts: readonly Attempt[], outcome: number | Error, host: string): Attempt[] {
  const end = typeof outcome === 'number' ? { status: outcome } : { error: reasonOf(outcome, host).slice(0, MAX_ERROR) }
  return [...attempts.slice(0, -1), { ...attempts.at(-1)!, ended_at: clock.now(), ...end }]
}

/** An error of the system names the address of the host, which only the operator may know. */
function reasonOf({ message, code, syscall }: NodeJS.ErrnoException, host: string): string {
  return code !== undefined && syscall !== undefined
    ? `${host} cannot be reached: ${code}`
    : message || `${host} sent no answer`
}

export const isDelivered = (status: number | null): boolean => status !== null && status >= 200 && status < 300

/** The answer for clients. The run has a webhook. */
export function deliveriesOf({ run_id, thread_id, webhook, status }: RunSummary, kept: Kept): WebhookDeliveries {
  const state = stateOf(status, kept)
  return {
    run_id,
    thread_id,
    url: isRoute(webhook!) ? webhook!.replace(/[?#].*$/s, '') : originOf(webhook!),
    state,
    next_attempt_at: state === 'scheduled' ? time(kept.due_at!) : null,
    attempts: kept.attempts.map(textOf),
  }
}

const textOf = ({ attempt, started_at, ended_at, status, error }: Attempt): WebhookAttempt => ({
  attempt,
  started_at: time(started_at),
  ended_at: ended_at === null ? null : time(ended_at),
  status,
  error,
})

function stateOf(status: string, kept: Kept): WebhookDeliveries['state'] {
  if (!isTerminal(status)) return 'pending'
  if (isSending(kept)) return 'sending'
  if (kept.due_at !== null) return 'scheduled'
  const last = kept.attempts.at(-1)
  // Delivered or given up by an earlier version, which kept no attempts.
  if (last === undefined) return 'unknown'
  return isDelivered(last.status) ? 'delivered' : 'given_up'
}

/** A worker makes an attempt. Once the delivery is due again, that worker has ended. */
export const isSending = ({ due_at, attempts }: Kept): boolean =>
  due_at !== null && due_at > clock.now() && attempts.at(-1)?.ended_at === null
