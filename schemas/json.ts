/** JSON values as types, the limits of their text, and the small functions that every folder needs for them. */
import type { tags } from 'typia'

/** Own keys of all objects, later ones win. `__proto__` stays data. */
export function merge(...objects: (object | null | undefined)[]): { [key: string]: unknown } {
  const out: { [key: string]: unknown } = {}
  for (const object of objects) {
    if (object === null || object === undefined) continue
    if (!Object.hasOwn(object, '__proto__')) Object.assign(out, object)
    else
      for (const [key, value] of Object.entries(object))
        Object.defineProperty(out, key, { value, enumerable: true, writable: true, configurable: true })
  }
  return out
}

export const isObject = (value: unknown): value is { [key: string]: unknown } =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export const time = (ms: number): string => new Date(ms).toISOString()

export type Json = unknown

export type JsonObject = { [key: string]: Json }

/** In any of the spellings that `uuidOf` of ids.ts reads. */
export type Uuid = string &
  tags.TagBase<{
    target: 'string'
    kind: 'format'
    value: 'uuid'
    validate: `/^(?:urn:uuid:)?\\{?[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\\}?$/i.test($input)`
    exclusive: ['format', 'pattern']
    schema: { format: 'uuid' }
  }>

export interface Config {
  tags?: string[] | null
  recursion_limit?: number | null
  configurable?: JsonObject | null
  [key: string]: Json
}

/**
 * The limits of a JSON text, counted in its bytes before it is parsed: a parsed value may take 24 times its text (16 MB of
 * `{}` took 377 MB). One pass, about 3 ms per MB.
 */
export const MAX_DEPTH = 100
export const MAX_KEYS = 100_000
/** Members and elements, counted by their commas. */
export const MAX_VALUES = 1_000_000

const [SPACE, TAB, LINE_FEED, RETURN] = [0x20, 0x09, 0x0a, 0x0d]
const [QUOTE, BACKSLASH, COMMA, COLON] = [0x22, 0x5c, 0x2c, 0x3a]
const [ZERO, NINE, DOT, MINUS, PLUS] = [0x30, 0x39, 0x2e, 0x2d, 0x2b]
const [LOWER_E, LOWER_U, LOWER_CASE] = [0x65, 0x75, 0x20]
const [OPEN_OBJECT, CLOSE_OBJECT, OPEN_ARRAY, CLOSE_ARRAY] = [0x7b, 0x7d, 0x5b, 0x5d]

/** `bad_request`: the text exceeds a limit. `invalid`: it names a character or a number that no value can hold. */
export interface JsonFault {
  code: 'bad_request' | 'invalid'
  detail: string
}

const over = (detail: string): JsonFault => ({ code: 'bad_request', detail })
const LONE_SURROGATE: JsonFault = {
  code: 'invalid',
  detail: 'Invalid JSON in the body: a text holds half of a surrogate pair (such as \\ud83d), which is not Unicode',
}
const ENDLESS_NUMBER: JsonFault = {
  code: 'invalid',
  detail: 'Invalid JSON in the body: a number is larger than a double can be (1.8e308)',
}

/**
 * Why JSON.parse must not read the bytes, else null. Only an object or an array at their beginning counts: at anything else,
 * and behind it, JSON.parse ends. So bytes of another format pass, however many commas they have.
 */
export const jsonFault = (bytes: Uint8Array, most = MAX_VALUES, mostKeys = MAX_KEYS): string | null =>
  faultIn(bytes, { most, mostKeys, isStrict: false })?.detail ?? null

/**
 * The same for what a client sent, which may hold values only that can be stored and passed on: JSON.parse takes a lone
 * surrogate, which no UTF-8 text can hold and Python's parsers refuse, and makes null of 1e400.
 */
export const clientFault = (bytes: Uint8Array, most = MAX_VALUES): JsonFault | null =>
  faultIn(bytes, { most, mostKeys: MAX_KEYS, isStrict: true })

interface Limits {
  most: number
  mostKeys: number
  isStrict: boolean
}

function faultIn(bytes: Uint8Array, { most, mostKeys, isStrict }: Limits): JsonFault | null {
  let at = startOf(bytes)
  if (bytes[at] !== OPEN_OBJECT && bytes[at] !== OPEN_ARRAY) return null
  let depth = 0
  let keys = 0
  let values = 1
  let inString = false
  for (; at < bytes.length; at++) {
    const byte = bytes[at]!
    if (inString) {
      if (byte === BACKSLASH) {
        at++
        if (!isStrict || bytes[at] !== LOWER_U) continue
        const unit = codeUnit(bytes, at + 1)
        if (unit < HIGH || unit > LAST_LOW) continue
        if (unit >= LOW || bytes[at + 5] !== BACKSLASH || bytes[at + 6] !== LOWER_U) return LONE_SURROGATE
        const next = codeUnit(bytes, at + 7)
        if (next < LOW || next > LAST_LOW) return LONE_SURROGATE
        at += 10
      } else if (byte === QUOTE) inString = false
    } else if (byte === QUOTE) inString = true
    else if (byte >= ZERO && byte <= NINE) {
      const end = endOfNumber(bytes, at)
      if (isStrict && isEndless(bytes, at, end)) return ENDLESS_NUMBER
      at = end - 1
    } else if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
      if (++depth > MAX_DEPTH) return over(`The body is nested deeper than ${MAX_DEPTH} levels`)
    } else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) {
      if (--depth === 0) return null
    } else if (byte === COMMA) {
      if (++values > most) return over(`The body has more than ${most} values`)
    } else if (byte === COLON && ++keys > mostKeys) return over(`The body has more than ${mostKeys} keys`)
  }
  return null
}

/** UTF-16 code units of surrogate pairs: a high one (d800 to dbff), then a low one (dc00 to dfff). */
const [HIGH, LOW, LAST_LOW] = [0xd800, 0xdc00, 0xdfff]

/** The four hexadecimal digits from `at`; -1 when they are none. */
function codeUnit(bytes: Uint8Array, at: number): number {
  let unit = 0
  for (let n = at; n < at + 4; n++) {
    const byte = bytes[n] ?? 0
    const lower = byte | LOWER_CASE
    const digit = byte >= ZERO && byte <= NINE ? byte - ZERO : lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1
    if (digit < 0) return -1
    unit = unit * 16 + digit
  }
  return unit
}

function endOfNumber(bytes: Uint8Array, at: number): number {
  let end = at + 1
  for (; end < bytes.length; end++) {
    const byte = bytes[end]!
    if (byte >= ZERO && byte <= NINE) continue
    if (byte !== DOT && byte !== MINUS && byte !== PLUS && (byte | LOWER_CASE) !== LOWER_E) break
  }
  return end
}

/** No number of fewer bytes than 1e309 is endless. */
function isEndless(bytes: Uint8Array, at: number, end: number): boolean {
  if (end - at < 5) return false
  let hasExponent = false
  for (let n = at; n < end && !hasExponent; n++) hasExponent = (bytes[n]! | LOWER_CASE) === LOWER_E
  if (!hasExponent && end - at < 309) return false
  return Math.abs(Number(String.fromCharCode(...bytes.subarray(at, Math.min(end, at + MOST_DIGITS))))) === Infinity
}

/** Digits of a number that are looked at: a longer one without an exponent is endless. */
const MOST_DIGITS = 10_000

/** Where the text begins: decoders leave out a byte order mark, and parsers skip space. */
function startOf(bytes: Uint8Array): number {
  let at = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0
  while (bytes[at] === SPACE || bytes[at] === TAB || bytes[at] === LINE_FEED || bytes[at] === RETURN) at++
  return at
}
