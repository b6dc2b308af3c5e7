/**
 * The order in which the frames of a host enter its pipe. Frames of one slot keep their order. While the pipe is full they
 * wait here, and the slot with the fewest bytes to send comes first (self-clocked fair queueing): a small frame of a run
 * waits for about a megabyte, however much the other runs have to send. In the pipe it would wait for all of it, and the
 * supervisor takes a second to read and publish 100 MB. The frames of a slot that the supervisor has paused wait here, too.
 */
import type { Duplex } from 'node:stream'
import { TransientMap } from '../../../schemas/transient.js'
import { type Frame, frameWriter } from '../../pipe.js'

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
  /** Frames of this slot wait until `resume`. */
  pause(slot: number): void
  resume(slot: number): void
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
  const lanes = new TransientMap<number, Lane>()
  const paused = new Set<number>()
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
    while (!isFull()) {
      let first: [slot: number, lane: Lane] | null = null
      for (const one of lanes) if (one[1].due < (first?.[1].due ?? Infinity) && !paused.has(one[0])) first = one
      if (first === null) return
      const [slot, lane] = first
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
  const mustPause = (slot: number) => paused.has(slot) || (waiting() > FULL && (lanes.get(slot)?.bytes ?? 0) > PART)
  /** Slots that pause look again when the pipe is empty, and when one was resumed. */
  let looks: (() => void)[] = []
  function look(): void {
    const now = looks
    looks = []
    for (const one of now) one()
  }
  async function untilDrained(slot: number): Promise<void> {
    while (mustPause(slot)) await new Promise<void>(resolve => looks.push(resolve))
  }

  stream.on('drain', () => {
    next()
    look()
  })
  return {
    send(frame) {
      const { slot = 0 } = frame
      const lane = lanes.get(slot)
      if (lane === undefined && !isFull() && !paused.has(slot)) return pass(frame)
      const size = sizeOf(frame)
      bytes += size
      if (lane === undefined) return void lanes.set(slot, { frames: [frame], bytes: size, due: now + size })
      lane.frames.push(frame)
      lane.bytes += size
    },
    waiting,
    drained: slot => (mustPause(slot) ? untilDrained(slot) : null),
    pause: slot => void paused.add(slot),
    resume(slot) {
      if (!paused.delete(slot)) return
      const lane = lanes.get(slot)
      // A paused lane gains no credit.
      if (lane !== undefined) lane.due = Math.max(lane.due, now + sizeOf(lane.frames[0]!))
      next()
      look()
    },
  }
}
