/** Paths into a thread: `values.messages[-1].content` (docs/spec/threads.md#search). */
import { fail } from '../../../schemas/errors.js'

const ROOTS = ['values', 'metadata', 'config', 'interrupts']
const MAX_PATHS = 10
/** A key, or a place in a list in brackets. */
const PATH = /^[^.[\]]+(?:\.[^.[\]]+|\[-?\d{1,9}\])*$/
const PART = /\[(-?\d+)\]|[^.[\]]+/g

/** Keys, and places in lists; negative ones count from the end. */
export type Path = (string | number)[]

/** The paths by their alias. Throws `invalid` for one that cannot be read, or for more than ten. */
export function readPaths(given: { [alias: string]: string }): [alias: string, path: Path][] {
  const entries = Object.entries(given)
  if (entries.length > MAX_PATHS)
    throw fail('invalid', `extract: expected at most ${MAX_PATHS} paths, got ${entries.length}`)
  return entries.map(([alias, text]) => {
    const path = PATH.test(text) ? [...text.matchAll(PART)].map(([part, place]) => (place ? Number(place) : part)) : []
    if (!ROOTS.includes(path[0] as string))
      throw fail('invalid', `extract.${alias}: expected a path that begins with ${ROOTS.join(', ')}, got "${text}"`)
    return [alias, path]
  })
}

/** The value at the path; null where there is none. */
export function valueAt(root: unknown, path: Path): unknown {
  let at = root
  for (const part of path) {
    if (typeof part === 'number') at = Array.isArray(at) ? at.at(part) : undefined
    else at = isMap(at) && Object.hasOwn(at, part) ? at[part] : undefined
    if (at === undefined || at === null) return null
  }
  return at
}

const isMap = (value: unknown): value is { [key: string]: unknown } =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
