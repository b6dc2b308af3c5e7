/**
 * How calls lie in a message. All calls of one event-loop turn to one subject travel as one message, the answers of a
 * turn likewise (measured: 1.4–1.6 × for reads). Each entry: kind u8, 3 × zero, id u32, time u32, head length u32,
 * body length u32 (little-endian), head (JSON), body.
 */
export const KIND = {
  /** A call or an answer with its whole body. `time` of a call = milliseconds the caller still waits. */
  whole: 0,
  /** A call or an answer whose body follows in parts; `time` = its size in bytes (the head has `timeout` for a call). */
  announce: 1,
  /** Bytes of an announced body, in order. */
  part: 2,
  /** Receiver of an announced call to its caller: send the next parts to `head.inbox`. */
  go: 3,
} as const

export interface Entry {
  kind: number
  id: number
  time: number
  head: Uint8Array
  body: Uint8Array
}

const HEAD = 20
/** Largest message: the server's max_payload of 1 MB less headers and protocol. */
export const MAX_MESSAGE = 900 * 1024
/** Parts sent before the next `go`. */
export const WINDOW = 8
/** A 64 MB state with the saves and projections that travel with it; clients are held to their own limit at the edge. */
export const MAX_BODY = 256 * 1024 * 1024
export const NOTHING = new Uint8Array(0)

const encoder = new TextEncoder()
const decoder = new TextDecoder()
export const encodeHead = (head: unknown): Uint8Array => encoder.encode(JSON.stringify(head))
export const decodeHead = <T>(bytes: Uint8Array): T =>
  (bytes.length === 0 ? {} : JSON.parse(decoder.decode(bytes))) as T

export const sizeOf = (entry: Entry): number => HEAD + entry.head.length + entry.body.length

/** The entries as messages of at most MAX_MESSAGE bytes each; an entry must fit by itself. */
export function* messagesOf(entries: readonly Entry[]): Generator<Uint8Array> {
  let from = 0
  while (from < entries.length) {
    let to = from
    let size = 0
    while (to < entries.length && (to === from || size + sizeOf(entries[to]!) <= MAX_MESSAGE))
      size += sizeOf(entries[to++]!)
    const out = Buffer.allocUnsafe(size)
    let at = 0
    for (let i = from; i < to; i++) {
      const { kind, id, time, head, body } = entries[i]!
      out.writeUInt32LE(kind, at)
      out.writeUInt32LE(id, at + 4)
      out.writeUInt32LE(Math.min(time, 0xffffffff), at + 8)
      out.writeUInt32LE(head.length, at + 12)
      out.writeUInt32LE(body.length, at + 16)
      out.set(head, at + HEAD)
      out.set(body, at + HEAD + head.length)
      at += HEAD + head.length + body.length
    }
    yield out
    from = to
  }
}

/** The entries of a message; throws a RangeError when it is cut short. */
export function entriesOf(message: Uint8Array): Entry[] {
  const view = Buffer.from(message.buffer, message.byteOffset, message.length)
  const entries: Entry[] = []
  let at = 0
  while (at < view.length) {
    if (at + HEAD > view.length) throw new RangeError('a call is shorter than its head')
    const headLength = view.readUInt32LE(at + 12)
    const bodyLength = view.readUInt32LE(at + 16)
    const head = at + HEAD
    const end = head + headLength + bodyLength
    if (end > view.length) throw new RangeError('a call is shorter than it says')
    entries.push({
      kind: view[at]!,
      id: view.readUInt32LE(at + 4),
      time: view.readUInt32LE(at + 8),
      head: view.subarray(head, head + headLength),
      body: view.subarray(head + headLength, end),
    })
    at = end
  }
  return entries
}

/** Puts an announced body together; `done` once all bytes are there. Throws a RangeError on more than announced. */
export function collector(size: number): { add(part: Uint8Array): boolean; parts: number; bytes: Uint8Array } {
  const bytes = Buffer.allocUnsafe(size)
  let have = 0
  const self = {
    parts: 0,
    bytes,
    add(part: Uint8Array) {
      if (have + part.length > size) throw new RangeError('more parts than announced')
      bytes.set(part, have)
      have += part.length
      self.parts++
      return have === size
    },
  }
  return self
}

/** The part entries of a large body. */
export function* partsOf(id: number, body: Uint8Array): Generator<Entry> {
  for (let at = 0; at < body.length; at += MAX_MESSAGE - HEAD) {
    yield { kind: KIND.part, id, time: 0, head: NOTHING, body: body.subarray(at, at + MAX_MESSAGE - HEAD) }
  }
}
