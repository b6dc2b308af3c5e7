/**
 * Stopping a run means that its work stops: it is aborted, and its host is killed when it goes on for the grace, or at
 * once when it holds the event loop and so cannot even hear. What dies with the host and was not to blame is given back
 * uncharged.
 */
import type { Log } from '../../bus/log.js'
import type { RunId } from '../../schemas/ids.js'
import { STOP, TO_HOST } from '../pipe.js'
import type { Giving } from './hand-back.js'
import type { HostEnd } from './host-end.js'
import type { GraphHost } from './host-process.js'
import type { Executing, StopReason, Table } from './run-table.js'

const GRACE_MS = 5_000
/** The greater one overrules. */
const WEIGHT: { readonly [reason in StopReason]: number } = { cancel: 1, timeout: 1, store: 2, lost: 3 }

export interface Stopping {
  /** Repeatable. */
  stop(one: Executing, reason: StopReason): void
  /** It has stopped and its host lives on. */
  stopped(one: Executing): void
  /** The code of this slot holds the event loop, for 1 s, 2 s … */
  blocked(host: GraphHost, slot: number, ms: number): void
  died(host: GraphHost, end: HostEnd): void
}

export interface StoppingOptions {
  log: Log
  table: Table
  giving: Giving
  isolate(graph_id: string, why: string): void
  /** It has ended or blocked a host: should it start again, then with none beside it. */
  suspect(run: RunId): void
}

export function openStopping({ log, table, giving, isolate, suspect }: StoppingOptions): Stopping {
  /** Hosts whose loop is held by a slot that no run has any more. */
  const left = new WeakMap<GraphHost, number>()

  function stop(one: Executing, reason: StopReason): void {
    if (one.phase === 'ends' || (one.stop !== null && WEIGHT[reason] <= WEIGHT[one.stop])) return
    one.stop = reason
    const { host, slot, run, lease } = one
    if (reason !== 'cancel') log.warn({ run_id: run, attempt: lease.attempt, reason }, 'a run is stopped')
    if (host === null) return stopped(one)
    host.send({ kind: TO_HOST.cancel, slot, flags: reason === 'timeout' ? STOP.timeout : STOP.cancelled })
    one.grace ??= setTimeout(() => kill(host, one), GRACE_MS)
    if (host.blocked && host.holder === slot) kill(host, one)
  }

  function kill(host: GraphHost, one: Executing | null): void {
    log.warn({ host: host.pid, run_id: one?.run, reason: one?.stop }, 'a run did not stop; its host is killed')
    host.kill()
  }

  function stopped(one: Executing): void {
    if (one.stop === 'lost') giving.drop(one)
    else giving.back(one, RELEASE[one.stop ?? 'cancel'])
  }

  function blocked(host: GraphHost, slot: number, ms: number): void {
    const one = table.at(host, slot)
    if (one === undefined) {
      // A node that ignored its cancel. Seen twice: the end of a run and this word come over different pipes.
      if (!table.before(slot)?.stopped) return
      if (left.get(host) === slot) kill(host, null)
      left.set(host, slot)
    } else if (one.stop !== null) kill(host, one)
    else {
      isolate(one.lease.graph_id, `it held the event loop for ${ms} ms`)
      suspect(one.run)
    }
  }

  function died(host: GraphHost, { slot, error, message }: HostEnd): void {
    const here = table.in(host)
    const owner = slot === null || slot === 0 ? undefined : (table.at(host, slot) ?? table.before(slot))
    if (slot === null && here.length > 1)
      log.warn(
        { host: host.pid, runs: here.length },
        'whose doing the end of a host was is unknown; all its runs are charged',
      )
    // What an ended run left behind has done it: its graph is known, and its other runs do the same.
    const rest = owner !== undefined && 'stopped' in owner ? owner.graph_id : null
    if (rest !== null) isolate(rest, 'what a run of it left behind ended a host')
    for (const one of here) {
      if (one.stop !== null) stopped(one)
      else if (slot === null || one === owner || one.lease.graph_id === rest) {
        isolate(one.lease.graph_id, 'its run ended a host')
        if (one === owner) suspect(one.run)
        giving.back(one, { charge: true, end: null, error: { error, message } })
      } else giving.back(one, BYSTANDER)
    }
  }

  return { stop, stopped, blocked, died }
}

const gone = (error: string, message: string) => ({ charge: false, end: null, error: { error, message } })
const BYSTANDER = gone('WorkerLost', 'its graph host ended')
const RELEASE = {
  cancel: gone('Cancelled', 'the run was cancelled'),
  store: gone('WorkerLost', 'the store was out of reach'),
  timeout: { charge: false, end: 'timeout' as const, error: { error: 'RunTimeout', message: 'The run took too long' } },
}
