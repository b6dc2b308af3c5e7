/** Sizes of what clients store with an assistant, a cron, a thread or a run. */
import { fail } from '../../../schemas/errors.js'

/** Metadata of a row, as JSON text. It is read whole by every search. */
const MAX_METADATA = 64 * 1024
/** Config, context and metadata of an assistant, and the template of a cron, which each of its runs copies. */
const MAX_TEMPLATE = 1024 * 1024

/** The JSON text of metadata; throws invalid when it is too large. */
export function metadataText(metadata: object): string {
  const text = JSON.stringify(metadata)
  if (text.length > MAX_METADATA)
    throw fail('invalid', `metadata: expected at most ${MAX_METADATA} characters of JSON, got ${text.length}`)
  return text
}

/** Throws invalid when the parts are too large together. */
export function checkTemplate(what: 'assistant' | 'cron', ...parts: readonly string[]): void {
  const size = parts.reduce((sum, part) => sum + part.length, 0)
  if (size > MAX_TEMPLATE)
    throw fail('invalid', `expected at most ${MAX_TEMPLATE} characters of JSON for the ${what}, got ${size}`)
}
