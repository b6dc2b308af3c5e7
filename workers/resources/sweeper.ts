/**
 * Periodic sweeps. All their work is also done at once where it arises; a sweep finishes what a crash or a lost message
 * left. The cost of a sweep grows with the threads and runs that are active, not with the runs that wait behind them.
 */
import type { RunCursor, RunningRun, RunSummary } from '../../store/rows/runs.js'
import type { ThreadRow } from '../../store/rows/threads.js'
import { clock } from './clock.js'
import type { Deps } from './context.js'
import { sweepLogs } from './deployments/logs.js'
import { sweepOrphans, sweepTasks } from './deployments/sweep.js'
import { sweepUploads } from './deployments/upload-rows.js'
import { sweepItems } from './items/write.js'
import { sweepKeys } from './keys/rpc.js'
import { sweepOauth } from './oauth/sweep.js'
import { pages } from './rows/pages.js'
import { firstEligible } from './rows/thread-status.js'
import { endHolders } from './runs/ended-holders.js'
import { removeExpiredKeys } from './runs/idempotency.js'
import { dropOrphan, repair } from './runs/repair.js'
import { wakeRun } from './runs/wake.js'
import { expireDue } from './threads/prune.js'

interface Sweep {
  name: string
  every_ms: number
  /** Also right after the start. */
  at_start: boolean
  work: (deps: Deps) => Promise<void>
}

const STALE_MS = 30_000
/** Rows in a page. */
const PAGE = 1_000
/** Threads removed in one commit; other writes wait for it. */
const REMOVED = 200
/** A wake-up of a run with a dead holder is published again after this time: the worker that got it may have died, too. */
const REPEAT_MS = 5_000

/** The sweeps of one worker. */
export function openSweeps(): readonly Sweep[] {
  const started = clock.now()
  /** Where the last sweep for orphans ended. */
  let last: RunCursor | undefined
  return [
    // Busy threads: repairs those that were not written for 30 s, and wakes the first run in line when it waits for 30 s,
    // or since before the process started or the broker stored wake-ups again.
    { name: 'busy threads', every_ms: 10_000, at_start: true, work: deps => sweepBusy(deps, started) },
    // Running runs whose holder sends no heartbeats: the claim that follows takes them over.
    { name: 'dead holders', every_ms: 5_000, at_start: true, work: wakeLost },
    // Runs that no thread holds.
    {
      name: 'orphaned runs',
      every_ms: 10_000,
      at_start: true,
      work: async deps => void (last = await sweepOrphanedRuns(deps, last)),
    },
    // Rows that are due (alarms.ts): a message was lost, or the clock jumped.
    { name: 'alarms', every_ms: 10_000, at_start: false, work: ({ alarms }) => alarms.look() },
    // Deployments with a task that no deploy worker holds, and those that waited for a deploy worker too long.
    { name: 'deploy tasks', every_ms: 10_000, at_start: true, work: sweepTasks },
    // Revisions, secrets and projects of changes that were never committed.
    { name: 'uncommitted records', every_ms: 60_000, at_start: true, work: deps => sweepOrphans(deps) },
    // Uploads of sources that broke off, or that no revision uses.
    { name: 'uploads', every_ms: 60_000, at_start: true, work: ({ store }) => sweepUploads(store) },
    // Log lines older than 14 days.
    { name: 'logs', every_ms: 60_000, at_start: true, work: sweepLogs },
    // Idempotency keys older than 24 hours.
    { name: 'idempotency keys', every_ms: 60_000, at_start: true, work: removeExpiredKeys },
    // Keys of clients that expired 30 days ago.
    { name: 'expired keys', every_ms: 600_000, at_start: true, work: sweepKeys },
    // Consents, tokens and audit entries of OAuth that have expired.
    { name: 'oauth', every_ms: 60_000, at_start: true, work: sweepOauth },
    // Temporary runs that ended and can no longer be joined.
    { name: 'temporary runs', every_ms: 10_000, at_start: false, work: removeExpired },
    // Items whose expires_at has passed.
    { name: 'expired items', every_ms: 60_000, at_start: true, work: sweepItems },
    // Threads whose expires_at has passed: every 5 minutes, or as often as langgraph.json says.
    { name: 'expired threads', every_ms: 5_000, at_start: true, work: expireDue },
  ]
}

