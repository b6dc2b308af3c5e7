/**
 * Slots that graph workers keep free for this resource worker: with one of them a run is claimed by the commit that
 * accepts it (decision 052). A pool whose runs are created is asked every second; a pool without an offer costs nothing,
 * its runs go through the work queue.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { v4 } from 'uuid'
import type { Link } from '../../../bus/connect.js'
import type { Mux } from '../../../bus/mux.js'
import { HAND_OVER_MS, type SlotOffer, type SlotRequest, validateSlotOffer } from '../../../schemas/calls.js'
import type { Pool } from '../../../schemas/ids.js'
import { slots as slotsOf } from '../../../schemas/subjects.js'
import { TransientSet } from '../../../schemas/transient.js'
import type { Slots } from '../context.js'

/** Slots that each graph worker is asked for. */
const WANTED = 64
const ASK_MS = 1_000
/** An older offer is not used: the rest of its time is for the commit and the message. */
const USABLE_MS = 2_000
/** Slots are kept for a pool this long after its last run. */
const KEEP_MS = 60_000
/** A graph worker that was known before is not waited for. */
const WELCOME_MS = 200
/** Workers of a pool whose answers come later than this are asked again the next time. */
const ANSWER_MS = 500

/** Limit of workers of one pool: code of an application may offer slots of any number of them. */
const MAX_WORKERS = 1_000

interface Offered extends SlotOffer {
  /** When it was asked for (monotonic). */
  asked_at: number
  /** Slots that were taken and not settled. */
  taken: number
}

interface PoolOffers {
  workers: Map<string, Offered>
  used_at: number
}

/** `now`: milliseconds of a clock that never jumps. */
export function openSlots(link: Pick<Link, 'log'>, mux: Mux, now = () => performance.now()): Slots {
  const underWay = new TransientSet<Promise<void>>()
  const asker = v4()
  const pools = new Map<Pool, PoolOffers>()
  const request = Buffer.from(JSON.stringify({ asker, slots: WANTED } satisfies SlotRequest))

  function ask(pool: Pool, { workers }: PoolOffers, onNew = () => {}): void {
    const asked_at = now()
    const onMessage: Parameters<Mux['many']>[2] = ({ headers, data }) => {
      if (headers?.code === 503) return true
      const offer = validateSlotOffer(JSON.parse(Buffer.from(data).toString()))
      if (!offer.success) return false
      const isNew = !workers.has(offer.data.member)
      keep(workers, offer.data, asked_at)
      if (isNew) onNew()
      return false
    }
    // It ends when no further worker answers.
    void mux.many(slotsOf(pool), request, onMessage, ANSWER_MS).catch(() => {})
  }

  function keep(workers: Map<string, Offered>, offer: SlotOffer, asked_at: number): void {
    const known = workers.get(offer.member)
    if (known === undefined && workers.size >= MAX_WORKERS) return
    // Answers may overtake each other.
    if (known !== undefined && known.stamp > offer.stamp) return
    workers.set(offer.member, { ...offer, asked_at, taken: known?.taken ?? 0 })
  }

  const timer = setInterval(() => {
    const at = now()
    for (const [pool, offers] of pools) {
      for (const [member, { asked_at, taken }] of offers.workers)
        if (taken === 0 && asked_at < at - HAND_OVER_MS) offers.workers.delete(member)
      if (offers.used_at < at - KEEP_MS) pools.delete(pool)
      else ask(pool, offers)
    }
  }, ASK_MS)
  timer.unref()

  return {
    take(pool) {
      const at = now()
      let offers = pools.get(pool)
      if (offers === undefined) {
        offers = { workers: new Map(), used_at: at }
        pools.set(pool, offers)
        ask(pool, offers)
        return null
      }
      offers.used_at = at
      const { workers } = offers
      for (const [member, offer] of workers) {
        if (offer.asked_at < at - USABLE_MS || offer.taken >= offer.slots) continue
        // The others are next.
        workers.delete(member)
        workers.set(member, offer)
        offer.taken++
        const asked_at = at
        const settle = (next: SlotOffer | null) => {
          release()
          if (next !== null) keep(workers, next, asked_at)
          else if (workers.get(member) === offer) offer.slots = 0
        }
        const release = () => {
          const known = workers.get(member)
          if (known !== undefined) known.taken--
        }
        return { worker: offer.worker, member, asker, stamp: offer.stamp, settle, release }
      }
      return null
    },
    async welcome(pool) {
      const offers = pools.get(pool)
      if (offers === undefined) return
      const isOffered = new Promise<void>(resolve => ask(pool, offers, resolve))
      await Promise.race([isOffered, sleep(WELCOME_MS, undefined, { ref: false })])
    },
    track(work) {
      const done = work
        .catch(err => link.log.warn({ err }, 'a run that was not handed over waits for the sweep'))
        .finally(() => underWay.delete(done))
      underWay.add(done)
    },
    async close() {
      clearInterval(timer)
      pools.clear()
      await Promise.all(underWay)
    },
  }
}
