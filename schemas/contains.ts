/**
 * Filters on JSON (docs/spec/threads.md#search, decision 021). `contains` decides; `keysOf` makes the canonical
 * `path=value` strings that are kept beside a document, so that a store can leave out what cannot match.
 *
 * The promise between the two: when `contains(stored, filter)`, then each of `keysOf(filter)` is among `keysOf(stored)`,
 * or `keysOf(stored)` is `[ANY_KEY]`.
 */
import { hash } from 'node:crypto'
import { fail } from './errors.js'

/** The only key of a document that has too many: it stays a candidate for every filter. */
export const ANY_KEY = '*'
/** More keys than this are not kept. */
const MAX_KEYS = 64
/** Keys that are kept as they are. A longer one, or one that is not plain, is kept as its hash. */
const PLAIN = /^[\x20-\x7e]{1,64}$/
/** Comparisons of one call; what needs more is refused. */
const MAX_WORK = 2_000_000
/** Each further document of a search adds so much to that, so that many small documents are not refused. */
const WORK_PER_DOCUMENT = 200
/** Arrays from this size on are looked up, not walked, for scalars. */
const LARGE = 16

/**
 * Containment as in PostgreSQL's jsonb: an object contains another when it has its keys and their values contain
 * those of the other; an array, when each element of the other is contained in one of its own; scalars when they are
 * equal. Throws `invalid` when two large arrays would take too long to compare.
 */
export function contains(stored: unknown, filter: unknown): boolean {
  return inside(stored, filter, { left: MAX_WORK })
}

/** Like `contains`, for all documents of one search, whose comparisons are limited together. */
export function containsAll(filter: unknown): (stored: unknown) => boolean {
  const work = { left: MAX_WORK }
  return stored => {
    work.left += WORK_PER_DOCUMENT
    return inside(stored, filter, work)
  }
}

function inside(stored: unknown, filter: unknown, work: { left: number }): boolean {
  if (--work.left < 0) throw fail('invalid', 'The filter and what it is compared with are too large to be compared')
  if (!isCompound(filter)) return stored === filter
  if (!isCompound(stored) || Array.isArray(stored) !== Array.isArray(filter)) return false
  if (Array.isArray(filter)) return elementsInside(stored as unknown[], filter, work)
  for (const key of Object.keys(filter)) {
    if (!Object.hasOwn(stored, key)) return false
    if (!inside((stored as Values)[key], (filter as Values)[key], work)) return false
  }
  return true
}

function elementsInside(stored: unknown[], filter: unknown[], work: { left: number }): boolean {
  const scalars = stored.length >= LARGE && filter.length > 1 ? new Set(stored) : null
  work.left -= scalars === null ? 0 : stored.length
  const compounds = scalars === null ? stored : stored.filter(isCompound)
  return filter.every(element =>
    scalars !== null && !isCompound(element)
      ? scalars.has(element)
      : compounds.some(each => inside(each, element, work)),
  )
}

/** The keys of a document or of a filter: one for each scalar in it, however deep; arrays are paths without numbers. */
export function keysOf(json: unknown): string[] {
  const keys = new Set<string>()
  const isWhole = collect(json, '', keys)
  return isWhole ? [...keys] : [ANY_KEY]
}

/** False when there are more than are kept. */
function collect(value: unknown, path: string, keys: Set<string>): boolean {
  if (!isCompound(value)) {
    // The same for integers that a number cannot hold and their neighbours: `contains` decides.
    const scalar = typeof value === 'bigint' ? Number(value) : value
    keys.add(shortened(`${path}=${JSON.stringify(scalar === 0 ? 0 : scalar)}`))
    return keys.size <= MAX_KEYS
  }
  if (Array.isArray(value)) return value.every(element => collect(element, `${path}[]`, keys))
  return Object.keys(value).every(key => collect((value as Values)[key], `${path}.${JSON.stringify(key)}`, keys))
}

const shortened = (key: string): string => (PLAIN.test(key) ? key : `#${hash('sha256', key, 'base64url')}`)

type Values = { [key: string]: unknown }
const isCompound = (value: unknown): value is object => typeof value === 'object' && value !== null
