/**
 * Encodes the events of a run as the final bytes of its stream: once, here; no later component parses them. All events
 * of one event-loop turn leave in one frame (3 × the rate of one frame each). Ids have no gaps.
 *
 * Events of protocol v2 leave in separate frames, behind the classic events of their turn: no reader receives both
 * kinds, so their relative order is irrelevant.
 */
import { type EventTag, tagText } from '../../../schemas/protocols/v2.js'
import { LARGEST_STATE, StateTooLarge } from '../limits.js'

/** A larger event gets a separate frame. */
const ALONE = 256 * 1024
/** Characters of a frame: at three bytes each a frame stays under 512 KB. */
const FULL = Math.floor((512 * 1024) / 3)

export interface EventBuffer {
  /** `json` is the text of the data, without line ends. */
  push(event: string, json: string): void
  /** Adds an event of protocol v2; `params` is the text of its params. Its number is its position in the thread. */
  pushEvent(tag: EventTag, method: string, params: string): void
  flush(): void
  /** Id of the last event that was sent; one less than the first id if no event was sent. */
  lastId(): number
}

export interface EventBufferOptions {
  firstId: number
  /** The `seq` of the event with the first id. */
  firstSeq: number
  /** Receives complete events; `v2` marks events of protocol v2. */
  send(id: number, count: number, body: Uint8Array, v2: boolean): void
  /** Calls the flush at the end of the event-loop turn. */
  later(flush: () => void): void
}

export function eventBuffer({ firstId, firstSeq, send, later }: EventBufferOptions): EventBuffer {
  let next = firstId
  let text = ''
  let count = 0
  let tagged: { tag: EventTag; method: string; params: string }[] = []
  let taggedSize = 0
  let waits = false

  function flushClassic(): void {
    if (count === 0) return
    send(next - count, count, Buffer.from(text), false)
    text = ''
    count = 0
  }

  function flushMarked(): void {
    if (tagged.length === 0) return
    const first = next
    const now = Date.now()
    const frames = tagged.map(one => frameOf(one, firstSeq + (next++ - firstId), now))
    tagged = []
    taggedSize = 0
    send(first, frames.length, Buffer.from(frames.join('')), true)
  }

  const flush = () => {
    waits = false
    flushClassic()
    flushMarked()
  }

  function wait(): void {
    if (waits) return
    waits = true
    later(flush)
  }

  return {
    push(event, json) {
      const frame = `id: ${next}\nevent: ${event}\ndata: ${json}\n\n`
      const large = isLarge(frame)
      if (large || text.length + frame.length > FULL) flushClassic()
      text += frame
      count++
      next++
      if (large) flushClassic()
      else wait()
    },
    pushEvent(tag, method, params) {
      const large = isLarge(params)
      // Queued v2 events have no ids yet, so the classic events, which have ids, leave first.
      if (large || taggedSize + params.length > FULL) flush()
      tagged.push({ tag, method, params })
      taggedSize += params.length + 200
      if (large) flush()
      else wait()
    },
    flush,
    lastId: () => next - 1,
  }
}

const frameOf = (
  { tag, method, params }: { tag: EventTag; method: string; params: string },
  seq: number,
  now: number,
) =>
  `: ${tagText(tag)}\nid: ${now}-${seq}\nevent: ${method}\n` +
  `data: {"type":"event","event_id":"${now}-${seq}","seq":${seq},"method":"${method}","params":${params}}\n\n`

/** Returns whether an event needs a separate frame; throws if it exceeds the limit of a run. */
function isLarge(frame: string): boolean {
  const bytes = frame.length * 3 > ALONE ? Buffer.byteLength(frame) : 0
  if (bytes > LARGEST_STATE) throw new StateTooLarge('The values of an event', bytes)
  return bytes > ALONE
}

/** docs/spec/streams.md#events: the namespace follows the name; root events have the bare name. */
export const eventName = (event: string, ns: readonly string[]): string =>
  ns.length === 0 ? event : `${event}|${ns.join('|').replace(/[\r\n]/g, ' ')}`

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
