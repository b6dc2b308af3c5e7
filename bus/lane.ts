/**
 * The lane of large bodies. They pass in the order of their arrival, as many at once as fit into the lane, so that small
 * calls find room between them and their memory is bounded. A body that is larger than the lane passes alone.
 */
import { fail } from '../schemas/errors.js'

export interface Lane {
  /**
   * Calls `start` when there is room for `size` bytes, at once or later. The returned function gives the room, or the
   * place in the queue, back; it may be called twice. Throws too_many when too many bytes wait. `refuse` is called instead of
   * `start` when waiting is useless; the entry has left the queue by then.
   */
  enter(size: number, start: () => void, refuse: (error: Error) => void): () => void
  /** Refuses all that waits: what passes has failed for a reason that they share. */
  refuse(error: Error): void
}

interface Place {
  size: number
  start: () => void
  refuse: (error: Error) => void
  isOver: boolean
}

/** `room`: bytes that pass at once. `limit`: bytes that may wait and pass, all together. */
export function openLane(room: number, limit: number): Lane {
  const queue = new Set<Place>()
  let passing = 0
  let known = 0

  function advance(): void {
    for (const one of queue) {
      if (passing > 0 && passing + one.size > room) return
      queue.delete(one)
      passing += one.size
      one.start()
    }
  }

  return {
    enter(size, start, refuse) {
      if (known > 0 && known + size > limit) throw fail('too_many')
      const one: Place = { size, start, refuse, isOver: false }
      known += size
      queue.add(one)
      advance()
      return () => {
        if (one.isOver) return
        one.isOver = true
        known -= size
        if (!queue.delete(one)) passing -= size
        advance()
      }
    },
    refuse(error) {
      const all = [...queue]
      queue.clear()
      for (const one of all) {
        one.isOver = true
        known -= one.size
        one.refuse(error)
      }
    },
  }
}
