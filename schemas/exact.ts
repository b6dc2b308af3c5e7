/**
 * JSON whose integers keep their digits. A JavaScript number holds integers up to 2^53; 64-bit ids (of chats, posts, rows)
 * are larger, and Python programs send them as numbers. In texts they are plain JSON; in memory `parseJson` makes a BigInt
 * of each that a number cannot hold, and `jsonText` writes it back. Beyond 64 bits a number stays a double, as in Python's
 * orjson. What JavaScript graphs get is parsed by JSON.parse, as on other servers.
 */
import { randomUUID } from 'node:crypto'

/** Outside of texts. No 64-bit integer has more digits. */
const INTEGER = /(?<![\w.+-])-?\d{16,20}(?![\w.])/g
const LEAST = -(2n ** 63n)
const MOST = 2n ** 64n - 1n

/** Marks digits between the text and the value. It never leaves this file, so no client can know it. */
const MARK = randomUUID()
const MARKED = new RegExp(`"${MARK}(-?\\d+)"`, 'g')

/** Like JSON.parse, but for integers that a number cannot hold: they are BigInts. */
export function parseJson(text: string): ReturnType<typeof JSON.parse> {
  if (!mayHold(text)) return JSON.parse(text)
  const marked = mark(text)
  if (marked === null) return JSON.parse(text)
  try {
    return JSON.parse(marked, (_, value: unknown) =>
      typeof value === 'string' && value.startsWith(MARK) ? BigInt(value.slice(MARK.length)) : value,
    )
  } catch {
    // The message of the error names the text of the caller.
    return JSON.parse(text)
  }
}

/** Like JSON.stringify, and BigInts are numbers. */
export function jsonText(value: unknown, replacer: (name: string, value: unknown) => unknown = unchanged): string {
  try {
    return replacer === unchanged ? JSON.stringify(value) : JSON.stringify(value, replacer)
  } catch (error) {
    // It refuses BigInts: to look for them before would cost every value.
    if (!(error instanceof TypeError)) throw error
  }
  const text = JSON.stringify(value, (name, member: unknown) => {
    const kept = replacer(name, member)
    return typeof kept === 'bigint' ? `${MARK}${kept}` : kept
  })
  return text.replace(MARKED, '$1')
}

/** The value without BigInts, for libraries that write none. */
export const withDoubles = <T>(value: T): T => JSON.parse(jsonText(value)) as T

/** Digits of the shortest integer that a number cannot hold. */
const RUN = 16

/**
 * Whether a long integer may be in the text. A run of 16 digits covers the sixteenth place behind a place without a digit:
 * few others are looked at (0.1 ms for 1 MB, whose parser needs 5).
 */
function mayHold(text: string): boolean {
  for (let gap = -1; gap + RUN < text.length; ) {
    const at = gap + RUN
    if (!isDigit(text.charCodeAt(at))) {
      gap = at
      continue
    }
    let begin = at
    while (begin - 1 > gap && isDigit(text.charCodeAt(begin - 1))) begin--
    let end = at + 1
    while (isDigit(text.charCodeAt(end))) end++
    // Fractions of numbers are as long, and so are parts of words.
    if (end - begin >= RUN && !isWord(text.charCodeAt(begin - 1)) && !isWord(text.charCodeAt(end))) return true
    gap = end
  }
  return false
}

const isDigit = (code: number): boolean => code >= 0x30 && code <= 0x39
/** A letter, or the point of a fraction; NaN is none. */
const isWord = (code: number): boolean => code === 0x2e || ((code | 0x20) >= 0x61 && (code | 0x20) <= 0x7a)

const unchanged = (_: string, value: unknown): unknown => value

/** Integers that a number cannot hold become marked texts; null without any. */
function mark(text: string): string | null {
  const parts: string[] = []
  let found = false
  const replaced = (digits: string): string => {
    if (Number.isSafeInteger(Number(digits)) || !isLong(BigInt(digits))) return digits
    found = true
    return `"${MARK}${digits}"`
  }
  for (let at = 0; at < text.length; ) {
    const quote = text.indexOf('"', at)
    const end = quote === -1 ? text.length : quote
    parts.push(text.slice(at, end).replace(INTEGER, replaced))
    at = quote === -1 ? end : endOfText(text, quote)
    if (quote !== -1) parts.push(text.slice(quote, at))
  }
  return found ? parts.join('') : null
}

const isLong = (integer: bigint): boolean => integer >= LEAST && integer <= MOST

/** Behind the quote that ends the text whose first quote is at `begin`. */
function endOfText(text: string, begin: number): number {
  let end = begin
  do {
    end = text.indexOf('"', end + 1)
    if (end === -1) return text.length
  } while (isEscaped(text, end))
  return end + 1
}

function isEscaped(text: string, at: number): boolean {
  let backslashes = 0
  while (text[at - 1 - backslashes] === '\\') backslashes++
  return backslashes % 2 === 1
}
