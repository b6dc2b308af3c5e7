/**
 * Parses a state, which a graph has made: its host may have sent anything. A parsed value may take 24 times its text, and a
 * state has up to 64 MB, so objects, lists and members are counted first (3 ms per MB; the parser needs twice as long).
 */
import { fail } from '../../../schemas/errors.js'

/** Objects, lists and members of objects: they take most memory, 50 to 100 bytes each. Numbers and texts are not counted. */
const MOST = 6_000_000
const [QUOTE, BACKSLASH, COLON, OPEN_OBJECT, OPEN_ARRAY] = [0x22, 0x5c, 0x3a, 0x7b, 0x5b]

/** Throws too_large. `begin` stands before the bytes. */
export function parseState<T>(given: Uint8Array | string, begin = '', most = MOST): T {
  const bytes = typeof given === 'string' ? Buffer.from(given) : given
  // Each that counts is at least two bytes of the text.
  if (bytes.length > most) checkCount(bytes, most)
  return JSON.parse(begin + Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString()) as T
}

function checkCount(bytes: Uint8Array, most: number): void {
  let found = 0
  let inText = false
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]!
    if (inText) {
      if (byte === BACKSLASH) at++
      else if (byte === QUOTE) inText = false
    } else if (byte === QUOTE) inText = true
    else if ((byte === COLON || byte === OPEN_OBJECT || byte === OPEN_ARRAY) && ++found > most)
      throw fail('too_large', `The state has more than ${most} objects, lists and members`)
  }
}
