/** JSON values as types, and the small functions that every folder needs for them. */
import type { tags } from 'typia'

/** Own keys of all objects, later ones win. `__proto__` stays data. */
export function merge(...objects: (object | null | undefined)[]): { [key: string]: unknown } {
  const out: { [key: string]: unknown } = {}
  for (const object of objects) {
    if (object === null || object === undefined) continue
    if (!Object.hasOwn(object, '__proto__')) Object.assign(out, object)
    else
      for (const [key, value] of Object.entries(object))
        Object.defineProperty(out, key, { value, enumerable: true, writable: true, configurable: true })
  }
  return out
}

export const isObject = (value: unknown): value is { [key: string]: unknown } =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export const time = (ms: number): string => new Date(ms).toISOString()

export type Json = unknown

export type JsonObject = { [key: string]: Json }

export type Uuid = string & tags.Format<'uuid'>

export interface Config {
  tags?: string[] | null
  recursion_limit?: number | null
  configurable?: JsonObject | null
  [key: string]: Json
}
