/**
 * The mistakes that typia finds, as the fields and words of an answer (docs/spec/control-plane.md#error-bodies). Values
 * are never quoted.
 */
import type { IValidation } from 'typia'
import type { Problem } from './errors.js'

const MAX_PROBLEMS = 100
const UUID = '"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"'

/** At most a hundred problems; `from` is where the value was: body, query or path. */
export const problemsOf = (errors: readonly IValidation.IError[], from = 'body'): Problem[] =>
  errors.slice(0, MAX_PROBLEMS).map(({ path, expected, value }) => {
    const nullable = /\| null\b/.test(expected)
    const missing = value === undefined
    return {
      loc: [from, ...segmentsOf(path)],
      msg: `expected ${readable(expected)}${nullable && !missing ? ' or null' : ''}${missing ? ', got nothing' : ''}`,
      type: missing ? 'missing' : typeOf(expected, value),
    }
  })

/** `$input.secrets[0]["a b"]` as its segments. */
function segmentsOf(path: string): (string | number)[] {
  const found: (string | number)[] = []
  for (const [, name, index, quoted] of path.matchAll(/\.([A-Za-z_$][\w$]*)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]/g))
    found.push(name ?? (index === undefined ? (JSON.parse(quoted!) as string) : Number(index)))
  return found
}

/** typia's type text in words. */
export function readable(expected: string): string {
  const kinds = alternatives(expected).filter(one => one !== 'null' && one !== 'undefined')
  return [...new Set(kinds.map(wordsOf))].join(' or ')
}

function wordsOf(kind: string): string {
  if (/^["\d-]|^(true|false)$/.test(kind)) return kind
  if (kind.startsWith('Array<') || /\[\]$/.test(kind) || kind.startsWith('(Array<')) {
    const fewest = /MinItems<(\d+)>/.exec(kind)?.[1]
    return fewest === undefined ? 'a list' : `a list of at least ${fewest}`
  }
  if (/^\(?boolean/.test(kind)) return 'true or false'
  const most = /Maximum<([^>]+)>/.exec(kind)?.[1]
  const least = /Minimum<([^>]+)>/.exec(kind)?.[1]
  if (/^\(?number/.test(kind)) {
    const what = /Type<"u?int/.test(kind) ? 'a whole number' : 'a number'
    const low = least ?? (/Type<"uint/.test(kind) ? '0' : undefined)
    if (low !== undefined && most !== undefined) return `${what} from ${low} to ${most}`
    return low === undefined ? (most === undefined ? what : `${what} up to ${most}`) : `${what} of at least ${low}`
  }
  if (/^\(?string/.test(kind)) {
    const pattern = /Pattern<(".*?[^\\]")>/.exec(kind)?.[1]
    if (kind.includes('Format<"uuid">') || pattern === UUID) return 'a UUID'
    if (pattern !== undefined) return `a text that matches ${JSON.parse(pattern) as string}`
    const short = /MinLength<(\d+)>/.exec(kind)?.[1]
    const long = /MaxLength<(\d+)>/.exec(kind)?.[1]
    if (short !== undefined && long !== undefined) return `a text of ${short} to ${long} characters`
    if (short !== undefined) return `a text of at least ${short} character${short === '1' ? '' : 's'}`
    return long === undefined ? 'a text' : `a text of at most ${long} characters`
  }
  return 'an object'
}

function typeOf(expected: string, value: unknown): string {
  const kinds = alternatives(expected)
  const first = kinds.find(kind => kind !== 'null' && kind !== 'undefined') ?? expected
  if (first.startsWith('"')) return 'enum'
  const words = wordsOf(first)
  if (words.startsWith('a list')) return Array.isArray(value) ? 'too_long' : 'list_type'
  if (words === 'true or false') return 'bool_type'
  if (words.startsWith('a whole') || words.startsWith('a number')) {
    if (typeof value !== 'number') return words.startsWith('a whole') ? 'int_type' : 'float_type'
    return words.startsWith('a whole') && !Number.isInteger(value) ? 'int_from_float' : 'out_of_range'
  }
  if (words === 'an object') return 'dict_type'
  if (typeof value !== 'string') return 'string_type'
  return words.includes('matches') ? 'string_pattern_mismatch' : words === 'a UUID' ? 'uuid_parsing' : 'string_length'
}

/** The top-level members of a union. */
function alternatives(expected: string): string[] {
  const text = /^\(.*\)$/.test(expected) && closes(expected) ? expected.slice(1, -1) : expected
  const parts: string[] = []
  let depth = 0
  let quoted = false
  let from = 0
  for (let i = 0; i < text.length; i++) {
    const char = text[i]!
    if (char === '"' && text[i - 1] !== '\\') quoted = !quoted
    if (quoted) continue
    if ('(<{['.includes(char)) depth++
    else if (')>}]'.includes(char)) depth--
    else if (depth === 0 && text.startsWith(' | ', i)) {
      parts.push(text.slice(from, i))
      from = i + 3
    }
  }
  parts.push(text.slice(from))
  return parts
}

/** True when the bracket at the beginning is closed by the one at the end. */
function closes(text: string): boolean {
  let depth = 0
  let quoted = false
  for (let i = 0; i < text.length; i++) {
    if (text[i] === '"' && text[i - 1] !== '\\') quoted = !quoted
    if (quoted) continue
    if (text[i] === '(') depth++
    else if (text[i] === ')' && --depth === 0) return i === text.length - 1
  }
  return false
}

/**
 * The validators of typia go through the whole value after the first error; 3 MB of `{}` in a list took 5 s and 600 MB. The
 * build makes them use the two functions below, which have the names of theirs (scripts/typia-import.mjs).
 */
const MAX_ERRORS = 100
type Failure = IValidation.IError

class Enough extends Error {
  constructor(readonly errors: Failure[]) {
    super('the value has too many errors')
  }
}

/** Adds errors to the list, not those of a value whose members have errors. */
export function _validateReport(errors: Failure[]): (isReported: boolean, error: Failure) => false {
  const isNew = (path: string) => {
    const last = errors.at(-1)?.path ?? ''
    return path.length > last.length || !last.startsWith(path)
  }
  return (isReported, error) => {
    if (!isReported || (errors.length > 0 && !isNew(error.path))) return false
    errors.push(error)
    if (errors.length >= MAX_ERRORS) throw new Enough(errors)
    return false
  }
}

/** The validator itself. */
export const _createStandardSchema =
  <T>(validate: (value: unknown) => IValidation<T>) =>
  (value: unknown): IValidation<T> => {
    try {
      return validate(value)
    } catch (error) {
      if (error instanceof Enough) return { success: false, data: value, errors: error.errors }
      throw error
    }
  }
