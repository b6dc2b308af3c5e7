/**
 * Frames between a graph supervisor and its hosts, over a socket pair: a 24-byte little-endian head, then an opaque
 * body. Head: kind u8, flags u8, 2 × zero, slot u32, id u64, count u32, length u32.
 *
 * The supervisor never parses the bodies of `chunk`, `finish` and saves; a frame for a slot that it did not assign is
 * dropped and counted. User code can write to the descriptor of a host: what it sends may be anything, and a malformed
 * frame costs the host, never the supervisor. Written per event-loop turn (4.2 M frames/s against 0.31 M/s one write each); the parts of a
 * large body are buffered until the frame is complete and joined once (1.4 GB/s against 115 MB/s).
 */
import type { Duplex } from 'node:stream'
import type { IValidation } from 'typia'
import { jsonFault } from '../schemas/json.js'

/** Host to supervisor. */
export const FROM_HOST = {
  /** The application is loaded. Body: Hello as JSON. */
  hello: 1,
  /** SSE frames, complete events. id = first event id, count = events in the body, flags = CHUNK. */
  chunk: 2,
  /** A question for the store, answered by `answer` with the same id. flags = ASK. Body: see ASK. */
  ask: 3,
  /** The run has ended in this host and frees its slot. Body: packed FinishHead, values, rest, save. */
  finish: 4,
  /** Answers ping; count = event-loop lateness in ms. */
  pong: 5,
  /** Answers `call`: id is the call's; flags 0 = good (body: JSON text), 1 = error (body: JSON {code, detail}). */
  called: 6,
  /** Graph code has failed the run in `slot`; sent before its finish. Body: RunFailure as JSON. */
  failed: 10,
  /** The host takes no further runs and ends when it is idle: nodes of ended runs occupy it. */
  retire: 11,
  /** Parts of the run have started or ended. Body: HostSpans as JSON. */
  spans: 12,
  /**
   * A checkpoint of the root graph of a resumable run. Body: its id; id = the last event before it, so the events behind that
   * one belong to what comes after the checkpoint.
   */
  checkpoint: 13,
  // These use a second pipe, which also works while the event loop is blocked (host/watchdog.ts).
  /** The code of `slot` holds the event loop. count = milliseconds so far; repeated each second. */
  held: 7,
  /** The event loop turns again. */
  free: 8,
  /** The process ends, caused by `slot` (0 = unknown). Body: LastWords as JSON. */
  last: 9,
} as const

/** Supervisor to host. */
export const TO_HOST = {
  /**
   * Execute a run in `slot`. id = when its lease was last confirmed (monotonicMs). Body: packed StartHead, then the newest
   * checkpoint tuple (packed, may be empty).
   */
  start: 16,
  /** Answers `ask` with the same id. flags = ANSWER. */
  answer: 17,
  /** Abort the run in `slot`; flags = STOP: the reason, and the status it finishes with. */
  cancel: 18,
  ping: 19,
  /** A call to graph code. id = number of the call. Body: Call as JSON. `slot` is lent for its asks. */
  call: 20,
  /** The lease of the run in `slot` was confirmed. id = when the heartbeat was sent (monotonicMs). */
  confirm: 21,
  /** Send nothing more of the run in `slot`. */
  pause: 22,
  /** Send it again. */
  resume: 23,
} as const

/** flags of a `start` frame. */
export const START = {
  /** The host records the parts of the run. */
  recorded: 1,
} as const

/** flags of a `chunk` frame. */
export const CHUNK = {
  /** Events of protocol v2, each with its mark (schemas/protocols/v2.ts). */
  v2: 1,
} as const

/** flags of a `cancel` frame. */
export const STOP = {
  /** A cancel was requested: `interrupted`. */
  cancelled: 0,
  /** The run exceeded its time limit: `timeout`, with an error event. */
  timeout: 1,
} as const

/** flags of an `answer` frame. */
export const ANSWER = {
  ok: 0,
  /** The lease is lost: stop the run. */
  refused: 1,
  /** Body: JSON {detail}. */
  failed: 2,
} as const

/** flags of an `ask` frame. */
export const ASK = {
  /** Body: packed SaveHead and parts (schemas/checkpoints.ts). Answer: empty. */
  save: 1,
  /** Body: CheckpointQuery as JSON. Answer: packed TuplesHead and parts. */
  get: 2,
  /** Like `get`. */
  list: 3,
  /** Body: ItemBatch as JSON (schemas/items/items.ts). Answer: ItemAnswer[] as JSON. */
  items: 4,
} as const

export interface Frame {
  kind: number
  flags: number
  slot: number
  id: number
  count: number
  body: Uint8Array
}

const HEAD = 24
/** Bytes: 64 MB of state with its projections and heads around it. */
export const MAX_BODY = 256 * 1024 * 1024
/** Bytes of a JSON body that the parent of a host reads. */
const MAX_JSON = 4 * 1024 * 1024
const MAX_ID = BigInt(Number.MAX_SAFE_INTEGER)
const EMPTY = new Uint8Array(0)
const KINDS = new Set<number>([...Object.values(FROM_HOST), ...Object.values(TO_HOST)])

