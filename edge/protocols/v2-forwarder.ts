/**
 * The events that one subscription of protocol v2 gets of the runs of a thread (docs/spec/protocol-v2.md): those its
 * filter wants, and exactly one end of each run, sent once that end is stored; the edge writes it where no host was
 * alive to do so.
 */
import type { Batch } from '../../bus/follow.js'
import type { EventsFilter } from '../../schemas/protocols/v2.js'
import type { FollowedRun } from '../../schemas/thread-stream.js'
import type { RunError } from '../streams/run-end.js'
import type { ThreadSink } from '../streams/thread-reader.js'
import { endFrame, openTagFilter } from './v2-filter.js'

/** `send` gets frames of server-sent events. */
export function openForwarder(
  filter: EventsFilter,
  send: (frames: readonly Uint8Array[]) => void,
): Pick<ThreadSink, 'wants' | 'events' | 'error' | 'ended' | 'dropped'> {
  const tags = openTagFilter(filter)
  /** The edge has written the end of the present run. */
  let endSent = false
  const sendEnd = (frame: Uint8Array | null) => frame !== null && send([frame])
  return {
    /** A run that was created by the classic routes has no events of this protocol. */
    wants: ({ events }: FollowedRun) => (events ? 'events' : 'nothing'),
    events({ bytes, v2 }: Batch): void {
      const frames = v2 ? tags.pick(bytes) : []
      if (frames.length > 0) send(frames)
    },
    error(id: number, error: RunError, run: FollowedRun): void {
      endSent = true
      sendEnd(endFrame(tags, run, { id, error }))
    },
    /** A client that receives the end of a run finds the thread as the run left it. */
    ended(run, status, last, read): void {
      const held = tags.takeLast()
      if (held !== null) send(held)
      else if (read && !endSent) sendEnd(endFrame(tags, run, { last, status }))
      endSent = false
    },
    dropped() {},
  }
}
