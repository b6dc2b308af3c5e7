/**
 * Head and parts in one buffer: u32 length of the head (little-endian), the head as JSON, then the parts one after
 * the other. The head has the sizes of the parts, so bytes are passed on without being read.
 */
import { jsonText } from './exact.js'

const encoder = new TextEncoder()
const decoder = new TextDecoder()

export const pack = (head: unknown, parts: readonly Uint8Array[] = []): Uint8Array => packText(jsonText(head), parts)

/** Like `pack`, for a head that is JSON text already. */
export function packText(head: string, parts: readonly Uint8Array[] = []): Uint8Array {
  const text = encoder.encode(head)
  let size = 4 + text.length
  for (const part of parts) size += part.length
  const out = new Uint8Array(size)
  new DataView(out.buffer).setUint32(0, text.length, true)
  out.set(text, 4)
  let at = 4 + text.length
  for (const part of parts) {
    out.set(part, at)
    at += part.length
  }
  return out
}

/** The head of a packed buffer as bytes, and the bytes after it; throws a RangeError when it is cut short. */
export function splitPacked(bytes: Uint8Array): { head: Uint8Array; rest: Uint8Array } {
  if (bytes.length < 4) throw new RangeError('packed buffer is shorter than its length')
  const size = new DataView(bytes.buffer, bytes.byteOffset, 4).getUint32(0, true)
  if (4 + size > bytes.length) throw new RangeError('packed buffer is shorter than its head')
  return { head: bytes.subarray(4, 4 + size), rest: bytes.subarray(4 + size) }
}

/** The same with the head as a value, of what our own programs have packed: bus/decode.ts reads that of others. */
export function unpack<Head>(bytes: Uint8Array): { head: Head; rest: Uint8Array } {
  const { head, rest } = splitPacked(bytes)
  return { head: JSON.parse(decoder.decode(head)) as Head, rest }
}

/** Takes parts of given sizes from the front of `rest`, one after the other. */
export function cutter(rest: Uint8Array): (size: number) => Uint8Array {
  let at = 0
  return size => {
    if (!(size >= 0 && at + size <= rest.length)) throw new RangeError('packed buffer is shorter than its parts')
    return rest.subarray(at, (at += size))
  }
}
