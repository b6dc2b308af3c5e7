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

export type Uuid = string & tags.Format<'uuid'>

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
const [OPEN_OBJECT, CLOSE_OBJECT, OPEN_ARRAY, CLOSE_ARRAY] = [0x7b, 0x7d, 0x5b, 0x5d]

/**
 * Why JSON.parse must not read the bytes, else null. Only an object or an array at their beginning counts: at anything else,
 * and behind it, JSON.parse ends. So bytes of another format pass, however many commas they have.
 */
export function jsonFault(bytes: Uint8Array, most = MAX_VALUES, mostKeys = MAX_KEYS): string | null {
  let at = startOf(bytes)
  if (bytes[at] !== OPEN_OBJECT && bytes[at] !== OPEN_ARRAY) return null
  let depth = 0
  let keys = 0
  let values = 1
  let inString = false
  for (; at < bytes.length; at++) {
    const byte = bytes[at]!
    if (inString) {
      if (byte === BACKSLASH) at++
      else if (byte === QUOTE) inString = false
    } else if (byte === QUOTE) inString = true
    else if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
      if (++depth > MAX_DEPTH) return `The body is nested deeper than ${MAX_DEPTH} levels`
    } else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) {
      if (--depth === 0) return null
    } else if (byte === COMMA) {
      if (++values > most) return `The body has more than ${most} values`
    } else if (byte === COLON && ++keys > mostKeys) return `The body has more than ${mostKeys} keys`
  }
  return null
}

/** Where the text begins: decoders leave out a byte order mark, and parsers skip space. */
function startOf(bytes: Uint8Array): number {
  let at = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0
  while (bytes[at] === SPACE || bytes[at] === TAB || bytes[at] === LINE_FEED || bytes[at] === RETURN) at++
  return at
}
