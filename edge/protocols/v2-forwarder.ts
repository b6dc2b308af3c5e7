/**
 * What of the runs of a thread one subscription of protocol v2 gets (API: threads-and-runs 17): the events its filter
 * wants, and exactly one end of each run, told once that is stored; by the edge where no host lived to tell it.
 */
import type { Batch, Ending } from '../../bus/follow.js'
import type { EventsFilter } from '../../schemas/protocol-v2.js'
import type { FollowedRun } from '../../schemas/thread-stream.js'
import type { ThreadSink } from '../streams/thread-reader.js'
import { endFrame, openMarked } from './v2-filter.js'

/** `tell` gets frames of server-sent events. */
export function openTeller(
  filter: EventsFilter,
  tell: (frames: readonly Uint8Array[]) => void,
): Pick<ThreadSink, 'wants' | 'events' | 'error' | 'ended' | 'dropped'> {
  const marked = openMarked(filter)
  /** The end of the present run was told from here. */
  let told = false
  const tellEnd = (frame: Uint8Array | null) => frame !== null && tell([frame])
  return {
    /** A run that was made by the classic routes has no events here. */
    wants: ({ events }: FollowedRun) => (events ? 'events' : 'nothing'),
    events({ bytes, v2 }: Batch): void {
      const frames = v2 ? marked.pick(bytes) : []
      if (frames.length > 0) tell(frames)
    },
    error(id: number, error: NonNullable<Ending['error']>, run: FollowedRun): void {
      told = true
      tellEnd(endFrame(marked, run, { id, error }))
    },
    /** Whoever hears the end of a run finds the thread as the run left it. */
    ended(run, _status, last, read): void {
      const kept = marked.takeLast()
      if (kept !== null) tell(kept)
      else if (read && !told) tellEnd(endFrame(marked, run, { last }))
      told = false
    },
    dropped() {},
  }
}
