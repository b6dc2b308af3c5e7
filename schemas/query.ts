/** Query parameters as the SDKs write them (docs/spec/http.md#conventions). */
import { fail } from './errors.js'

/** true, 1 and yes in any case; everything else is false. */
export const isTrue = (text: string | null): boolean => text !== null && /^(1|true|yes)$/i.test(text)

/** Whether a reader of a run cancels it by leaving (docs/spec/runs.md#cancel). */
export const cancelsByLeaving = (query: URLSearchParams): boolean => isTrue(query.get('cancel_on_disconnect'))

/** A boolean in any of its forms, false when it is absent or empty; throws `invalid`. */
export function readBoolean(query: URLSearchParams, name: string): boolean {
  const text = query.get(name)?.trim() ?? ''
  if (!/^(1|true|yes|0|false|no)?$/i.test(text))
    throw fail('invalid', `${name}: expected true or false, got "${text.slice(0, 80)}"`)
  return isTrue(text)
}

/** A list under any of these names, in all the forms of the SDKs: a JSON array of texts, repeated, comma-separated, plain; [] when absent. */
export function readList(query: URLSearchParams, ...names: string[]): string[] {
  const texts = names.flatMap(name => query.getAll(name))
  return texts.flatMap(text => {
    if (!text.trim().startsWith('[')) return text.split(',').flatMap(one => one.trim() || [])
    try {
      const list: unknown = JSON.parse(text)
      return Array.isArray(list) ? list.filter(one => typeof one === 'string') : []
    } catch {
      return []
    }
  })
}

/** Like `readList`; throws `invalid` when one of them is not in `known`. */
export function readNames<Name extends string>(
  query: URLSearchParams,
  name: string,
  known: readonly Name[],
): readonly Name[] {
  const names = readList(query, name)
  for (const one of names)
    if (!(known as readonly string[]).includes(one))
      throw fail('invalid', `${name}: expected ${known.join(', ')}, got "${one.slice(0, 80)}"`)
  return names as Name[]
}

/** A whole number between `min` and `max`, or `fallback` when it is absent or empty; throws `invalid`. */
export function readInteger(query: URLSearchParams, name: string, fallback: number, min: number, max: number): number {
  const text = query.get(name)?.trim() ?? ''
  if (text === '') return fallback
  const value = Number(text)
  if (!/^-?\d{1,15}$/.test(text) || value < min || value > max)
    throw fail('invalid', `${name}: expected an integer from ${min} to ${max}, got "${text.slice(0, 80)}"`)
  return value
}

/** A JSON object, or null when it is absent or empty; throws `invalid`. */
export function readObject(query: URLSearchParams, name: string): { [key: string]: unknown } | null {
  const text = query.get(name)?.trim() ?? ''
  if (text === '') return null
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    value = null
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw fail('invalid', `${name}: expected a JSON object, got "${text.slice(0, 80)}"`)
  return value as { [key: string]: unknown }
}
