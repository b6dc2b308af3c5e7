/** Rules that reads and writes of items share: which items a caller sees, and how long items live. */
import { parseJson } from '../../../schemas/exact.js'
import { merge } from '../../../schemas/json.js'
import type { ItemRow } from '../../../store/rows/items.js'
import { type Access, seesObject } from '../access.js'
import type { AppSettings } from '../rows/app-settings.js'

const MINUTE_MS = 60_000
export const NO_ITEM = 'Item not found'
export const NOT_YOURS = 'Not authorized'

/**
 * Filters see the members of the value, and the namespace and the key in their place
 * (docs/spec/auth.md#filters-on-items).
 */
export const seesItem = (
  access: Access,
  { value, namespace, key }: Pick<ItemRow, 'value' | 'namespace' | 'key'>,
): boolean => access.filter === null || seesObject(access, merge(parseJson(value), { namespace, key }))

export const expiryOf = (ttl: number | null, now: number): number | null =>
  ttl === null ? null : now + Math.ceil(ttl * MINUTE_MS)

/** `store.ttl` of the application. */
export const defaultsOf = async (settings: AppSettings, app: string) => (await settings.of('item_ttl', app))[0] ?? {}
