/**
 * What must be swept, with its period. Everything here is also done at once where it happens; the sweep finishes what
 * a crash left.
 */
import type { Deps } from './context.js'
import { sweepLogs } from './deployments/logs.js'
import { sweepOrphans, sweepTasks } from './deployments/sweep.js'
import { sweepItems } from './items.js'
import { firstEligible } from './rows/thread-status.js'
import { removeExpiredKeys } from './runs/idempotency.js'
import { dropOrphan, repair } from './runs/repair.js'
import { wakeRun } from './runs/wake.js'
import { expireDue } from './threads/prune.js'

interface Row {
  name: string
  every_ms: number
  /** Also right after the start. */
  at_start: boolean
  work: (deps: Deps) => Promise<void>
}

const STALE_MS = 30_000
const BATCH = 1_000
/** Threads removed in one commit, which others wait for. */
const REMOVED = 200
/** Runs that are looked through at once: a thread holds 1,000 of them, a cluster many threads. */
const UNSETTLED = 20_000

export const rows: readonly Row[] = [
  // Runs that are pending for 30 s, or were when the process started, and first in the line of their thread.
  { name: 'wake-ups', every_ms: 10_000, at_start: true, work: rewake },
  // Running runs whose heartbeat count is the same as 10 s ago: the claim looks again for 6 s and takes them over.
  { name: 'lost holders', every_ms: 10_000, at_start: true, work: wakeLost },
  // Busy threads that nobody has written for 30 s.
  { name: 'half-done', every_ms: 10_000, at_start: true, work: repairStale },
  // What is due at a time (alarms.ts): a message was lost, or the clock jumped.
  { name: 'alarms', every_ms: 10_000, at_start: false, work: ({ alarms }) => alarms.look() },
  // Deployments with an task that nobody holds, and those that waited for a deploy worker too long.
  { name: 'deploy orders', every_ms: 10_000, at_start: true, work: sweepTasks },
  // Revisions, secrets and projects of changes that were never made.
  { name: 'orphans', every_ms: 60_000, at_start: true, work: deps => sweepOrphans(deps) },
  // Log lines older than 14 days.
  { name: 'logs', every_ms: 60_000, at_start: true, work: sweepLogs },
  // Idempotency keys whose 24 hours are over.
  { name: 'idempotency keys', every_ms: 600_000, at_start: true, work: removeExpiredKeys },
  // Temporary runs that ended longer ago than they can be joined.
  { name: 'temporary runs', every_ms: 10_000, at_start: false, work: removeExpired },
  // Items whose expires_at has passed.
  { name: 'expired items', every_ms: 60_000, at_start: true, work: sweepItems },
  // Threads whose expires_at has passed: every 5 minutes, or as often as langgraph.json says.
  { name: 'expired threads', every_ms: 5_000, at_start: true, work: expireDue },
]

export function startSweeper(deps: Deps): { stop(): void } {
  const timers = rows.map(row => {
    let running = false
    const run = () => {
      if (running) return
      running = true
      row
        .work(deps)
        .catch(error => deps.link.log.warn({ err: error, sweep: row.name }, 'a sweep failed'))
        .finally(() => (running = false))
    }
    if (row.at_start) run()
    return setInterval(run, row.every_ms)
  })
  return { stop: () => timers.forEach(clearInterval) }
}

const started = Date.now()

async function rewake(deps: Deps): Promise<void> {
  const { store } = deps
  const now = Date.now()
  for (const run of await store.runs.unsettled(UNSETTLED)) {
    if (run.status === 'running' || (run.updated_at > now - STALE_MS && run.updated_at > started)) continue
    if (run.status === 'accepting') {
      // By the age alone: another worker may be about to accept it.
      if (run.updated_at < now - STALE_MS) await dropOrphan(deps, run)
      continue
    }
    const thread = await store.threads.get(run.app, run.thread_id)
    if (thread === null || !thread.queue.some(one => one.run_id === run.run_id)) {
      if (run.updated_at < now - STALE_MS) await dropOrphan(deps, run)
      continue
    }
    if (thread.active !== null || firstEligible(thread.queue, now)?.run_id !== run.run_id) continue
    await wakeRun(deps, run, `${run.run_id}:${run.attempt}:sweep${Math.floor(now / STALE_MS)}`)
  }
}

let beats = new Map<string, number>()

async function wakeLost(deps: Deps): Promise<void> {
  const before = beats
  beats = new Map()
  for (const run of await deps.store.runs.unsettled(UNSETTLED)) {
    if (run.status !== 'running') continue
    beats.set(run.run_id, run.heartbeats)
    if (before.get(run.run_id) !== run.heartbeats) continue
    await dropOrphan(deps, run)
    await wakeRun(deps, run, `${run.run_id}:${run.attempt}:lost${run.heartbeats}`)
  }
}

async function repairStale(deps: Deps): Promise<void> {
  for (const thread of await deps.store.threads.busy(Date.now() - STALE_MS, BATCH)) await repair(deps, thread)
}

/** Until none is left: a pool ends hundreds a second. */
async function removeExpired({ store, config }: Deps): Promise<void> {
  const now = Date.now()
  for (let more = true; more; ) {
    const threads = await store.runs.expired(now - config.keep_ended_ms, now - config.resumable_ttl_ms, REMOVED)
    if (threads.length > 0)
      await store.apply(threads.map(thread_id => ({ step: 'threads.remove' as const, thread_id })))
    more = threads.length === REMOVED
  }
}
