/**
 * The order in which the frames of a host enter its pipe. Frames of one slot keep their order. Large frames wait here and
 * enter one at a time, slot by slot: a small frame of another run waits for one of them at most. In the pipe it would wait
 * for all of them, and the supervisor takes a second to read and publish 100 MB.
 */
import type { Duplex } from 'node:stream'
import { type Frame, frameWriter } from '../pipe.js'

/** Bytes of a body that is large. */
export const LARGE_FRAME = 1024 * 1024

type Sent = Partial<Frame> & { kind: number }

export interface FrameLanes {
  send(frame: Sent): void
  /** Bytes that have not left this process. */
  waiting(): number
}

const sizeOf = ({ body }: Sent): number => body?.length ?? 0

export function openFrameLanes(stream: Duplex): FrameLanes {
  const write = frameWriter(stream)
  /** By slot, in turn: a large frame, and the frames of the slot behind it. */
  const queues = new Map<number, Sent[]>()
  let bytes = 0
  /** A large frame is being written. */
  let busy = false

  function next(): void {
    for (const [slot, queue] of queues) {
      if (busy) return
      queues.delete(slot)
      while (queue.length > 0 && !busy) pass(queue.shift()!)
      // The next large frame of this slot waits for those of the other slots.
      if (queue.length > 0) queues.set(slot, queue)
    }
  }

  function pass(frame: Sent): void {
    bytes -= sizeOf(frame)
    if (sizeOf(frame) < LARGE_FRAME) return write(frame)
    busy = true
    write(frame, () => {
      busy = false
      next()
    })
  }

  return {
    send(frame) {
      const { slot = 0 } = frame
      const queue = queues.get(slot)
      if (queue === undefined && sizeOf(frame) < LARGE_FRAME) return write(frame)
      bytes += sizeOf(frame)
      if (queue === undefined) queues.set(slot, [frame])
      else queue.push(frame)
      next()
    },
    waiting: () => bytes + stream.writableLength,
  }
}
