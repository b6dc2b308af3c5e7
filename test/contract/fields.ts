/** Rows of the tables of the contract as data, with values that a type accepts and values that it refuses. */

/** `uuid`, `date-time`, `url`: strings of that form; `a|b|c`: one of these words; `int`, `number`: with a range. */
export type Kind = string

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/

/** Whether a value of an answer is of the kind; with `?` at the end it may be null. */
export function fits(kind: Kind, value: unknown): boolean {
  if (kind.endsWith('?')) return value === null || fits(kind.slice(0, -1), value)
  switch (kind) {
    case 'string':
      return typeof value === 'string'
    case 'boolean':
      return typeof value === 'boolean'
    case 'number':
      return typeof value === 'number'
    case 'object':
      return typeof value === 'object' && value !== null && !Array.isArray(value)
    case 'array':
      return Array.isArray(value)
    case 'uuid':
      return typeof value === 'string' && UUID.test(value)
    case 'date-time':
      return typeof value === 'string' && TIME.test(value)
    default:
      return kind.split('|').includes(value as string)
  }
}

const NO_STRING = [7, true, {}, ['x']]

/** Values that are not of the kind. */
export function wrong(kind: Kind): unknown[] {
  switch (kind) {
    case 'string':
    case 'url':
      return NO_STRING
    case 'boolean':
      return ['true', 1, {}, []]
    case 'number':
      return ['1', true, {}, []]
    case 'object':
      return ['x', 7, true, []]
    case 'array':
      return ['x', 7, true, {}]
    case 'uuid':
      return [...NO_STRING, 'no-uuid', '']
    default:
      return [...NO_STRING, 'other']
  }
}
