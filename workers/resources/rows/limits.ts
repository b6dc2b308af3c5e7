/** Limits of what clients store with an assistant, a cron, a thread or a run. */
import { fail } from '../../../schemas/errors.js'
import { jsonText } from '../../../schemas/exact.js'
import { isObject, type JsonObject } from '../../../schemas/json.js'
import type { RunCreate } from '../../../schemas/runs.js'

/** Metadata of a row, as JSON text. It is read whole by every search. */
const MAX_METADATA = 64 * 1024
/** Config, context and metadata of an assistant, and the template of a cron, which each of its runs copies. */
const MAX_TEMPLATE = 1024 * 1024

/**
 * Members of the parts of a config, and tags. The library copies them for every call of a node, in time that grows with
 * their square: 40,000 blocked a graph host, with all of its runs, for 5 s. Each member of a checkpoint map is read.
 */
const MAX_MEMBERS = 1_000

/** Throws invalid for a config or a context with which one run would hold up others, or itself. */
export function checkConfig({
  config,
  context,
  checkpoint,
}: Pick<RunCreate, 'config' | 'context' | 'checkpoint'>): void {
  const { configurable, metadata, tags, max_concurrency } = config ?? {}
  const parts = {
    'config.configurable': configurable,
    'config.metadata': metadata,
    'config.tags': tags,
    'config.configurable.checkpoint_map': configurable?.checkpoint_map,
    'checkpoint.checkpoint_map': checkpoint?.checkpoint_map,
    context,
  }
  for (const [name, part] of Object.entries(parts)) {
    const members = typeof part === 'object' && part !== null ? Object.keys(part).length : 0
    if (members > MAX_MEMBERS) throw fail('invalid', `${name}: expected at most ${MAX_MEMBERS} members, got ${members}`)
  }
  // No node would ever start.
  if (typeof max_concurrency === 'number' && max_concurrency < 1)
    throw fail('invalid', `config.max_concurrency: expected a number of at least 1, got ${max_concurrency}`)
}

/** The JSON text of metadata; throws invalid when it is too large. */
export function metadataText(metadata: object): string {
  const text = jsonText(metadata)
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

/**
 * Throws bad_request for a body with both a context and `config.configurable`: each is passed to graphs under both names, so
 * that one would hide the other.
 */
export function checkContext({
  config,
  context,
}: {
  config?: { configurable?: JsonObject | null } | null
  context?: unknown
}): void {
  if (isGiven(context) && isGiven(config?.configurable))
    throw fail('bad_request', 'Give either context or config.configurable, not both; context is the newer one')
}

const isGiven = (value: unknown): boolean => isObject(value) && Object.keys(value).length > 0
