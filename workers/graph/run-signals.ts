/**
 * Orders for the runs of a supervisor: cancel, and replay while the ring of the run is kept. It listens before it
 * claims: a cancel is then seen either in the row or as a message.
 */

import type { Link } from '../../bus/connect.js'
import { readSignal } from '../../bus/events.js'
import type { Rings } from '../../bus/ring.js'
import type { RunId } from '../../schemas/ids.js'
import { control } from '../../schemas/subjects.js'

/** Ended runs whose ring is kept, at most: the oldest goes first. */
const MAX_ENDED = 10_000
/** A run that was given back is claimed here again or elsewhere: then two would answer for it. */
const GIVEN_MS = 3_000
const EXPIRY_MS = 1_000

export interface Orders {
  listen(run: RunId): void
  /** The run never came to be here. */
  dismiss(run: RunId): void
  /** It has ended: its ring is kept for those who come back. */
  ended(run: RunId): void
  /** It goes on elsewhere, or here again. */
  given(run: RunId): void
  close(): void
}

interface Listening {
  subscription: { unsubscribe(): void }
  /** Counts what happened to the run: a promise to forget it holds for the same number only. */
  turn: number
}

export function openOrders(link: Link, rings: Rings, keep_ms: number, onCancel: (run: RunId) => void): Orders {
  const runs = new Map<RunId, Listening>()
  const kept: Leaving[] = []
  const given: Leaving[] = []

  function later(list: Leaving[], run: RunId): void {
    const known = runs.get(run)
    if (known === undefined) return
    known.turn++
    list.push({ run, turn: known.turn, at: Date.now() })
  }

  function expire(list: Leaving[], before: number, most: number, drop: boolean): void {
    while (list.length > 0 && (list.length > most || list[0]!.at < before)) {
      const { run, turn } = list.shift()!
      const known = runs.get(run)
      if (known === undefined && drop) rings.drop(run)
      if (known?.turn !== turn) continue
      known.subscription.unsubscribe()
      runs.delete(run)
      if (drop) rings.drop(run)
      else kept.push({ run, turn, at: Date.now() })
    }
  }

  const expiry = setInterval(() => {
    const now = Date.now()
    expire(given, now - GIVEN_MS, Number.POSITIVE_INFINITY, false)
    expire(kept, now - keep_ms, MAX_ENDED, true)
  }, EXPIRY_MS)
  expiry.unref()

  return {
    listen(run) {
      const known = runs.get(run)
      if (known !== undefined) {
        known.turn++
        return
      }
      const subscription = link.nc.subscribe(control(run), {
        callback: (error, message) => {
          if (error) return
          const signal = readSignal(message.data)
          if (signal.do === 'replay') rings.answer(run, signal.after, message)
          else onCancel(run)
        },
      })
      runs.set(run, { subscription, turn: 0 })
    },
    dismiss(run) {
      const known = runs.get(run)
      // It was here before: what is kept of it is kept on.
      if (known === undefined || known.turn > 0) return later(kept, run)
      known.subscription.unsubscribe()
      runs.delete(run)
    },
    ended(run) {
      rings.ended(run)
      later(kept, run)
    },
    given: run => later(given, run),
    close() {
      clearInterval(expiry)
      for (const { subscription } of runs.values()) subscription.unsubscribe()
      runs.clear()
    },
  }
}

interface Leaving {
  run: RunId
  turn: number
  at: number
}
