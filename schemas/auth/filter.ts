/**
 * The filters that authorization handlers return (docs/spec/auth.md#filters): `{key: value}`, `{key: {$eq}}`,
 * `{key: {$contains}}`, `{$or: […]}`, `{$and: […]}`; several members must all hold. A filter that is not understood is an
 * error of the application and never passes.
 */
import { ANY_KEY, keysOf } from '../contains.js'
import { fail } from '../errors.js'
import { isObject, type JsonObject } from '../json.js'

export type Matcher = (document: JsonObject) => boolean

/** The test of a filter. Throws `internal` for anything but the forms above. */
export function compileFilter(filter: unknown, depth = 0): Matcher {
  if (!isObject(filter)) throw broken('a filter must be an object')
  if (depth > MAX_DEPTH) throw broken('a filter is nested too deeply')
  const tests = Object.entries(filter).map(([key, wanted]): Matcher => {
    if (key === '$or' || key === '$and') {
      if (!Array.isArray(wanted) || wanted.length === 0) throw broken(`${key} must be a list that is not empty`)
      const parts = wanted.map(part => compileFilter(part, depth + 1))
      if (key === '$or') return document => parts.some(part => part(document))
      return document => parts.every(part => part(document))
    }
    if (key.startsWith('$')) throw broken(`"${key}" is no operator of a filter`)
    const test = compileValue(wanted)
    return document => test(Object.hasOwn(document, key) ? document[key] : undefined)
  })
  return document => tests.every(test => test(document))
}

/** The keys of metadata (schemas/contains.ts) without which no document matches the filter; [] when there are none. */
export function filterKeys(filter: JsonObject): string[] {
  const keys = Object.entries(filter).flatMap(([key, wanted]) => {
    if (key === '$and') return (wanted as JsonObject[]).flatMap(filterKeys)
    if (key === '$or') return []
    if (!isOperator(wanted)) return keysOf({ [key]: wanted })
    if ('$eq' in wanted) return keysOf({ [key]: wanted.$eq })
    const list = Array.isArray(wanted.$contains) ? wanted.$contains : [wanted.$contains]
    return list.length === 0 ? [] : keysOf({ [key]: list })
  })
  return [...new Set(keys)].filter(key => key !== ANY_KEY)
}

/** The members that every document has which matches the filter, with the scalars that they equal. */
export function equalMembers(filter: JsonObject): JsonObject {
  const members: JsonObject = {}
  for (const [key, wanted] of Object.entries(filter)) {
    if (key === '$and') for (const part of wanted as JsonObject[]) Object.assign(members, equalMembers(part))
    const value = isOperator(wanted) ? wanted.$eq : wanted
    if (key !== '$and' && key !== '$or' && value !== undefined && (value === null || typeof value !== 'object'))
      members[key] = value
  }
  return members
}

const MAX_DEPTH = 20

const broken = (why: string) => fail('internal', `The authorization of this application failed: ${why}`)

function compileValue(wanted: unknown): (stored: unknown) => boolean {
  if (wanted === undefined) throw broken('a filter has a member without a value')
  if (!isOperator(wanted)) return stored => equal(stored, wanted)
  const [operator, ...more] = Object.keys(wanted)
  if (more.length > 0) throw broken('a member of a filter has more than one operator')
  const operand = wanted[operator!]
  if (operand === undefined) throw broken(`${operator} has no operand`)
  if (operator === '$eq') return stored => equal(stored, operand)
  if (operator !== '$contains') throw broken(`"${operator}" is no operator of a filter`)
  const all: unknown[] = Array.isArray(operand) ? operand : [operand]
  return stored => Array.isArray(stored) && all.every(one => stored.some(element => equal(element, one)))
}

/** An object with a member that begins with `$` is an operator, any other value is compared. */
const isOperator = (value: unknown): value is JsonObject =>
  isObject(value) && Object.keys(value).some(name => name.startsWith('$'))

/** Deep equality of JSON values; a member that is missing equals nothing. */
function equal(a: unknown, b: unknown): boolean {
  if (a === undefined) return false
  if (typeof a !== 'object' || a === null || typeof b !== 'object' || b === null) return a === b
  if (Array.isArray(a) !== Array.isArray(b)) return false
  const names = Object.keys(a)
  return (
    names.length === Object.keys(b).length &&
    names.every(name => Object.hasOwn(b, name) && equal((a as JsonObject)[name], (b as JsonObject)[name]))
  )
}
