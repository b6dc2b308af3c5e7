/**
 * Events of a run as the final bytes of its stream: encoded once, here, and never parsed again on their way. All
 * events of one event-loop turn leave as one frame (3 × the rate of one frame each). Ids have no gaps.
 */
import type { StreamMode } from '../../schemas/runs.js'

/** Wire mode → the library's mode and the event's name (API: event catalogue). `messages` and `events` are to come. */
export const MODES: { [mode in StreamMode]?: { library: string; event: string } } = {
  values: { library: 'values', event: 'values' },
  updates: { library: 'updates', event: 'updates' },
  'messages-tuple': { library: 'messages', event: 'messages' },
  custom: { library: 'custom', event: 'custom' },
  tasks: { library: 'tasks', event: 'tasks' },
  checkpoints: { library: 'checkpoints', event: 'checkpoints' },
  debug: { library: 'debug', event: 'debug' },
  tools: { library: 'tools', event: 'tools' },
}

/** What is streamed: the library's mode → event name. An empty list means `values`. */
export function eventsOf(modes: readonly StreamMode[]): Map<string, string> {
  const events = new Map<string, string>()
  for (const mode of modes.length > 0 ? modes : (['values'] as const)) {
    const row = MODES[mode]
    if (row !== undefined) events.set(row.library, row.event)
  }
  return events
}

/** An event of more bytes goes alone in its frame. */
const ALONE = 256 * 1024
/** One event of more is an error of its run. */
const LARGEST = 128 * 1024 * 1024
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
      if (bytes > LARGEST) throw new RangeError(`An event of ${bytes} bytes is larger than ${LARGEST}`)
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
