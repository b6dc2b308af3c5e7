/**
 * Names of request headers as patterns (API: assistants-crons-store 7.3). `x-*` and `user-agent` give graphs the headers
 * that the development server of LangGraph gives them. A credential never matches.
 */
import type { HeaderPatterns } from '../../schemas/application.js'
import { crosses } from './crossing.js'

/** Whether a header, by its lower-case name, matches one of `includes` and none of `excludes`. */
export function openPatterns({ includes, excludes }: HeaderPatterns = NONE): (name: string) => boolean {
  if (includes.length === 0) return () => false
  const wanted = patternOf(includes)
  if (excludes.length === 0) return name => wanted.test(name) && crosses(name, 'graph')
  const refused = patternOf(excludes)
  return name => wanted.test(name) && !refused.test(name) && crosses(name, 'graph')
}

const NONE: HeaderPatterns = { includes: [], excludes: [] }

/** `*` matches any text. */
function patternOf(names: readonly string[]): RegExp {
  const source = names.map(name => name.trim().toLowerCase().split('*').map(escapeText).join('.*')).join('|')
  return new RegExp(`^(?:${source})$`)
}

const escapeText = (text: string): string => text.replace(/[.+?^${}()|[\]\\]/g, '\\$&')