/**
 * Milliseconds of the machine's monotonic clock: both ends of a pipe read the same. It goes on while a process is paused,
 * and stands still while the machine is suspended.
 */
export const monotonicMs = (): number => Number(process.hrtime.bigint() / 1_000_000n)

/** `onWritten`: all of the frame has left this process. */
export type WriteFrame = (frame: Partial<Frame> & { kind: number }, onWritten?: () => void) => void

/** Collects the frames of one event-loop turn and writes them together. */
export function frameWriter(stream: Duplex): WriteFrame {
  let waiting: { part: Uint8Array; onWritten?: (() => void) | undefined }[] = []
  const flush = () => {
    const out = waiting
    waiting = []
    if (stream.destroyed) return
    stream.cork()
    for (const { part, onWritten } of out) stream.write(part, onWritten)
    stream.uncork()
  }
  return (frame, onWritten) => {
    if (waiting.length === 0) setImmediate(flush)
    const hasBody = frame.body !== undefined && frame.body.length > 0
    waiting.push({ part: headOf(frame), onWritten: hasBody ? undefined : onWritten })
    if (hasBody) waiting.push({ part: frame.body!, onWritten })
  }
}

/** One frame as bytes, for writers that cannot wait for the end of the turn. */
export const frameBytes = (frame: Partial<Frame> & { kind: number }): Uint8Array =>
  Buffer.concat([headOf(frame), frame.body ?? EMPTY])

function headOf({ kind, flags = 0, slot = 0, id = 0, count = 0, body = EMPTY }: Partial<Frame> & { kind: number }) {
  const head = Buffer.allocUnsafe(HEAD)
  head.writeUInt32LE(kind | (flags << 8), 0)
  head.writeUInt32LE(slot, 4)
  head.writeBigUInt64LE(BigInt(id), 8)
  head.writeUInt32LE(count, 16)
  head.writeUInt32LE(body.length, 20)
  return head
}

/** The sender is broken, or is not a sender of frames. */
export class MalformedFrame extends Error {
  override name = 'MalformedFrame'
}

/** The value of a JSON body as `parse` reads it; throws MalformedFrame when it is no JSON, too large, or of another shape. */
export function readJson<T>(
  body: Uint8Array,
  validate: (value: unknown) => IValidation<T>,
  { most = MAX_JSON, parse = JSON.parse as (text: string) => unknown } = {},
): T {
  // A value may take 24 times its text: what a host sends must not use up the memory of its parent.
  if (body.length > most) throw new MalformedFrame(`a JSON body is larger than ${most} bytes`)
  const fault = jsonFault(body)
  if (fault !== null) throw new MalformedFrame(fault)
  let value: unknown
  try {
    value = parse(Buffer.from(body.buffer, body.byteOffset, body.length).toString())
  } catch {
    throw new MalformedFrame('a body is not JSON')
  }
  const checked = validate(value)
  if (checked.success) return checked.data
  const { path, expected } = checked.errors[0]!
  throw new MalformedFrame(`${path.replace('$input', 'the body')} is not ${expected}`)
}

/**
 * Calls `onFrame` for each complete frame of the stream. The body is valid for as long as the caller keeps it.
 * `onFailure` is called once, for an impossible head or with what `onFrame` has thrown; nothing of the stream is read
 * after it. `slot` is that of the frame, 0 when unknown. Without it the error is thrown.
 */
export function readFrames(
  stream: Duplex,
  onFrame: (frame: Frame) => void,
  onFailure: (error: Error, slot: number) => void = error => {
    throw error
  },
): void {
  let parts: Buffer[] = []
  let have = 0
  let need = HEAD
  let failed = false

  function fail(error: Error, slot = 0): void {
    failed = true
    parts = []
    onFailure(error, slot)
  }

  stream.on('data', (data: Buffer) => {
    if (failed) return
    parts.push(data)
    have += data.length
    if (have < need) return
    let all = parts.length === 1 ? data : Buffer.concat(parts)
    while (all.length >= HEAD) {
      const length = all.readUInt32LE(20)
      if (length > MAX_BODY) return fail(new MalformedFrame(`a body of ${length} bytes is larger than ${MAX_BODY}`))
      if (!KINDS.has(all[0]!) || all.readUInt16LE(2) !== 0) return fail(new MalformedFrame('its head is not known'))
      const id = all.readBigUInt64LE(8)
      // As a number it would be another one, and the largest could not be written in an answer.
      if (id > MAX_ID) return fail(new MalformedFrame(`the id ${id} is no safe integer`))
      if (all.length < HEAD + length) break
      const slot = all.readUInt32LE(4)
      try {
        onFrame({
          kind: all[0]!,
          flags: all[1]!,
          slot,
          id: Number(id),
          count: all.readUInt32LE(16),
          body: all.subarray(HEAD, HEAD + length),
        })
      } catch (error) {
        return fail(error as Error, slot)
      }
      all = all.subarray(HEAD + length)
    }
    parts = all.length > 0 ? [all] : []
    have = all.length
    need = have < HEAD ? HEAD : HEAD + all.readUInt32LE(20)
  })
}

/** Before a text of this slot in the output of a host (child/output-marks.ts). Also in weft_host/process.py. */
export const markOf = (slot: number): string => `\u001b_w${slot}\u001b\\`
