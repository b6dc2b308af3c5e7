/** The runs of a supervisor: by run id from the claim until the store has their end, by slot while a host has them. */

import type { Span } from '../../bus/otlp/traces.js'
import type { Publisher } from '../../bus/publish.js'
import type { Job } from '../../bus/queue.js'
import type { ClaimedLease } from '../../schemas/calls.js'
import type { RunId } from '../../schemas/ids.js'
import { firstIdOf } from '../../schemas/subjects.js'
import { TransientMap, TransientSet } from '../../schemas/transient.js'
import type { GraphHost } from './host-process.js'

/**
 * Why a run is stopped: a cancel was requested; it exceeded its time limit; the store was unreachable for too long; a
 * later attempt holds it.
 */
export type StopReason = 'cancel' | 'timeout' | 'store' | 'lost'

/** A run that publishes faster than the broker takes its events. */
export interface Hold {
  /** The supervisor has told the host to pause this run. */
  isRunPaused: boolean
  /** Bytes of the run that have come since. */
  late: number
}

export interface ActiveRun {
  run_id: RunId
  lease: ClaimedLease
  /** The newest delivery of its wake-up: the one to ack. */
  job: Job
  publisher: Publisher
  /** waiting: for a host. running: in a host. ending: it has left the host and its end is being stored. */
  phase: 'waiting' | 'running' | 'ending'
  claimed_at: number
  /** The body of its start frame, until it is sent. */
  start: Uint8Array | null
  host: GraphHost | null
  /** 0 until it has a host. */
  slot: number
  /** The greatest event id taken from the host; before any, one less than the first of the attempt. */
  last_event_id: number
  /** The last event before each of its newest checkpoints, by their ids; null: its host has reported none. */
  checkpoints: TransientMap<string, number> | null
  /** Null unless it is held back (flow.ts). */
  hold: Hold | null
  /** When the heartbeat or claim was sent that last confirmed the lease (monotonicMs). */
  confirmed_at: number
  /** Resolves when the store has the event id up to which the stream is stored. */
  streamFullStored: Promise<unknown>
  /** Saves on their way to the store. */
  saves: Set<Promise<unknown>>
  stopReason: StopReason | null
  /** A run logs one failure: code of it could write any number of them. */
  isFailureLogged: boolean
  graceTimer: NodeJS.Timeout | null
  limitTimer: NodeJS.Timeout | null
  /** Bytes of `spans` frames so far. */
  spans_bytes: number
  /** Null when the run is not traced. */
  span: Span | null
  /** Resolves when the run has left this process. */
  left: Promise<void>
  resolveLeft: () => void
}

export function newActiveRun(
  run_id: RunId,
  lease: ClaimedLease,
  { job, start, confirmed_at }: Pick<ActiveRun, 'job' | 'start' | 'confirmed_at'>,
  publisher: Publisher,
): ActiveRun {
  let resolveLeft = () => {}
  const left = new Promise<void>(resolve => (resolveLeft = resolve))
  const now = performance.now()
  return {
    run_id,
    lease,
    job,
    publisher,
    phase: 'waiting',
    claimed_at: now,
    start,
    host: null,
    slot: 0,
    last_event_id: firstIdOf(lease.attempt) - 1,
    checkpoints: null,
    hold: null,
    confirmed_at,
    streamFullStored: Promise.resolve(),
    saves: new Set(),
    stopReason: null,
    isFailureLogged: false,
    graceTimer: null,
    limitTimer: null,
    spans_bytes: 0,
    span: null,
    left,
    resolveLeft,
  }
}

/** The last run of a slot that is free again. */
export interface FormerRun {
  run_id: RunId
  thread_id: string
  /** The process of its host. */
  pid: number
  graph_id: string
  wasStopped: boolean
}

const MAX_FORMER = 10_000

export interface RunTable {
  runs: TransientMap<RunId, ActiveRun>
  /** Claimed and not in a host yet, in order. */
  waiting: TransientSet<ActiveRun>
  /** Runs that count against the slots of this worker. */
  size(): number
  /** The run in this slot of this host. */
  get(host: GraphHost, slot: number): ActiveRun | undefined
  runsOf(host: GraphHost): ActiveRun[]
  assign(run: ActiveRun, host: GraphHost): void
  /** Frees the slot of the run. */
  release(run: ActiveRun): void
  /** A slot for a call about a thread. */
  lend(host: GraphHost, thread_id: string): { slot: number; giveBack(): void }
  isLent(host: GraphHost, slot: number): boolean
  /** The thread of the run or the call in this slot: the only one whose checkpoints the slot may read. */
  threadOf(host: GraphHost, slot: number): string | undefined
  /** The run that had this slot before: code of it may still execute. */
  formerRun(slot: number): FormerRun | undefined
  /** Forgets the slots that were lent to a host that has ended. */
  removeHost(host: GraphHost): void
}

export function openRunTable(): RunTable {
  const runs = new TransientMap<RunId, ActiveRun>()
  const waiting = new TransientSet<ActiveRun>()
  const slots = new TransientMap<number, ActiveRun>()
  const lent = new TransientMap<number, { host: GraphHost; thread_id: string }>()
  const former = new TransientMap<number, FormerRun>()
  let lastSlot = 0

  /** 0 means no slot. Slot numbers repeat after 2³². */
  function nextSlot(): number {
    do lastSlot = (lastSlot % 0xfffffffe) + 1
    while (slots.has(lastSlot) || lent.has(lastSlot))
    return lastSlot
  }

  function free(host: GraphHost, slot: number): void {
    host.slots.delete(slot)
    host.held?.forget(slot)
    if (host.slots.size === 0) host.idle_since = performance.now()
  }

  return {
    runs,
    waiting,
    size: () => slots.size + waiting.size,
    get(host, slot) {
      const run = slots.get(slot)
      return run?.host === host ? run : undefined
    },
    runsOf: host => [...slots.values()].filter(run => run.host === host),
    assign(run, host) {
      waiting.delete(run)
      run.phase = 'running'
      run.host = host
      run.slot = nextSlot()
      slots.set(run.slot, run)
      host.slots.add(run.slot)
    },
    release(run) {
      run.phase = 'ending'
      waiting.delete(run)
      if (run.host === null) return
      slots.delete(run.slot)
      const { graph_id, thread_id } = run.lease
      const { pid } = run.host
      former.set(run.slot, { run_id: run.run_id, thread_id, graph_id, pid, wasStopped: run.stopReason !== null })
      if (former.size > MAX_FORMER) former.delete(former.keys().next().value!)
      free(run.host, run.slot)
    },
    lend(host, thread_id) {
      const slot = nextSlot()
      lent.set(slot, { host, thread_id })
      host.slots.add(slot)
      const giveBack = () => {
        if (lent.delete(slot)) free(host, slot)
      }
      return { slot, giveBack }
    },
    isLent: (host, slot) => lent.get(slot)?.host === host,
    threadOf(host, slot) {
      const run = slots.get(slot)
      if (run?.host === host) return run.lease.thread_id
      const call = lent.get(slot)
      return call?.host === host ? call.thread_id : undefined
    },
    formerRun: slot => former.get(slot),
    removeHost(host) {
      for (const [slot, owner] of lent) if (owner.host === host) lent.delete(slot)
    },
  }
}

/** Nothing more of the run leaves this process. */
export const isMuted = (run: ActiveRun): boolean => run.stopReason === 'lost' || run.stopReason === 'store'
