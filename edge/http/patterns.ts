/**
 * Names of request headers as patterns (docs/spec/application.md#headers). `x-*` and `user-agent` give graphs the headers
 * that the development server of LangGraph gives them. A credential never matches.
 */
import type { HeaderPatterns } from '../../schemas/application.js'
import { crosses } from './crossing.js'

/** Whether a header, by its lower-case name, matches one of `includes` and none of `excludes`. */
export function openPatterns({ includes, excludes }: HeaderPatterns = NONE): (name: string) => boolean {
  if (includes.length === 0) return () => false
  const isWanted = matcherOf(includes)
  const isRefused = matcherOf(excludes)
  return name => isWanted(name) && !isRefused(name) && crosses(name, 'graph')
}

const NONE: HeaderPatterns = { includes: [], excludes: [] }

/** `*` matches any text. No regular expression: with many of them it may take any time for a name that a client chooses. */
function matcherOf(patterns: readonly string[]): (name: string) => boolean {
  const all = patterns.map(pattern => pattern.trim().toLowerCase().split('*'))
  const exact = new Set(all.filter(pieces => pieces.length === 1).map(([piece]) => piece!))
  const open = all.filter(pieces => pieces.length > 1)
  return name => exact.has(name) || open.some(pieces => fits(name, pieces))
}

/** Whether the name has the pieces in order: the first at its begin, the last at its end, each of the others where it comes first. */
function fits(name: string, pieces: readonly string[]): boolean {
  const [first, last] = [pieces[0]!, pieces.at(-1)!]
  if (name.length < first.length + last.length || !name.startsWith(first) || !name.endsWith(last)) return false
  const end = name.length - last.length
  let at = first.length
  for (const piece of pieces.slice(1, -1)) {
    const found = name.indexOf(piece, at)
    if (found === -1 || found + piece.length > end) return false
    at = found + piece.length
  }
  return true
}
