/** How a run leaves its supervisor: its end is stored, or it is given back for its next attempt. */
import { setTimeout as sleep } from 'node:timers/promises'
import pTimeout from 'p-timeout'
import type { Log } from '../../bus/log.js'
import type { Release } from '../../schemas/calls.js'
import { resumeFlow } from './flow.js'
import { isFenced, type LeaseClient } from './lease-client.js'
import type { RunSignals } from './run-signals.js'
import type { ActiveRun, RunTable } from './run-table.js'

/** The stored events of an attempt precede those of the next. */
const CONFIRM_MS = 10_000
const SAVES_MS = 5_000
/** Time for the replacement of a host that had to be killed. */
const REPLACED_MS = 30_000
const REPLACED_LOOK_MS = 50

export interface HandBack {
  /** The host has reported the end of the run: stores it. */
  finish(run: ActiveRun, body: Uint8Array): Promise<void>
  giveBack(run: ActiveRun, release: Omit<Release, 'last_event_id'>): void
  /** Another attempt holds the run: nothing is stored, and its wake-up belongs to that attempt. */
  drop(run: ActiveRun): void
}

export interface HandBackOptions {
  log: Log
  table: RunTable
  leases: LeaseClient
  signals: RunSignals
  onSlotFree(): void
  /** No host is ready, and one is starting. */
  awaitsHost(): boolean
}

export function openHandBack({ log, table, leases, signals, onSlotFree, awaitsHost }: HandBackOptions): HandBack {
  function releaseSlot(run: ActiveRun): void {
    if (run.graceTimer !== null) clearTimeout(run.graceTimer)
    if (run.limitTimer !== null) clearTimeout(run.limitTimer)
    resumeFlow(run)
    run.publisher.end()
    table.release(run)
    onSlotFree()
  }

  function remove(run: ActiveRun): void {
    if (table.runs.get(run.run_id) === run) table.runs.delete(run.run_id)
    run.resolveLeft()
  }

  async function finish(run: ActiveRun, body: Uint8Array): Promise<void> {
    const { run_id, lease } = run
    releaseSlot(run)
    try {
      if (lease.resumable) await Promise.all([run.publisher.settled(CONFIRM_MS), run.streamFullStored])
      await leases.finish(lease, body)
      if (!(await run.job.done())) log.warn({ run_id }, 'the broker had delivered the wake-up to another worker')
    } catch (error) {
      if (isFenced(error))
        log.warn({ run_id, attempt: lease.attempt }, 'a later attempt holds the run; its end was refused')
      else {
        log.error({ err: error, run_id }, 'the end of a run could not be stored; it will be taken over')
        run.job.back()
      }
    } finally {
      signals.ended(run_id)
      remove(run)
    }
  }

  /** A host computes the state that a stopped run leaves. Its thread is not locked meanwhile, as it is by the release. */
  async function hostReplaced({ run_id }: ActiveRun): Promise<void> {
    const until = performance.now() + REPLACED_MS
    while (awaitsHost()) {
      if (performance.now() > until)
        return log.warn({ run_id }, 'no host is ready to compute the state that a run leaves')
      await sleep(REPLACED_LOOK_MS)
    }
  }

  async function giveBack(run: ActiveRun, release: Omit<Release, 'last_event_id'>): Promise<void> {
    const { run_id, lease } = run
    const { attempt } = lease
    releaseSlot(run)
    let hasEnded = false
    log.warn({ run_id, attempt, charge: release.charge, why: release.error.message }, 'run given back')
    try {
      // The last saves of its host: a step whose checkpoint is stored is not repeated.
      await pTimeout(Promise.allSettled(run.saves), { milliseconds: SAVES_MS, message: false })
      if (run.host !== null && (run.stopReason === 'cancel' || run.stopReason === 'timeout')) await hostReplaced(run)
      if (lease.resumable) await Promise.all([run.publisher.settled(CONFIRM_MS), run.streamFullStored])
      hasEnded = (await leases.release(lease, { ...release, last_event_id: run.last_event_id })).ended
      await run.job.done()
    } catch (error) {
      if (isFenced(error)) log.warn({ run_id, attempt }, 'a later attempt holds the run already')
      else {
        log.warn({ err: error, run_id }, 'a run could not be given back; it will be taken over')
        run.job.back()
      }
    } finally {
      if (hasEnded) signals.ended(run_id)
      else signals.handedBack(run_id)
      remove(run)
    }
  }

  return {
    async finish(run, body) {
      if (run.phase !== 'ending') await finish(run, body)
    },
    giveBack(run, release) {
      if (run.phase !== 'ending') void giveBack(run, release)
    },
    drop(run) {
      if (run.phase === 'ending') return
      releaseSlot(run)
      signals.handedBack(run.run_id)
      remove(run)
    },
  }
}
