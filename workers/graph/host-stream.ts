/**
 * Events of a run as the final bytes of its stream: encoded once, here, and never parsed again on their way. All
 * events of one event-loop turn leave as one frame (3 × the rate of one frame each). Ids have no gaps.
 */
import { LARGEST_STATE, StateTooLarge } from './limits.js'

/** An event of more bytes goes alone in its frame. */
const ALONE = 256 * 1024
/** Characters of a frame: at three bytes each it stays under 512 KB. */
const FULL = Math.floor((512 * 1024) / 3)

export interface EventBuffer {
  /** `json` is the text of the data, without line ends. */
  push(event: string, json: string): void
  flush(): void
  /** Of the last event pushed; one less than the first id before any. */
  lastId(): number
}

/** `send` gets complete events; `later` calls the flush at the end of the event-loop turn. */
export function eventBuffer(
  firstId: number,
  send: (id: number, count: number, body: Uint8Array) => void,
  later: (flush: () => void) => void,
): EventBuffer {
  let next = firstId
  let text = ''
  let count = 0
  let waits = false
  const flush = () => {
    waits = false
    if (count === 0) return
    send(next - count, count, Buffer.from(text))
    text = ''
    count = 0
  }
  return {
    push(event, json) {
      const frame = `id: ${next}\nevent: ${event}\ndata: ${json}\n\n`
      const bytes = frame.length * 3 > ALONE ? Buffer.byteLength(frame) : 0
      if (bytes > LARGEST_STATE) throw new StateTooLarge('The values of an event', bytes)
      const large = bytes > ALONE
      if (large || text.length + frame.length > FULL) flush()
      text += frame
      count++
      next++
      if (large) return flush()
      if (waits) return
      waits = true
      later(flush)
    },
    flush,
    lastId: () => next - 1,
  }
}

/** Runs callbacks at the end of the event-loop turn, all with one immediate. */
export function turnEnd(): (callback: () => void) => void {
  let waiting: (() => void)[] = []
  const run = () => {
    const now = waiting
    waiting = []
    for (const callback of now) callback()
  }
  return callback => {
    if (waiting.length === 0) setImmediate(run)
    waiting.push(callback)
  }
}
