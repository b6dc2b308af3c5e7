/**
 * `http.cors.allow_origin_regex` of an application: a regular expression of its own, which may need any time for an origin that
 * a client chooses. It is stopped after a few milliseconds, and given up when that happens again and again.
 */
import { type Context, createContext, Script } from 'node:vm'

const MAX_MS = 5
/** Then no further origin is tried. */
const MAX_STOPPED = 3
/** A host name has at most 253 characters. */
const MAX_ORIGIN = 300
const MAX_KNOWN = 1_000

/** One for all: a context takes memory, and patterns are opened again every few seconds. */
let given: Context | null = null
const script = new Script('pattern.test(origin)')

/** Whether the whole origin matches. Throws a SyntaxError for a text that is no regular expression. */
export function openOriginPattern(source: string): (origin: string) => boolean {
  const pattern = new RegExp(`^(?:${source})$`)
  /** A run of the script takes 0.1 ms. */
  const known = new Map<string, boolean>()
  let stopped = 0

  function matches(origin: string): boolean {
    given ??= createContext({})
    Object.assign(given, { pattern, origin })
    try {
      return script.runInContext(given, { timeout: MAX_MS }) === true
    } catch {
      stopped++
      return false
    }
  }

  return origin => {
    if (origin.length > MAX_ORIGIN) return false
    const before = known.get(origin)
    if (before !== undefined) return before
    if (stopped >= MAX_STOPPED) return false
    const answer = matches(origin)
    if (known.size >= MAX_KNOWN) known.delete(known.keys().next().value!)
    known.set(origin, answer)
    return answer
  }
}
