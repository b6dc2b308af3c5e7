/**
 * The format of a message of calls. All calls of one event-loop turn to one subject travel in one message, as do the
 * answers of a turn (measured: 1.4–1.6 × for reads). Each entry: kind u8, 3 × zero, id u32, time u32, head length u32,
 * body length u32 (little-endian), head (JSON), body.
 */
import { jsonText, parseJson } from '../schemas/exact.js'
export const KIND = {
  /** A call or an answer with its whole body. `time` of a call = milliseconds until the caller gives up. */
  whole: 0,
  /** A call or an answer whose body follows in parts; `time` = its size in bytes (the head has `timeout` for a call). */
  announce: 1,
  /** Bytes of an announced body, in order. */
  part: 2,
  /** Receiver of an announced call to its caller: send the next parts to `head.inbox`. */
  go: 3,
  /** Receiver to its caller: the call is still in progress. */
  busy: 4,
  /** Caller to all workers of a subject: which of you can take this call? */
  offer: 5,
  /** The answer: send the call to `head.member`. */
  ready: 6,
  /** First entry of a message of calls: the answers must be sealed with the key in its body (bus/seal.ts). */
  key: 7,
} as const

export interface Entry {
  kind: number
  id: number
  time: number
  head: Uint8Array
  body: Uint8Array
}

const HEAD = 20
/** Largest message: the server's max_payload of 1 MB less headers, protocol and what a seal adds. */
export const MAX_MESSAGE = 900 * 1024
export const NOTHING = new Uint8Array(0)

const encoder = new TextEncoder()
const decoder = new TextDecoder()
export const encodeHead = (head: unknown): Uint8Array => encoder.encode(jsonText(head))

/** Throws a SyntaxError when the bytes are no JSON object. */
export function decodeHead<T extends object>(bytes: Uint8Array): T {
  const head: unknown = bytes.length === 0 ? {} : parseJson(decoder.decode(bytes))
  if (typeof head !== 'object' || head === null || Array.isArray(head)) throw new SyntaxError('a head is a JSON object')
  return head as T
}

export const sizeOf = (entry: Entry): number => HEAD + entry.head.length + entry.body.length

/** The entries as messages of at most MAX_MESSAGE bytes each; a single entry must fit into one message. */
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

/** The entries of a message; throws a RangeError when the message is truncated. */
export function entriesOf(message: Uint8Array): Entry[] {
  const view = Buffer.from(message.buffer, message.byteOffset, message.length)
  const entries: Entry[] = []
  let at = 0
  while (at < view.length) {
    if (at + HEAD > view.length) throw new RangeError('a message of calls is shorter than the head of its last entry')
    const headLength = view.readUInt32LE(at + 12)
    const bodyLength = view.readUInt32LE(at + 16)
    const head = at + HEAD
    const end = head + headLength + bodyLength
    if (end > view.length) throw new RangeError('a message of calls is shorter than its last entry')
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
