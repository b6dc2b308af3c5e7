/**
 * `http.cors.allow_origin_regex` of an application: a regular expression of its own, which may need any time for an origin that
 * a client chooses. It is stopped after a while, and no new origin is tried for a minute when that has happened repeatedly.
 */
import { type Context, createContext, Script } from 'node:vm'

/** A machine that is busy may need some of it for a match that takes no time. */
const MAX_MS = 100
const MAX_STOPPED = 3
const PAUSE_MS = 60_000
/** A host name has at most 253 characters. */
const MAX_ORIGIN = 300
const MAX_KNOWN = 1_000

/** One for all: a context takes memory. */
let given: Context | null = null
const script = new Script('pattern.test(origin)')
/** By the text of the pattern: the policies of deployments are opened again every few seconds. */
const slow = new Map<string, { stopped: number; until: number }>()

/** Whether the whole origin matches. Throws a SyntaxError for a text that is no regular expression. */
export function openOriginPattern(source: string): (origin: string) => boolean {
  const pattern = new RegExp(`^(?:${source})$`)
  /** A run of the script takes 0.1 ms. */
  const known = new Map<string, boolean>()

  /** Null: it was stopped. */
  function run(origin: string): boolean | null {
    given ??= createContext({})
    Object.assign(given, { pattern, origin })
    try {
      return script.runInContext(given, { timeout: MAX_MS }) === true
    } catch {
      return null
    }
  }

  return origin => {
    if (origin.length > MAX_ORIGIN) return false
    const before = known.get(origin)
    if (before !== undefined) return before
    if (isPaused(source)) return false
    const answer = run(origin)
    if (answer === null) {
      noteStop(source)
      return false
    }
    if (known.size >= MAX_KNOWN) known.delete(known.keys().next().value!)
    known.set(origin, answer)
    return answer
  }
}

function isPaused(source: string): boolean {
  const found = slow.get(source)
  if (found !== undefined && found.until <= performance.now()) slow.delete(source)
  return (slow.get(source)?.stopped ?? 0) >= MAX_STOPPED
}

function noteStop(source: string): void {
  const stopped = (slow.get(source)?.stopped ?? 0) + 1
  slow.set(source, { stopped, until: performance.now() + PAUSE_MS })
  if (slow.size > MAX_KNOWN) slow.delete(slow.keys().next().value!)
}
