/** The runs of a supervisor: by run id from the claim until the store knows their end, by slot while a host has them. */
import type { Publisher } from '../../bus/publish.js'
import type { Job } from '../../bus/queue.js'
import type { AnswerHead } from '../../schemas/calls.js'
import type { RunId } from '../../schemas/ids.js'
import { firstIdOf } from '../../schemas/subjects.js'
import type { GraphHost } from './host-process.js'

export type Taken = NonNullable<AnswerHead['lease']>

/**
 * Why a run is stopped: somebody asked for it; its time is up; the store was away too long; a later attempt holds it.
 */
export type StopReason = 'cancel' | 'timeout' | 'store' | 'lost'

export interface Executing {
  run: RunId
  lease: Taken
  /** The newest delivery of its wake-up: whose ack counts. */
  job: Job
  publisher: Publisher
  /** waits: for a host. runs: in a host. ends: it has left the host, the store is being told. */
  phase: 'waits' | 'runs' | 'ends'
  since: number
  /** The body of its start frame, until it is sent. */
  start: Uint8Array | null
  host: GraphHost | null
  /** 0 until it has a host. */
  slot: number
  /** The greatest event id taken from the host; before any, one less than the first of the attempt. */
  last: number
  paused: boolean
  /** When the store last confirmed our authority. */
  confirmed: number
  /** Settled once the store knows how far the stream is kept. */
  kept: Promise<unknown>
  /** Saves that are on their way to the store. */
  saves: Set<Promise<unknown>>
  stop: StopReason | null
  grace: NodeJS.Timeout | null
  limit: NodeJS.Timeout | null
  /** Resolves when nothing of it is left here. */
  over: Promise<void>
  isOver: () => void
}

export function executing(run: RunId, lease: Taken, job: Job, publisher: Publisher, start: Uint8Array): Executing {
  let isOver = () => {}
  const over = new Promise<void>(resolve => (isOver = resolve))
  const now = Date.now()
  return {
    run,
    lease,
    job,
    publisher,
    phase: 'waits',
    since: now,
    start,
    host: null,
    slot: 0,
    last: firstIdOf(lease.attempt) - 1,
    paused: false,
    confirmed: now,
    kept: Promise.resolve(),
    saves: new Set(),
    stop: null,
    grace: null,
    limit: null,
    over,
    isOver,
  }
}

export interface Past {
  graph_id: string
  /** It was told to stop. */
  stopped: boolean
}

/** So many ended runs are remembered. */
const MAX_PAST = 10_000

export interface Table {
  runs: Map<RunId, Executing>
  /** Claimed and in no host yet, in order. */
  waits: Set<Executing>
  /** Runs that take a place of ours. */
  size(): number
  /** The run in this slot of this host. */
  at(host: GraphHost, slot: number): Executing | undefined
  in(host: GraphHost): Executing[]
  seat(one: Executing, host: GraphHost): void
  /** Its slot is free again. */
  leave(one: Executing): void
  /** A slot for a question about a thread. */
  lend(host: GraphHost): { slot: number; back(): void }
  isLent(host: GraphHost, slot: number): boolean
  /** What had this slot before: code of it may still be there. */
  before(slot: number): Past | undefined
  /** The host is gone. */
  forget(host: GraphHost): void
}

export function openTable(): Table {
  const runs = new Map<RunId, Executing>()
  const waits = new Set<Executing>()
  const slots = new Map<number, Executing>()
  const lent = new Map<number, GraphHost>()
  const past = new Map<number, Past>()
  let last = 0

  /** 0 means no slot. A slot is used again only after four thousand million others. */
  function next(): number {
    do last = (last % 0xfffffffe) + 1
    while (slots.has(last) || lent.has(last))
    return last
  }

  function free(host: GraphHost, slot: number): void {
    host.slots.delete(slot)
    if (host.slots.size === 0) host.idle_since = Date.now()
  }

  return {
    runs,
    waits,
    size: () => slots.size + waits.size,
    at(host, slot) {
      const one = slots.get(slot)
      return one?.host === host ? one : undefined
    },
    in: host => [...slots.values()].filter(one => one.host === host),
    seat(one, host) {
      waits.delete(one)
      one.phase = 'runs'
      one.host = host
      one.slot = next()
      slots.set(one.slot, one)
      host.slots.add(one.slot)
    },
    leave(one) {
      one.phase = 'ends'
      waits.delete(one)
      if (one.host === null) return
      slots.delete(one.slot)
      past.set(one.slot, { graph_id: one.lease.graph_id, stopped: one.stop !== null })
      if (past.size > MAX_PAST) past.delete(past.keys().next().value!)
      free(one.host, one.slot)
    },
    lend(host) {
      const slot = next()
      lent.set(slot, host)
      host.slots.add(slot)
      const back = () => {
        if (lent.delete(slot)) free(host, slot)
      }
      return { slot, back }
    },
    isLent: (host, slot) => lent.get(slot) === host,
    before: slot => past.get(slot),
    forget(host) {
      for (const [slot, owner] of lent) if (owner === host) lent.delete(slot)
    },
  }
}
