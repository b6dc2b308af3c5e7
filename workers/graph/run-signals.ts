/**
 * Signals for the runs of a supervisor: cancel, the place of a checkpoint, and replay while the ring of the run is in memory. The subscription
 * exists before the claim: a cancel is then seen either in the row or as a message. A replay that is asked for during the
 * claim waits for its result, because until then nobody knows whether this supervisor has the events.
 */
import type { Link } from '../../bus/connect.js'
import { readSignal } from '../../bus/events.js'
import type { Rings } from '../../bus/ring.js'
import type { Pool, RunId } from '../../schemas/ids.js'
import { control } from '../../schemas/subjects.js'
import { TransientMap } from '../../schemas/transient.js'

/** Ended runs whose ring is in memory, at most: the oldest is dropped first. */
const MAX_ENDED = 10_000
/** A run that was given back is claimed again, here or elsewhere: after this two supervisors would answer for it. */
const HANDED_BACK_MS = 3_000
const EXPIRY_MS = 1_000

export interface RunSignals {
  /** The claim of the run begins. */
  subscribe(run: RunId): void
  /** The claim succeeded, and the ring of the run is open. */
  begin(run: RunId): void
  /** The claim of the run failed. */
  dismiss(run: RunId): void
  /** The run has ended: its ring stays in memory for readers that reconnect, until the room is needed. */
  ended(run: RunId): void
  /** The run continues on another worker, or here again. */
  handedBack(run: RunId): void
  close(): void
}

type Request = Parameters<Rings['answer']>[2]

interface Subscribed {
  subscription: { unsubscribe(): void }
  /** Requests for a replay during the first claim; null: they are answered from the ring. */
  held: Request[] | null
  /** Raised by each change of the run: an expiry applies only if it was scheduled under the same number. */
  version: number
}

interface Expiry {
  run: RunId
  version: number
  at: number
}

export function openRunSignals(
  link: Pick<Link, 'nc' | 'subscribe'>,
  pool: Pool,
  rings: Pick<Rings, 'answer' | 'ended' | 'drop' | 'has'>,
  keep_ms: number,
  { cancel, locate }: { cancel(run: RunId): void; locate(run: RunId, checkpoint: string): number | null },
): RunSignals {
  const runs = new TransientMap<RunId, Subscribed>()
  const endedRuns: Expiry[] = []
  const handedBack: Expiry[] = []

  function expireLater(list: Expiry[], run: RunId): void {
    const known = runs.get(run)
    if (known === undefined) return
    known.version++
    list.push({ run, version: known.version, at: performance.now() })
  }

  /** Removes the head of the list as long as it is due. */
  function expire(list: Expiry[], isDue: (expiry: Expiry) => boolean, onExpired: (expiry: Expiry) => void): void {
    while (list.length > 0 && isDue(list[0]!)) onExpired(list.shift()!)
  }

  /** Requests that were held are sent again: to the supervisor that has the run, else to nobody, which answers at once. */
  function release(run: RunId, { subscription, held }: Subscribed): void {
    subscription.unsubscribe()
    for (const { data, reply } of held ?? [])
      if (reply !== undefined) link.nc.publish(control(pool, run), data, { reply })
  }

  function unsubscribe({ run, version }: Expiry): boolean {
    const known = runs.get(run)
    if (known?.version !== version) return known === undefined
    release(run, known)
    runs.delete(run)
    return true
  }

  const expiryTimer = setInterval(() => {
    const now = performance.now()
    const wasHandedBack = ({ at }: Expiry) => at < now - HANDED_BACK_MS
    expire(handedBack, wasHandedBack, expiry => {
      const isKnown = runs.has(expiry.run)
      if (unsubscribe(expiry) && isKnown) endedRuns.push({ ...expiry, at: now })
    })
    // A ring that was dropped answers nothing: without a subscription the broker says so.
    const isOver = ({ run, at }: Expiry) => at < now - keep_ms || endedRuns.length > MAX_ENDED || !rings.has(run)
    expire(endedRuns, isOver, expiry => {
      if (unsubscribe(expiry)) rings.drop(expiry.run)
    })
  }, EXPIRY_MS)
  expiryTimer.unref()

  return {
    subscribe(run) {
      const known = runs.get(run)
      if (known !== undefined) {
        known.version++
        return
      }
      const entry: Subscribed = {
        subscription: link.subscribe(control(pool, run), message => {
          const signal = readSignal(message.data)
          if (signal?.do === 'cancel') cancel(run)
          else if (signal?.do === 'locate') message.respond(JSON.stringify({ after: locate(run, signal.checkpoint) }))
          else if (signal?.do !== 'replay') return
          else if (entry.held !== null) entry.held.push(message)
          else rings.answer(run, signal.after, message)
        }),
        held: [],
        version: 0,
      }
      runs.set(run, entry)
    },
    begin(run) {
      const known = runs.get(run)
      if (known?.held == null) return
      const { held } = known
      known.held = null
      for (const message of held) {
        const signal = readSignal(message.data)
        if (signal?.do === 'replay') rings.answer(run, signal.after, message)
      }
    },
    dismiss(run) {
      const known = runs.get(run)
      // An earlier attempt ran here: its ring stays in memory.
      if (known === undefined || known.version > 0) return expireLater(endedRuns, run)
      release(run, known)
      runs.delete(run)
    },
    ended(run) {
      rings.ended(run)
      expireLater(endedRuns, run)
    },
    handedBack: run => expireLater(handedBack, run),
    close() {
      clearInterval(expiryTimer)
      for (const [run, known] of runs) release(run, known)
      runs.clear()
    },
  }
}
