/**
 * The events of runs whose stream is not stored, in the memory of their supervisor: encoded batches, 1 MB per run and
 * 64 MB in all, until 60 s after the end. Rings of ended runs have at most 16 MB together: the results of these runs are
 * stored, and few readers ask for their events. A ring answers replays of readers that reconnect. When an event that a reader
 * needs was dropped, the answer is `gone`, never a gap.
 */
import { headers, type Msg } from 'nats'
import type { RunId } from '../schemas/ids.js'
import { firstIdOf } from '../schemas/subjects.js'
import { TransientMap } from '../schemas/transient.js'
import { openSendWindow, type SendWindow } from './send-window.js'

const RING_BYTES = 1024 * 1024
const RINGS_BYTES = 64 * 1024 * 1024
const ENDED_BYTES = 16 * 1024 * 1024

/** One message as it was published. A large event is several messages, with `part` "i/n". */
export interface Kept {
  first: number
  count: number
  attempt: number
  part: string | null
  /** Events of protocol v2. */
  v2: boolean
  bytes: Uint8Array
}

interface Ring {
  kept: Kept[]
  bytes: number
}

export interface Rings {
  /** An attempt begins: until its first event an empty ring is complete. */
  open(run: RunId): void
  push(run: RunId, message: Kept): void
  /** Answers a replay request: the messages after id `after`, then `end: complete | gone`. */
  answer(run: RunId, after: number, request: Msg): void
  /** Publishers of stored streams: they answer for a run that has no ring, as far as they remember. */
  readonly stored: TransientMap<RunId, Rings['answer']>
  /** The run has ended: its ring may be dropped when memory is needed. */
  ended(run: RunId): void
  drop(run: RunId): void
  /** There is a ring of the run. */
  has(run: RunId): boolean
  bytes(): number
  /** Bytes that wait for their confirmation (publish.ts), and the number of runs that they are of. */
  readonly waiting: { bytes: number; runs: number }
  /** The unconfirmed bytes of all runs. */
  readonly window: SendWindow
}

export function openRings(): Rings {
  const rings = new TransientMap<RunId, Ring>()
  /** Rings of ended runs, in the order of their end. */
  const ended = new TransientMap<RunId, Ring>()
  let endedBytes = 0
  const stored: Rings['stored'] = new TransientMap()
  let total = 0

  function shift(ring: Ring): void {
    const dropped = ring.kept.shift()
    if (dropped === undefined) return
    ring.bytes -= dropped.bytes.length
    total -= dropped.bytes.length
  }

  /** Drops ended rings first, then messages of the oldest ring: the map iterates in the order of insertion. */
  function makeRoom(): void {
    for (const run of ended.keys()) {
      if (endedBytes <= ENDED_BYTES && total <= RINGS_BYTES) return
      drop(run)
    }
    for (const ring of rings.values()) while (total > RINGS_BYTES && ring.kept.length > 0) shift(ring)
  }

  function drop(run: RunId): void {
    resume(run)
    total -= rings.get(run)?.bytes ?? 0
    rings.delete(run)
  }

  /** The run does not count as ended. */
  function resume(run: RunId): void {
    endedBytes -= ended.get(run)?.bytes ?? 0
    ended.delete(run)
  }

  return {
    open(run) {
      resume(run)
      if (!rings.has(run)) rings.set(run, { kept: [], bytes: 0 })
    },
    push(run, message) {
      resume(run)
      let ring = rings.get(run)
      if (ring === undefined) rings.set(run, (ring = { kept: [], bytes: 0 }))
      ring.kept.push({ ...message, bytes: ownBytes(message.bytes) })
      ring.bytes += message.bytes.length
      total += message.bytes.length
      while (ring.bytes > RING_BYTES && ring.kept.length > 1) shift(ring)
      if (total > RINGS_BYTES) makeRoom()
    },
    answer(run, after, request) {
      const ring = rings.get(run)
      const publisher = stored.get(run)
      if (ring === undefined && publisher !== undefined) return publisher(run, after, request)
      const kept = ring?.kept ?? []
      const oldest = kept[0]
      // A ring that begins with an attempt is complete: the attempt supersedes the events of earlier ones.
      const starts = oldest !== undefined && (oldest.part === null || oldest.part.startsWith('0/'))
      const whole = starts && oldest.first <= Math.max(after + 1, firstIdOf(oldest.attempt))
      const complete = oldest === undefined ? ring !== undefined && !ended.has(run) : whole
      respond(request, complete ? kept.filter(one => lastOf(one) > after) : null)
    },
    stored,
    ended(run) {
      const ring = rings.get(run)
      if (ring === undefined || ended.has(run)) return
      ended.set(run, ring)
      endedBytes += ring.bytes
      if (endedBytes > ENDED_BYTES) makeRoom()
    },
    drop,
    has: run => rings.has(run),
    bytes: () => total,
    waiting: { bytes: 0, runs: 0 },
    window: openSendWindow(),
  }
}

export const lastOf = ({ first, count }: Kept): number => first + count - 1

/** Answers a replay request; null: the events that it asked for are gone. */
export function respond(request: Msg, kept: readonly Kept[] | null): void {
  for (const one of kept ?? []) request.respond(one.bytes, { headers: headersOf(one) })
  const end = headers()
  end.set('end', kept === null ? 'gone' : 'complete')
  request.respond(undefined, { headers: end })
}

/** A copy of bytes that are a small part of a larger buffer: a view would keep the whole buffer in memory, uncounted. */
const ownBytes = (bytes: Uint8Array): Uint8Array =>
  bytes.length * 2 < bytes.buffer.byteLength ? new Uint8Array(bytes) : bytes

/** The headers of a message of events (decision 006). */
export function headersOf({ first, count, attempt, part, v2 }: Kept) {
  const head = headers()
  head.set('first', `${first}`)
  head.set('count', `${count}`)
  head.set('attempt', `${attempt}`)
  if (part !== null) head.set('part', part)
  if (v2) head.set('v2', '1')
  return head
}
