/** Parts of ThreadStates for clients that select them (docs/spec/threads.md#state-and-history). */
import { parseLarge } from '../../../bus/decode.js'
import { fail } from '../../../schemas/errors.js'
import { jsonText } from '../../../schemas/exact.js'
import { isObject, type JsonObject } from '../../../schemas/json.js'
import type { ThreadState } from '../../../schemas/threads.js'

const FIELDS: readonly (keyof ThreadState)[] = [
  'values',
  'next',
  'tasks',
  'checkpoint',
  'parent_checkpoint',
  'metadata',
  'created_at',
  'interrupts',
]
const isField = (name: string) => (FIELDS as readonly string[]).includes(name)
const KEY = 'values.'

/**
 * Reduces the JSON text of a state, or of a list of states, to the selected fields; `values.<key>` selects one key of the
 * values. An empty selection is everything. Throws `invalid` for a name that is no field.
 */
export function selectFields(select: readonly string[]): (text: string | Uint8Array) => string | Uint8Array {
  for (const name of select)
    if (!isField(name) && !(name.startsWith(KEY) && name.length > KEY.length))
      throw fail('invalid', `select: expected ${FIELDS.join(', ')} or values.<key>, got "${name.slice(0, 80)}"`)
  if (select.length === 0) return text => text
  const fields = new Set(select.filter(name => !name.startsWith(KEY)))
  const keys = new Set(select.filter(name => name.startsWith(KEY)).map(name => name.slice(KEY.length)))

  function reduce(state: JsonObject): JsonObject {
    const reduced = pick(state, fields)
    if (keys.size > 0 && !fields.has('values') && isObject(state.values)) reduced.values = pick(state.values, keys)
    return reduced
  }
  return text => {
    const parsed = parseLarge<JsonObject | JsonObject[]>(text)
    return jsonText(Array.isArray(parsed) ? parsed.map(reduce) : reduce(parsed))
  }
}

const pick = (value: JsonObject, names: ReadonlySet<string>): JsonObject =>
  Object.fromEntries(Object.entries(value).filter(([name]) => names.has(name)))
