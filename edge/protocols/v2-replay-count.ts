/**
 * How many events a subscription of protocol v2 begins with (API: threads-and-runs 17, replayed_events). They are read
 * once for the number and again for the client: the answer comes before the first of them, and what is kept of a run
 * is too much to be held here.
 */
import type { CallHead } from '../../schemas/calls.js'
import type { EventsAsked } from '../../schemas/protocol-v2.js'
import type { Edge } from '../context.js'
import { ThreadReader } from '../streams/thread-reader.js'
import { openTeller } from './v2-forwarder.js'

export interface ReplayCount {
  /** Rejects with a WeftError when they cannot be read. */
  done: Promise<number>
  /** Nobody waits for it any more: it says what was counted so far. */
  stop(): void
}

export function countReplay(edge: Edge, head: CallHead, { filter, from }: EventsAsked): ReplayCount {
  let count = 0
  let stop = () => {}
  const all = new Promise<void>(done => (stop = done))
  const reader = new ThreadReader(edge, head, {
    ...openTeller(filter, frames => (count += frames.length)),
    ready: true,
    caughtUp: () => stop(),
    closed: () => stop(),
  })
  const counted = async () => {
    try {
      await reader.open(from, true)
      reader.start()
      await all
      return count
    } finally {
      reader.close()
    }
  }
  return { done: counted(), stop }
}
