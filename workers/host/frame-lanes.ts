/**
 * The order in which the frames of a host enter its pipe. Frames of one slot keep their order. While the pipe is full they
 * wait here, and the slot with the fewest bytes to send comes first (self-clocked fair queueing): a small frame of a run
 * waits for about a megabyte, however much the other runs have to send. In the pipe it would wait for all of it, and the
 * supervisor takes a second to read and publish 100 MB.
 */
import type { Duplex } from 'node:stream'
import { type Frame, frameWriter } from '../pipe.js'

/** Bytes in the pipe beyond which frames wait here. A body of this size fills it alone. */
export const LARGE_FRAME = 1024 * 1024

/** While more than this many bytes wait, slots pause that have more than their part in it. */
const FULL = 16 * LARGE_FRAME
const PART = LARGE_FRAME

type Sent = Partial<Frame> & { kind: number }

export interface FrameLanes {
  send(frame: Sent): void
  /** Bytes that have not left this process. */
  waiting(): number
  /** Null while the pipe accepts frames of this slot; else resolves when it accepts them again. */
  drained(slot: number): Promise<void> | null
}

interface Lane {
  frames: Sent[]
  bytes: number
  /** When its first frame would have been sent if the lanes had shared the pipe by bytes; the least one is next. */
  due: number
}

const sizeOf = ({ body }: Sent): number => body?.length ?? 0

export function openFrameLanes(stream: Duplex): FrameLanes {
  const write = frameWriter(stream)
  /** By slot; none is empty. */
  const lanes = new Map<number, Lane>()
  /** Bytes in the lanes. */
  let bytes = 0
  /** Bytes of this turn, which are written at its end. */
  let fresh = 0
  /** `due` of the frame that was taken last. */
  let now = 0

  const isFull = () => fresh + stream.writableLength >= LARGE_FRAME

  function pass(frame: Sent): void {
    write(frame)
    if (fresh === 0) setImmediate(written)
    fresh += sizeOf(frame) + 1
  }

  function written(): void {
    fresh = 0
    next()
  }

  function next(): void {
    while (lanes.size > 0 && !isFull()) {
      let [slot, lane] = lanes.entries().next().value!
      for (const [other, one] of lanes) if (one.due < lane.due) [slot, lane] = [other, one]
      const frame = lane.frames.shift()!
      bytes -= sizeOf(frame)
      lane.bytes -= sizeOf(frame)
      now = lane.due
      if (lane.frames.length === 0) lanes.delete(slot)
      else lane.due = now + sizeOf(lane.frames[0]!)
      pass(frame)
    }
  }

  const waiting = () => bytes + stream.writableLength
  const mustPause = (slot: number) => waiting() > FULL && (lanes.get(slot)?.bytes ?? 0) > PART
  /** All slots that pause wait together for the next time the pipe is empty. */
  let emptied: Promise<void> | null = null
  async function untilDrained(slot: number): Promise<void> {
    while (mustPause(slot)) {
      emptied ??= new Promise<void>(resolve => stream.once('drain', resolve)).then(() => {
        emptied = null
      })
      await emptied
    }
  }

  stream.on('drain', next)
  return {
    send(frame) {
      const { slot = 0 } = frame
      const lane = lanes.get(slot)
      if (lane === undefined && !isFull()) return pass(frame)
      const size = sizeOf(frame)
      bytes += size
      if (lane === undefined) return void lanes.set(slot, { frames: [frame], bytes: size, due: now + size })
      lane.frames.push(frame)
      lane.bytes += size
    },
    waiting,
    drained: slot => (mustPause(slot) ? untilDrained(slot) : null),
  }
}
