/**
 * From bytes to a checked value, in the order of reliability 2.6: UTF-8, depth and key count in one linear scan,
 * JSON, then the type. Every refusal is one sentence that names the path and what was expected.
 */
import type { IValidation } from 'typia'
import { fail, InvalidFields } from '../schemas/errors.js'
import { problemsOf, readable } from '../schemas/problems.js'

const MAX_DEPTH = 100
const MAX_KEYS = 100_000
/** Members and elements, counted by their commas: a parsed value may take 24 times its text (16 MB of `{}` took 377 MB). */
const MAX_VALUES = 1_000_000

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: false })

/** The JSON value in `bytes`; undefined when there are none. Throws bad_request (400), which may `quote` the text. */
export function decodeJson(bytes: Uint8Array, quote = true): unknown {
  if (bytes.length === 0) return undefined
  let text: string
  try {
    text = utf8.decode(bytes)
  } catch {
    throw fail('bad_request', 'The body is not valid UTF-8')
  }
  checkDepth(bytes)
  try {
    return JSON.parse(text)
  } catch (error) {
    throw fail('bad_request', `The body is not valid JSON${quote ? `: ${(error as Error).message}` : ''}`)
  }
}

/** The value as the validator's type. Throws invalid (422) naming path and expectation; an absent body is `{}`. */
export function decodeAs<T>(bytes: Uint8Array, validate: (value: unknown) => IValidation<T>): T {
  return checkAs(decodeJson(bytes) ?? {}, validate)
}

/** The same for a value that was read already; `whole` names it. */
export function checkAs<T>(value: unknown, validate: (value: unknown) => IValidation<T>, whole = 'the body'): T {
  const result = validate(value)
  if (result.success) return result.data
  const first = result.errors[0]!
  const path = first.path.replace(/^\$input\.?/, '') || whole
  throw fail('invalid', `${path}: expected ${readable(first.expected)}, got ${show(first.value)}`)
}

/** As decodeAs, but throws all that is wrong as InvalidFields, and quotes nothing of the body: it may hold secrets. */
export function decodeFields<T>(bytes: Uint8Array, validate: (value: unknown) => IValidation<T>): T {
  const result = validate(decodeJson(bytes, false) ?? {})
  if (result.success) return result.data
  throw new InvalidFields(problemsOf(result.errors))
}

function checkDepth(bytes: Uint8Array): void {
  let depth = 0
  let keys = 0
  let values = 1
  let inString = false
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]!
    if (inString) {
      if (byte === 0x5c) i++
      else if (byte === 0x22) inString = false
    } else if (byte === 0x22) inString = true
    else if (byte === 0x7b || byte === 0x5b) {
      if (++depth > MAX_DEPTH) throw fail('bad_request', `The body is nested deeper than ${MAX_DEPTH} levels`)
    } else if (byte === 0x7d || byte === 0x5d) depth--
    else if (byte === 0x2c && ++values > MAX_VALUES)
      throw fail('bad_request', `The body has more than ${MAX_VALUES} values`)
    else if (byte === 0x3a && ++keys > MAX_KEYS) throw fail('bad_request', `The body has more than ${MAX_KEYS} keys`)
  }
}

function show(value: unknown): string {
  if (value === undefined) return 'nothing'
  const text = JSON.stringify(value) ?? typeof value
  return text.length > 80 ? `${text.slice(0, 80)}…` : text
}
