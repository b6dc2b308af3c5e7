/**
 * Runs that resource workers claim with their create (decision 052). A resource worker asks for slots, this worker keeps
 * them free for a while, and each run that is handed over uses one. What cites no offer of the last HAND_OVER_MS, or has
 * no slot left, is refused: the run then goes through the work queue.
 */
import type { Link } from '../../bus/connect.js'
import type { Job } from '../../bus/queue.js'
import type { Context } from '../../bus/serve.js'
import {
  type ClaimedLease,
  HAND_OVER_MS,
  type SlotOffer,
  validateHandOver,
  validateSlotRequest,
} from '../../schemas/calls.js'
import { fail } from '../../schemas/errors.js'
import { type Pool, type RunId, token } from '../../schemas/ids.js'
import { slots as slotsOf } from '../../schemas/subjects.js'
import { monotonicMs } from '../pipe.js'
import type { Claimed } from './claims.js'
import type { RunSignals } from './run-signals.js'

export interface Offers {
  /** Offers slots from now on to those who ask. `member` receives `host.<pool>.start`. */
  open(member: string): void
  /** A run that was handed over; the answer is the next offer. Throws conflict when it cannot start here. */
  start(context: Pick<Context, 'head'>, start: Uint8Array): SlotOffer
  /**
   * Slots for runs of the work queue, in which `waiting` wait. While they need more than what is not kept free, nothing is:
   * they are older than what would be handed over.
   */
  forQueue(waiting: number): number
  quiet(): void
}

export interface OffersOptions {
  link: Pick<Link, 'subscribe'>
  pool: Pool
  worker: string
  /** Slots without a run, those that are kept free included. */
  freeSlots(): number
  canStart(lease: ClaimedLease): boolean
  signals: Pick<RunSignals, 'subscribe'>
  onClaimed(claimed: Claimed): void
  /** Milliseconds of a clock that never jumps. */
  now?: () => number
}

interface Offer {
  slots: number
  stamp: number
}

export function openOffers(options: OffersOptions): Offers {
  const { link, pool, worker, freeSlots, canStart, signals, onClaimed, now = monotonicMs } = options
  const offers = new Map<string, Offer>()
  let member: string | null = null
  let queued = 0
  let subscription: { unsubscribe(): void } | null = null

  function reserved(): number {
    const since = now() - HAND_OVER_MS
    let sum = 0
    for (const [asker, { slots, stamp }] of offers)
      if (stamp < since) offers.delete(asker)
      else sum += slots
    return sum
  }

  const unreserved = () => freeSlots() - reserved()

  /** At most half of what is free without the runs that wait: the rest is for the work queue, and for others who ask. */
  function offer(asker: string, wanted: number): SlotOffer {
    offers.delete(asker)
    const slots = member === null ? 0 : Math.max(0, Math.min(wanted, Math.floor((unreserved() - queued) / 2)))
    const stamp = now()
    if (slots > 0) offers.set(asker, { slots, stamp })
    return { member: member ?? '', worker, slots, stamp }
  }

  return {
    open(name) {
      member = name
      subscription = link.subscribe(slotsOf(pool), message => {
        const request = validateSlotRequest(message.json())
        if (!request.success) return
        const made = offer(request.data.asker, request.data.slots)
        if (made.slots > 0) message.respond(JSON.stringify(made))
      })
    },
    start({ head }, start) {
      const handed = validateHandOver(head.hand_over)
      if (!handed.success) throw fail('bad_request', 'A run is handed over with its lease and the stamp of an offer')
      const { asker, lease, stamp } = handed.data
      const known = offers.get(asker)
      if (known === undefined || known.slots === 0 || stamp < now() - HAND_OVER_MS || !canStart(lease))
        throw fail('conflict', 'No slot is kept free for this run')
      known.slots--
      const run_id = token<'run'>('run', lease.run_id)
      signals.subscribe(run_id)
      // The lease began after the offer was made.
      onClaimed({ run_id, lease, start, confirmed_at: stamp, job: withoutWakeUp(lease), cancelled: false })
      return offer(asker, known.slots + 1)
    },
    forQueue(waiting) {
      queued = waiting
      if (unreserved() < waiting) offers.clear()
      return Math.max(0, unreserved())
    },
    quiet() {
      member = null
      offers.clear()
      subscription?.unsubscribe()
    },
  }
}

/** The run has no message in the work queue: when it is lost, the sweep for dead holders finds it. */
const withoutWakeUp = ({ run_id, thread_id }: { run_id: RunId | string; thread_id: string }): Job => ({
  any: false,
  run_id,
  thread_id,
  seq: 0,
  working() {},
  done: () => Promise.resolve(true),
  back() {},
})
