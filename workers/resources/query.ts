/** Query parameters of the control plane; every mistake is a problem of its parameter (docs/spec/control-plane.md#lists). */
import { InvalidFields, type Problem } from '../../schemas/errors.js'
import { canonicalId, uuidOf } from '../../schemas/ids.js'

const MAX_IDS = 100
const MAX_TEXT = 1_024

export interface Page {
  limit: number
  offset: number
}

/** Reads the parameters one by one; `done` throws the mistakes of all. */
export function openQuery(text: string | undefined) {
  const query = new URLSearchParams(text)
  const problems: Problem[] = []
  const report = (name: string, msg: string, type: string) => void problems.push({ loc: ['query', name], msg, type })

  function wholeNumber(name: string, fallback: number, least: number, most: number): number {
    const given = query.get(name)
    if (given === null) return fallback
    const value = /^[+-]?\d{1,15}$/.test(given) ? Number(given) : Number.NaN
    if (value >= least && value <= most) return value
    const range = most === Number.MAX_SAFE_INTEGER ? `of at least ${least}` : `from ${least} to ${most}`
    report(name, `expected a whole number ${range}`, Number.isNaN(value) ? 'int_parsing' : 'out_of_range')
    return fallback
  }

  return {
    query,
    page: (most = 100, fallback = 20): Page => ({
      limit: wholeNumber('limit', fallback, 1, most),
      offset: wholeNumber('offset', 0, 0, Number.MAX_SAFE_INTEGER),
    }),
    /** Null when absent or empty. */
    text(name: string): string | null {
      const value = query.get(name)
      if (value === null || value === '') return null
      if (value.length > MAX_TEXT) report(name, `expected a text of at most ${MAX_TEXT} characters`, 'string_length')
      return value
    },
    missing(name: string): void {
      report(name, 'expected a value', 'missing')
    },
    flag(name: string): boolean | null {
      const value = query.get(name)
      if (value === null || value === '') return null
      if (/^(true|1|yes|on|t|y)$/i.test(value)) return true
      if (!/^(false|0|no|off|f|n)$/i.test(value)) report(name, 'expected true or false', 'bool_parsing')
      return false
    },
    oneOf<T extends string>(name: string, values: readonly T[]): T | null {
      const value = query.get(name)
      if (value === null || value === '') return null
      if (!values.includes(value as T)) report(name, `expected ${values.join(' or ')}`, 'enum')
      return value as T
    },
    /** A comma list, or the parameter repeated, without blank items; null when absent or empty. */
    someOf<T extends string>(name: string, values: readonly T[]): T[] | null {
      const items = splitList(name)
      if (items?.some(item => !values.includes(item as T)))
        report(name, `expected some of ${values.join(', ')}`, 'enum')
      return items as T[] | null
    },
    ids(name: string, most = MAX_IDS): string[] | null {
      const items = splitList(name)
      if (items !== null && items.length > most) report(name, `expected at most ${most} UUIDs`, 'too_long')
      else if (items?.some(item => uuidOf(item) === null))
        report(name, 'expected UUIDs, separated by commas', 'uuid_parsing')
      return items?.map(canonicalId) ?? null
    },
    done(): void {
      if (problems.length > 0) throw new InvalidFields(problems)
    },
  }

  function splitList(name: string): string[] | null {
    const items = query.getAll(name).flatMap(one => one.split(',').flatMap(item => item.trim() || []))
    return items.length === 0 ? null : items
  }
}

/** Parameters of the path that must be UUIDs, in lower case. Throws InvalidFields. */
export function pathIds(params: { [name: string]: string } | undefined, ...names: string[]): string[] {
  const bad = names.filter(name => uuidOf(params?.[name] ?? '') === null)
  if (bad.length > 0)
    throw new InvalidFields(bad.map(name => ({ loc: ['path', name], msg: 'expected a UUID', type: 'uuid_parsing' })))
  return names.map(name => canonicalId(params![name]!))
}
