/**
 * Stopping a run means that it is aborted and starts no further node. Its host is killed when it has not ended after the
 * grace, or at once when it holds the event loop and so cannot see the abort. The host waits for a node that ignores its
 * signal, but not for the whole grace: such a node may execute to its end, because a kill would cost every other run in
 * the host. Runs that die with the host and did not cause its end are given back uncharged.
 */
import type { Log } from '../../bus/log.js'
import type { RunId } from '../../schemas/ids.js'
import { STOP, TO_HOST } from '../pipe.js'
import { resumeFlow } from './flow.js'
import type { HandBack } from './hand-back.js'
import type { HostEnd } from './host-end.js'
import type { GraphHost } from './host-process.js'
import type { ActiveRun, RunTable, StopReason } from './run-table.js'

const GRACE_MS = 5_000
/** A reason replaces one of less weight. */
const WEIGHT: { readonly [reason in StopReason]: number } = { cancel: 1, timeout: 1, store: 2, lost: 3 }

export interface Stopping {
  /** Repeatable. */
  stop(run: ActiveRun, reason: StopReason): void
  /** The run has stopped and its host continues. */
  onStopped(run: ActiveRun): void
  /** The code of this slot has held the event loop for 1 s, 2 s … */
  onBlocked(host: GraphHost, slot: number, ms: number): void
  onHostEnd(host: GraphHost, end: HostEnd): void
}

export interface StoppingOptions {
  log: Log
  table: RunTable
  handBack: HandBack
  /** A run begins to stop. */
  onStop(reason: StopReason): void
  isolate(graph_id: string, why: string, host?: GraphHost): void
  /** The run has ended or blocked a host: its next attempt shares a host with no other run. */
  suspect(run: RunId): void
}

export function openStopping({ log, table, handBack, onStop, isolate, suspect }: StoppingOptions): Stopping {
  /** Hosts whose event loop is blocked by a slot without a run. */
  const heldByFormer = new WeakMap<GraphHost, number>()

  function stop(run: ActiveRun, reason: StopReason): void {
    if (run.phase === 'ending' || (run.stopReason !== null && WEIGHT[reason] <= WEIGHT[run.stopReason])) return
    run.stopReason = reason
    onStop(reason)
    const { host, slot, run_id, lease } = run
    if (reason !== 'cancel') log.warn({ run_id, attempt: lease.attempt, reason }, 'a run is stopped')
    if (host === null) return onStopped(run)
    host.send({ kind: TO_HOST.cancel, slot, flags: reason === 'timeout' ? STOP.timeout : STOP.cancelled })
    // A paused run cannot send its end. Resumed before the cancel it would start its next node.
    resumeFlow(run)
    run.graceTimer ??= setTimeout(() => kill(host, run), GRACE_MS)
    if (host.blocked && host.holder === slot) kill(host, run)
  }

  function kill(host: GraphHost, run: ActiveRun | null): void {
    log.warn({ host: host.pid, run_id: run?.run_id, reason: run?.stopReason }, 'a run did not stop; its host is killed')
    // The next run of it that does not stop takes no run of another graph along.
    if (run !== null) isolate(run.lease.graph_id, 'its run did not stop')
    host.kill()
  }

  function onStopped(run: ActiveRun): void {
    if (run.stopReason === 'lost') handBack.drop(run)
    else handBack.giveBack(run, RELEASE[run.stopReason ?? 'cancel'])
  }

  function onBlocked(host: GraphHost, slot: number, ms: number): void {
    const run = table.get(host, slot)
    if (run === undefined) {
      // A node that ignored its cancel. Two reports are needed: the end of a run and this report use different pipes.
      if (!table.formerRun(slot)?.wasStopped) return
      if (heldByFormer.get(host) === slot) kill(host, null)
      heldByFormer.set(host, slot)
    } else if (run.stopReason !== null) kill(host, run)
    else {
      isolate(run.lease.graph_id, `it held the event loop for ${ms} ms`, host)
      suspect(run.run_id)
    }
  }

  function onHostEnd(host: GraphHost, { slot, error, message }: HostEnd): void {
    const runs = table.runsOf(host)
    const owner = slot ? table.get(host, slot) : undefined
    // Code that an ended run left behind ended the host: its graph is known, and other runs of that graph do the same.
    const formerGraph = slot && owner === undefined ? table.formerRun(slot)?.graph_id : undefined
    const isKnown = slot === 0 || owner !== undefined || formerGraph !== undefined || table.isLent(host, slot ?? 0)
    if (!isKnown && runs.length > 1)
      log.warn({ host: host.pid, runs: runs.length }, 'the run that ended a host is unknown; all its runs are charged')
    if (formerGraph !== undefined) isolate(formerGraph, 'code that an ended run of it left behind ended a host')
    for (const run of runs) {
      if (run.stopReason !== null) onStopped(run)
      else if (!isKnown || run === owner || run.lease.graph_id === formerGraph) {
        isolate(run.lease.graph_id, 'its run ended a host')
        // Alone in its next host, a run that did not cause the end is not charged again.
        if (!isKnown || run === owner) suspect(run.run_id)
        handBack.giveBack(run, { charge: true, end: null, error: { error, message } })
      } else handBack.giveBack(run, BYSTANDER)
    }
  }

  return { stop, onStopped, onBlocked, onHostEnd }
}

const uncharged = (error: string, message: string) => ({ charge: false, end: null, error: { error, message } })
const BYSTANDER = uncharged('WorkerLost', 'its graph host ended')
const RELEASE = {
  cancel: uncharged('Cancelled', 'the run was cancelled'),
  store: uncharged('WorkerLost', 'the store was out of reach'),
  timeout: { charge: false, end: 'timeout' as const, error: { error: 'RunTimeout', message: 'The run took too long' } },
}
