/**
 * Request headers that the graph of a run can read in `config.configurable` (API: assistants-crons-store 7.3): none
 * without the setting; `x-*,user-agent` gives those of the development server of LangGraph; never a credential.
 */
const PRIVATE = /^(authorization|proxy-authorization|cookie|x-(api-key|tenant-id|service-key|weft-.*))$/

/** Whether a header, by its lower-case name, is passed on. `patterns` is a comma list with `*`. */
export function openConfigurable(patterns: string): (name: string) => boolean {
  const wanted = patterns.split(',').flatMap(one => one.trim().toLowerCase() || [])
  if (wanted.length === 0) return () => false
  const source = wanted.map(one => one.split('*').map(escapeText).join('.*')).join('|')
  const pattern = new RegExp(`^(?:${source})$`)
  return name => pattern.test(name) && !PRIVATE.test(name)
}

const escapeText = (text: string): string => text.replace(/[.+?^${}()|[\]\\]/g, '\\$&')
