/**
 * From bytes of a client to a checked value, in this order: UTF-8, depth and key count in one linear scan,
 * JSON, then the type. Every refusal is one sentence that names the path and what was expected. Nothing else parses what a
 * client sent (scripts/checks/client-json.ts).
 */
import type { IValidation } from 'typia'
import { fail, InvalidFields } from '../schemas/errors.js'
import { jsonText, parseJson } from '../schemas/exact.js'
import { clientFault, jsonFault } from '../schemas/json.js'
import { splitPacked } from '../schemas/packed.js'
import { problemsOf, readable } from '../schemas/problems.js'

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: false })

interface Options {
  /** The refusal may quote the text. */
  quote?: boolean
  /** Members and elements. */
  most?: number
  /** Integers that a number cannot hold are BigInts; else they are rounded. */
  exact?: boolean
}

/** The JSON value in `bytes`; undefined when there are none. Throws bad_request (400), or invalid (422) for what no value can hold. */
export function decodeJson(bytes: Uint8Array, { quote = true, most, exact = true }: Options = {}): unknown {
  if (bytes.length === 0) return undefined
  let text: string
  try {
    text = utf8.decode(bytes)
  } catch {
    throw fail('bad_request', 'The body is not valid UTF-8')
  }
  const fault = clientFault(bytes, most)
  if (fault !== null) throw fail(fault.code, fault.detail)
  try {
    return exact ? parseJson(text) : JSON.parse(text)
  } catch (error) {
    throw fail('bad_request', `The body is not valid JSON${quote ? `: ${(error as Error).message}` : ''}`)
  }
}

/** The value as the validator's type. Throws invalid (422) naming path and expectation; an absent body is `{}`. */
export function decodeAs<T>(bytes: Uint8Array, validate: (value: unknown) => IValidation<T>): T {
  return checkAs(bodyOf(decodeJson(bytes)), validate)
}

/** The same for a value that was read already; `whole` names it. */
export function checkAs<T>(value: unknown, validate: (value: unknown) => IValidation<T>, whole = 'the body'): T {
  const result = validate(value)
  if (result.success) return result.data
  const first = result.errors[0]!
  const path = first.path.replace(/^\$input\.?/, '') || whole
  throw fail('invalid', `${path}: expected ${readable(first.expected)}, got ${show(first.value)}`)
}

/** Like `decodeAs`, but throws all mistakes as InvalidFields and quotes nothing of the body, which may hold secrets. */
export function decodeFields<T>(bytes: Uint8Array, validate: (value: unknown) => IValidation<T>): T {
  const result = validate(bodyOf(decodeJson(bytes, { quote: false, exact: false })))
  if (result.success) return result.data
  throw new InvalidFields(problemsOf(result.errors))
}

/** Members and elements in the head of a packed body: a save may name tens of thousands of values. */
const MAX_HEAD_VALUES = 2_000_000

/**
 * The head of a packed body (schemas/packed.ts) as the validator's type, and the bytes after it. Graph workers run code that
 * is not ours, so a head may be anything. Throws bad_request and invalid.
 */
export function unpackAs<T>(
  bytes: Uint8Array,
  validate: (value: unknown) => IValidation<T>,
): { head: T; rest: Uint8Array } {
  const { head, rest } = cutPacked(bytes)
  const fault = jsonFault(head, MAX_HEAD_VALUES, MAX_HEAD_VALUES)
  if (fault !== null) throw fail('bad_request', fault)
  let value: unknown
  try {
    value = parseJson(utf8.decode(head))
  } catch {
    throw fail('bad_request', 'The head of the body is not valid JSON')
  }
  return { head: checkAs(value, validate, 'the head'), rest }
}

function cutPacked(bytes: Uint8Array): { head: Uint8Array; rest: Uint8Array } {
  try {
    return splitPacked(bytes)
  } catch (error) {
    throw fail('bad_request', `The body cannot be read: ${(error as Error).message}`)
  }
}

/** `null` is a body, and none of this API. */
const bodyOf = (body: unknown): unknown => (body === undefined ? {} : body)

function show(value: unknown): string {
  if (value === undefined) return 'nothing'
  const text = jsonText(value) ?? typeof value
  return text.length > 80 ? `${text.slice(0, 80)}…` : text
}

/** Objects, lists and members of objects: they take most memory, 50 to 100 bytes each. Numbers and texts are not counted. */
const MAX_PARTS = 6_000_000
const [QUOTE, BACKSLASH, COLON, OPEN_OBJECT, OPEN_ARRAY] = [0x22, 0x5c, 0x3a, 0x7b, 0x5b]

/**
 * Parses what a graph has made: a state, an event, a result. Its host may have sent anything, and a parsed value may take 24
 * times its text, which has up to 64 MB; so it is counted first (3 ms per MB; the parser needs twice as long). `begin` stands
 * before the bytes. Throws too_large.
 */
export function parseLarge<T>(given: Uint8Array | string, begin = '', most = MAX_PARTS): T {
  const bytes = typeof given === 'string' ? Buffer.from(given) : given
  // Each that counts is at least two bytes of the text.
  if (bytes.length > most) checkCount(bytes, most)
  return parseJson(begin + Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString()) as T
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
      throw fail('too_large', `The value has more than ${most} objects, lists and members`)
  }
}