/** Hosts with runs end within 50 ms of their graph worker (host/watchdog.ts), or they would execute beside the next attempt. */
const HOSTS_END_MS = 1_000

/** `ended`: processes of graph workers that have ended before. */
export function startSweeper(deps: Deps, ended: readonly string[] = []): { stop(): void } {
  const timers = openSweeps().map(({ name, every_ms, at_start, work }) => {
    let isRunning = false
    const run = () => {
      if (isRunning) return
      isRunning = true
      work(deps)
        .catch(error => deps.link.log.warn({ err: error, sweep: name }, 'a sweep failed'))
        .finally(() => (isRunning = false))
    }
    if (at_start) run()
    return setInterval(run, every_ms)
  })
  const takeOver = () =>
    void endHolders(deps, ended)
      .then(() => wakeLost(deps))
      .catch(error =>
        deps.link.log.warn({ err: error }, 'the runs of an ended process could not be taken over at once'),
      )
  if (ended.length > 0) timers.push(setTimeout(takeOver, HOSTS_END_MS))
  return { stop: () => timers.forEach(clearInterval) }
}

async function sweepBusy(deps: Deps, started: number): Promise<void> {
  const now = clock.now()
  const since = Math.max(started, deps.streams.storesSince())
  const read = (after: ThreadRow | undefined) => deps.store.threads.busy(now, PAGE, after)
  for await (const threads of pages(read, PAGE))
    for (const thread of threads) {
      // A claim or an end of this moment may be under way.
      if (thread.updated_at < now - STALE_MS && (await repair(deps, thread))) continue
      const next = thread.active === null ? firstEligible(thread.queue, now) : null
      const [run] = next === null ? [] : await deps.encryption.plain.runs.summary([next.run_id])
      if (run?.status === 'pending' && (run.updated_at <= now - STALE_MS || run.updated_at <= since))
        await wakeRun(deps, run, `${run.run_id}:${run.attempt}:sweep${Math.floor(now / STALE_MS)}`)
    }
}

async function wakeLost(deps: Deps): Promise<void> {
  const read = (after: RunningRun | undefined) => deps.store.runs.running(PAGE, after?.run_id)
  for await (const runs of pages(read, PAGE)) {
    const dead = runs.filter(run => deps.holders.isDead(run))
    for (const run of await deps.encryption.plain.runs.summary(dead.map(({ run_id }) => run_id))) {
      if (run.status !== 'running') continue
      await dropOrphan(deps, run)
      const id = `${run.run_id}:${run.attempt}:lost${run.heartbeats}:${Math.floor(clock.now() / REPEAT_MS)}`
      await wakeRun(deps, run, id)
    }
  }
}

/** One page after the last one: all of them in turn. */
async function sweepOrphanedRuns(deps: Deps, last: RunCursor | undefined): Promise<RunCursor | undefined> {
  const { store } = deps
  const runs = await store.runs.unsettled(PAGE, last)
  const threads = new Map<string, ThreadRow | null>()
  for (const run of runs) {
    // By the age alone: another worker may be about to accept it.
    if (run.status === 'running' || run.updated_at > clock.now() - STALE_MS) continue
    const { app, thread_id } = run
    if (!threads.has(thread_id)) threads.set(thread_id, await store.threads.get(app, thread_id))
    if (!isQueued(run, threads.get(thread_id)!)) await dropOrphan(deps, run)
  }
  return runs.length < PAGE ? undefined : runs.at(-1)
}

const isQueued = ({ run_id, status }: RunSummary, thread: ThreadRow | null): boolean =>
  status === 'pending' && thread !== null && thread.queue.some(one => one.run_id === run_id)

/** Until none is left: a pool ends hundreds a second. */
async function removeExpired({ store, config }: Deps): Promise<void> {
  const now = clock.now()
  for (let more = true; more; ) {
    const threads = await store.runs.expired(now - config.keep_ended_ms, now - config.resumable_ttl_ms, REMOVED)
    if (threads.length > 0)
      await store.apply(threads.map(thread_id => ({ step: 'threads.remove' as const, thread_id })))
    more = threads.length === REMOVED
  }
}
