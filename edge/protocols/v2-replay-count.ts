/**
 * Counts the events that a subscription of protocol v2 begins with (docs/spec/protocol-v2.md#commands). They
 * are read twice, once for the number and once for the client: the answer comes before the first event, and the stored
 * events of a run are too large to be held in memory.
 */
import type { CallHead } from '../../schemas/calls.js'
import type { EventsAsked } from '../../schemas/protocols/v2.js'
import type { Edge } from '../context.js'
import { ThreadReader } from '../streams/thread-reader.js'
import { openForwarder } from './v2-forwarder.js'

export interface ReplayCount {
  /** Rejects with a WeftError when the events cannot be read. */
  count: Promise<number>
  /** Ends the reading: `count` resolves to the events counted so far. */
  stop(): void
}

export function countReplay(edge: Edge, head: CallHead, { filter, from }: EventsAsked): ReplayCount {
  let count = 0
  let stop = () => {}
  const all = new Promise<void>(done => (stop = done))
  const reader = new ThreadReader(edge, head, {
    ...openForwarder(filter, frames => (count += frames.length)),
    ready: true,
    caughtUp: () => stop(),
    closed: () => stop(),
  })
  const read = async () => {
    try {
      await reader.open(from, { mayMiss: true })
      reader.start()
      await all
      return count
    } finally {
      reader.close()
    }
  }
  return { count: read(), stop }
}
