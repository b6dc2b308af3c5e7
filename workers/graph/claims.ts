/** How a supervisor takes work: a wake-up becomes a claim, a claim becomes a run. */
import type { Log } from '../../bus/log.js'
import type { Job } from '../../bus/queue.js'
import type { ClaimedLease } from '../../schemas/calls.js'
import { type RunId, token } from '../../schemas/ids.js'
import { TransientMap, TransientSet } from '../../schemas/transient.js'
import { monotonicMs } from '../pipe.js'
import type { LeaseClient } from './lease-client.js'
import type { RunSignals } from './run-signals.js'
import type { RunTable } from './run-table.js'

/**
 * The wake-up of a held run is delivered again after this time, to any worker. The resource workers see when its holder
 * is dead; a worker that watched itself would begin the wait anew when it dies.
 */
const HELD_MS = 5_000
const FAILED_MS = 1_000

export interface Claimed {
  run_id: RunId
  lease: ClaimedLease
  start: Uint8Array
  /** When the claim was sent (monotonicMs). */
  confirmed_at: number
  job: Job
  /** A cancel arrived while the claim was under way. */
  cancelled: boolean
}

export interface Claims {
  onJob(job: Job): void
  cancel(run: RunId): void
  /** Claims under way. */
  size(): number
  /** Tells the broker that the wake-ups of all claims are still being worked on. */
  extend(): void
  /** Wake-ups go back to the queue from now on. */
  quiet(): void
}

export interface ClaimsOptions {
  log: Log
  table: RunTable
  leases: LeaseClient
  signals: RunSignals
  onClaimed(claimed: Claimed): void
  /** A claim has ended, with or without a run. */
  onEnd(): void
}

interface PendingClaim {
  job: Job
  cancelled: boolean
}

export function openClaims({ log, table, leases, signals, onClaimed, onEnd }: ClaimsOptions): Claims {
  const pending = new TransientMap<RunId, PendingClaim>()
  /** Jobs whose run is being asked for. */
  const choosing = new TransientSet<Job>()
  let open = true

  /** The broker may deliver a wake-up again, or hold two for one run: one of them is kept, and no run starts twice. */
  function onJob(job: Job): void {
    if (job.any) void choose(job)
    else begin(job)
  }

  /** The wake-up says that a run waits; which one is next is not known before now. */
  async function choose(job: Job): Promise<void> {
    if (!open) return job.back()
    choosing.add(job)
    try {
      const chosen = await leases.choose(job)
      if (!open) job.back()
      else if (chosen === 'none') void job.done()
      else if (chosen === 'later') job.back(FAILED_MS)
      else begin({ ...job, ...chosen })
    } catch (error) {
      log.warn({ err: error }, 'no run could be chosen for a slot; its wake-up is given back')
      job.back(FAILED_MS)
    } finally {
      choosing.delete(job)
      onEnd()
    }
  }

  function begin(job: Job): void {
    const run_id = token<'run'>('run', job.run_id)
    const known = table.runs.get(run_id)
    if (known?.phase === 'ending' && known.job.seq !== job.seq) {
      // Possibly the wake-up of its next attempt, which starts when this one has left.
      void known.left.then(() => (open ? begin(job) : job.back()))
      return
    }
    const holder = known ?? pending.get(run_id)
    if (holder === undefined) return void claim(run_id, job)
    // Chosen twice: the slot is for another one.
    if (job.any && holder.job.seq !== job.seq) return void choose(job)
    // The newer delivery is acked at the end; a redelivery of the same message needs no further ack.
    if (holder.job.seq !== job.seq) void holder.job.done()
    holder.job = job
  }

  async function claim(run_id: RunId, job: Job): Promise<void> {
    const claiming: PendingClaim = { job, cancelled: false }
    pending.set(run_id, claiming)
    signals.subscribe(run_id)
    try {
      const taken = await takeLease(claiming)
      if (taken === null) signals.dismiss(run_id)
      else onClaimed({ run_id, ...taken, ...claiming })
    } catch (error) {
      log.warn({ err: error, run_id }, 'the claim of a run failed; its wake-up is given back')
      signals.dismiss(run_id)
      claiming.job.back(FAILED_MS)
    } finally {
      pending.delete(run_id)
      onEnd()
    }
  }

  async function takeLease({ job }: PendingClaim): Promise<Pick<Claimed, 'lease' | 'start' | 'confirmed_at'> | null> {
    const confirmed_at = monotonicMs()
    const { head, body } = await leases.claim(job)
    if (head.claim === 'taken' && head.lease !== undefined) return { lease: head.lease, start: body, confirmed_at }
    // Another worker was faster, or as many runs execute as may.
    if (job.any) void choose(job)
    else if (head.claim === 'held') job.back(HELD_MS)
    else void job.done()
    return null
  }

  return {
    onJob,
    cancel(run_id) {
      const claiming = pending.get(run_id)
      if (claiming !== undefined) claiming.cancelled = true
    },
    size: () => pending.size + choosing.size,
    extend() {
      for (const { job } of pending.values()) job.working()
      for (const job of choosing) job.working()
    },
    quiet() {
      open = false
    },
  }
}
