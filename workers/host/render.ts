/**
 * Renders values to the JSON text that a client receives, in two passes. `flatten` returns the same reference for
 * values that JSON.stringify already renders well and copies only the path to the other values; then the native
 * JSON.stringify runs once. A replacer function would be called for every value and costs several times as much.
 *
 * Messages are flat objects, never constructor envelopes (docs/spec/streams.md#messages). A cycle becomes "[Circular]", a
 * BigInt its decimal text, a Map an object, a Set a list, bytes base64, an Error {error, message}.
 */
import { StateTooLarge } from './limits.js'

/** Below this depth a value is walked again with a record of its ancestors, so that a cycle ends. */
const SHALLOW = 200
/** Below this depth nothing is rendered: the stack would overflow. */
const DEEPEST = 1000

type Plain = { [key: string]: unknown }
class TooDeep extends Error {}

/**
 * Returns the JSON text of any value. `undefined` becomes null. Throws only if the value's own code (a getter, toJSON)
 * throws.
 */
export function render(value: unknown): string {
  if (typeof value === 'string') return wellFormed(JSON.stringify(value))
  if (typeof value !== 'object' || value === null) return scalar(value)
  let flat: unknown
  try {
    flat = flatten(value, 0, null)
  } catch (error) {
    if (!(error instanceof TooDeep)) throw error
    flat = flatten(value, 0, [])
  }
  return wellFormed(stringify(flat))
}

/** A text longer than the engine's longest string is an error of the run, not of Weft. */
function stringify(flat: unknown): string {
  try {
    return JSON.stringify(flat) ?? 'null'
  } catch (error) {
    if (error instanceof RangeError && error.message === 'Invalid string length') throw new StateTooLarge('The values')
    throw error
  }
}

/** JSON.stringify writes a lone surrogate as an escape, which strict parsers reject: it becomes U+FFFD. */
export function wellFormed(json: string): string {
  if (!json.includes('\\ud')) return json
  return json.replace(/\\(?:\\|ud[89a-f][0-9a-f]{2})/g, found => (found === '\\\\' ? found : '\ufffd'))
}

function scalar(value: unknown): string {
  if (typeof value === 'bigint') return `"${value}"`
  return JSON.stringify(value) ?? 'null'
}

function flatten(value: unknown, depth: number, above: object[] | null): unknown {
  if (typeof value === 'bigint') return String(value)
  if (typeof value !== 'object' || value === null) return value
  if (above === null) {
    if (depth > SHALLOW) throw new TooDeep()
    return flattenObject(value, depth + 1, above)
  }
  if (above.includes(value)) return '[Circular]'
  if (depth > DEEPEST) return '[Too deep]'
  above.push(value)
  const flat = flattenObject(value, depth + 1, above)
  above.pop()
  return flat
}

function flattenObject(value: object, depth: number, above: object[] | null): unknown {
  if (Array.isArray(value)) return flattenList(value, depth, above)
  const prototype = Object.getPrototypeOf(value)
  if (prototype === Object.prototype || prototype === null) {
    const { toJSON } = value as { toJSON?: unknown }
    if (typeof toJSON !== 'function') return flattenPlain(value as Plain, depth, above)
  }
  if (isMessage(value)) return flattenPlain(flatMessage(value), depth, above)
  if (value instanceof Map) {
    const entries = Object.create(null) as Plain
    for (const [key, item] of value) entries[String(key)] = flatten(item, depth, above)
    return entries
  }
  if (value instanceof Set) return flattenList([...value], depth, above)
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.length).toString('base64')
  if (typeof (value as { toJSON?: unknown }).toJSON === 'function')
    return flatten((value as { toJSON(): unknown }).toJSON(), depth, above)
  if (value instanceof Error) return { error: errorName(value), message: value.message }
  return flattenPlain(value as Plain, depth, above)
}

function flattenList(list: unknown[], depth: number, above: object[] | null): unknown[] {
  let copy: unknown[] | null = null
  for (let i = 0; i < list.length; i++) {
    const item = list[i]
    if (typeof item === 'string' || typeof item === 'number') continue
    const flat = flatten(item, depth, above)
    if (flat === item) continue
    copy ??= list.slice()
    copy[i] = flat
  }
  return copy ?? list
}

function flattenPlain(object: Plain, depth: number, above: object[] | null): Plain {
  let copy: Plain | null = null
  for (const key of Object.keys(object)) {
    const item = object[key]
    if (typeof item === 'string' || typeof item === 'number') continue
    const flat = flatten(item, depth, above)
    if (flat === item) continue
    // The copy has no prototype, so a key named __proto__ stays a key.
    copy ??= Object.assign(Object.create(null) as Plain, object)
    copy[key] = flat
  }
  return copy ?? object
}

/** Recognises a message of any copy of the library. Never use instanceof: the application may bring its own copy. */
export function isMessage(value: object): value is Plain {
  const message = value as { _getType?: unknown; lc_namespace?: unknown; toDict?: unknown }
  return typeof message._getType === 'function' && 'lc_namespace' in message && typeof message.toDict === 'function'
}

/** Internal fields of the library's objects, which clients do not need. */
const INNER = new Set(['lc_serializable', 'lc_kwargs', 'lc_namespace', 'lc_direct_tool_output', 'type'])

/** Built from the message's own fields: `toDict` gives the same members and costs ten times as much for a token. */
function flatMessage(message: Plain): Plain {
  const flat: Plain = { type: (message as { _getType(): string })._getType() }
  for (const key of Object.keys(message)) {
    if (!INNER.has(key) && message[key] !== undefined) flat[key] = message[key]
  }
  return flat
}

/** The class name of an error: its `name` if it sets one, else the name of its constructor. */
export function errorName(error: Error): string {
  if (error.name && error.name !== 'Error') return String(error.name)
  return error.constructor?.name || 'Error'
}

/** The payload of the `error` event (docs/spec/streams.md#events): any thrown value as a class name and a message. */
export function errorOf(thrown: unknown): { error: string; message: string } {
  if (typeof thrown !== 'object' || thrown === null) return { error: 'Error', message: String(thrown) }
  const { message, pregelTaskId: _, ...rest } = thrown as { message?: unknown; pregelTaskId?: unknown }
  if (thrown instanceof Error || message !== undefined)
    return primitiveIn(String(message)) ?? { error: errorName(thrown as Error), message: String(message) }
  const name: unknown = thrown.constructor?.name
  return { error: typeof name === 'string' && name !== 'Object' ? name : 'Error', message: render(rest) }
}

/**
 * The library adds the id of the task to each thrown value. For a string, a number or undefined this fails, and only
 * the library's TypeError remains; its message names the thrown value.
 */
function primitiveIn(message: string): { error: string; message: string } | null {
  if (!message.includes('pregelTaskId')) return null
  const found =
    /^Cannot create property 'pregelTaskId' on \w+ '(.*)'$/s.exec(message) ??
    /^Cannot set properties of (undefined|null) \(setting 'pregelTaskId'\)$/.exec(message)
  return found === null ? null : { error: 'Error', message: found[1]! }
}
