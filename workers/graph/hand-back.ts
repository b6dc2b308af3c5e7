/** How a run leaves its supervisor: its end is stored, or it is given back for its next attempt. */
import type { Log } from '../../bus/log.js'
import type { Release } from '../../schemas/calls.js'
import { type Authority, isFenced } from './lease-client.js'
import type { Orders } from './run-signals.js'
import type { Executing, Table } from './run-table.js'

/** Stored events of an old attempt come before those of the next. */
const SETTLE_MS = 10_000
const SAVES_MS = 5_000

export interface Giving {
  /** The host says how it ended. */
  finish(one: Executing, body: Uint8Array): Promise<void>
  back(one: Executing, release: Omit<Release, 'last_event_id'>): void
  /** Another attempt holds it: there is nobody to tell. Its wake-up is theirs, too. */
  drop(one: Executing): void
}

export interface GivingOptions {
  log: Log
  table: Table
  authority: Authority
  orders: Orders
  onFree(): void
}

export function openGiving({ log, table, authority, orders, onFree }: GivingOptions): Giving {
  function leave(one: Executing): void {
    if (one.grace !== null) clearTimeout(one.grace)
    if (one.limit !== null) clearTimeout(one.limit)
    if (one.paused) one.host?.resume()
    one.publisher.end()
    table.leave(one)
    onFree()
  }

  function over(one: Executing): void {
    if (table.runs.get(one.run) === one) table.runs.delete(one.run)
    one.isOver()
  }

  async function finish(one: Executing, body: Uint8Array): Promise<void> {
    const { run, lease } = one
    leave(one)
    try {
      if (lease.resumable) await Promise.all([one.publisher.settled(SETTLE_MS), one.kept])
      await authority.finish(lease, body)
      if (!(await one.job.done())) log.warn({ run_id: run }, 'the broker had given the wake-up to somebody else')
    } catch (error) {
      if (isFenced(error))
        log.warn({ run_id: run, attempt: lease.attempt }, 'a later attempt holds the run; its end was refused')
      else {
        log.error({ err: error, run_id: run }, 'the end of a run could not be stored; it will be taken over')
        one.job.back()
      }
    } finally {
      orders.ended(run)
      over(one)
    }
  }

  async function giveBack(one: Executing, release: Omit<Release, 'last_event_id'>): Promise<void> {
    const { run, lease } = one
    leave(one)
    let settled = false
    log.warn(
      { run_id: run, attempt: lease.attempt, charge: release.charge, why: release.error.message },
      'run given back',
    )
    try {
      // What its host had still sent: a checkpoint that is stored is a step that is not repeated.
      await soon(Promise.allSettled(one.saves))
      if (lease.resumable) await Promise.all([one.publisher.settled(SETTLE_MS), one.kept])
      const { ended } = await authority.release(lease, { ...release, last_event_id: one.last })
      settled = ended
      await one.job.done()
    } catch (error) {
      if (isFenced(error)) log.warn({ run_id: run, attempt: lease.attempt }, 'a later attempt holds the run already')
      else {
        log.warn({ err: error, run_id: run }, 'a run could not be given back; it will be taken over')
        one.job.back()
      }
    } finally {
      if (settled) orders.ended(run)
      else orders.given(run)
      over(one)
    }
  }

  return {
    async finish(one, body) {
      if (one.phase !== 'ends') await finish(one, body)
    },
    back(one, release) {
      if (one.phase !== 'ends') void giveBack(one, release)
    },
    drop(one) {
      if (one.phase === 'ends') return
      leave(one)
      orders.given(one.run)
      over(one)
    },
  }
}

const soon = (work: Promise<unknown>) => Promise.race([work, new Promise(done => setTimeout(done, SAVES_MS).unref())])
