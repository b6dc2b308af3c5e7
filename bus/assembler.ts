/**
 * Puts the parts of a large event together (headers `part`: "i/n") and hands whole batches on. Graph workers run code that
 * is not ours and may send parts without end: what is unfinished is bounded, for each event and in all.
 */
import type { Msg } from 'nats'

/** Whole SSE events with consecutive ids `first … first + count − 1`. */
export interface Batch {
  first: number
  count: number
  bytes: Uint8Array
  /** Events of protocol v2, each with its mark in front (schemas/protocols/v2.ts). False: classic events. */
  v2: boolean
}

export interface Assembler {
  onMessage(message: Msg): void
  /** Forgets an unfinished event. */
  close(): void
}

/** An event with its frame: more than a host sends (LARGEST_STATE of host/limits.ts). */
const MAX_EVENT = 80 * 1024 * 1024
/** The limit of all readers of a process. Beyond it the largest unfinished event is dropped: its reader replays, or is cut. */
const MAX_UNFINISHED = 512 * 1024 * 1024

interface Unfinished {
  bytes: number
  forget(): void
}

/** The assemblers of a process. */
export function openAssemblers(most = MAX_UNFINISHED): (onBatch: (batch: Batch) => void) => Assembler {
  const all = new Set<Unfinished>()
  let total = 0

  function makeRoom(): void {
    while (total > most) {
      let largest: Unfinished | null = null
      for (const one of all) if (largest === null || one.bytes > largest.bytes) largest = one
      largest!.forget()
    }
  }

  return onBatch => {
    let parts: Uint8Array[] = []
    let of = ''
    const mine: Unfinished = {
      bytes: 0,
      forget() {
        total -= mine.bytes
        mine.bytes = 0
        parts = []
        of = ''
        all.delete(mine)
      },
    }

    function add(part: Uint8Array): void {
      parts.push(part)
      mine.bytes += part.length
      total += part.length
      all.add(mine)
      if (mine.bytes > MAX_EVENT) mine.forget()
      else makeRoom()
    }

    return {
      onMessage({ headers, data }) {
        if (headers === undefined) return
        const first = Number(headers.get('first') || Number.NaN)
        const count = Number(headers.get('count') || Number.NaN)
        if (!Number.isInteger(first) || !Number.isInteger(count)) return
        const part = headers.get('part')
        const v2 = headers.has('v2')
        if (part === '') return onBatch({ first, count, bytes: data, v2 })
        const [i = 0, n = 0] = part.split('/').map(Number)
        const key = `${first}/${n}`
        if (i === 0) {
          mine.forget()
          of = key
        }
        // A part out of order belongs to an event that cannot be finished: its id is missing, so the reader replays.
        if (key !== of || i !== parts.length) return
        add(data)
        if (parts.length < n) return
        const bytes = Buffer.concat(parts)
        mine.forget()
        onBatch({ first, count, bytes, v2 })
      },
      close: mine.forget,
    }
  }
}
