/** Reads of items: one, a search by filter or by meaning, and the namespaces. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { fail } from '../../../schemas/errors.js'
import { jsonText, parseJson } from '../../../schemas/exact.js'
import {
  ANY_LABEL,
  type ItemSearch,
  itemFilter,
  itemKey,
  labelsOf,
  type NamespaceSearch,
  namespaceOf,
} from '../../../schemas/items/items.js'
import { itemConditions, type KeyCondition } from '../../../schemas/items/keys.js'
import type { JsonObject } from '../../../schemas/json.js'
import type { ItemRow } from '../../../store/rows/items.js'
import { type Access, seesObject } from '../access.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import type { FoundItem } from '../rows/text.js'
import { embedQuery, indexOf } from '../vectors/embed.js'
import { defaultsOf, expiryOf, NO_ITEM, seesItem } from './rules.js'

/** Items read in one go, and the longest work between two turns of the event loop. */
const PAGE = 500
const SLICE_MS = 5
/** Values of one answer, in characters. */
const MAX_TEXT = 64 * 1024 * 1024

/**
 * Null when there is none. `refresh`: whether its time starts anew; null = as the application says. Throws `not_found` for
 * an item that is not visible.
 */
export async function getItem(
  deps: Deps,
  access: Access,
  item: { namespace: string[]; key: string },
  refresh: boolean | null,
): Promise<ItemRow | null> {
  const { app } = access
  const namespace = namespaceOf(item.namespace, 'read')
  const row = await deps.store.items.get(app, { namespace, key: itemKey(item.key) }, clock.now())
  if (row !== null && !seesItem(access, row)) throw fail('not_found', NO_ITEM)
  if (row !== null) await touch(deps, app, [row], refresh)
  return row
}

/**
 * Most recently written first; with a query, in an application with an index, most similar first, then those without
 * vectors. `filter` and prefix decide before offset and limit.
 */
export async function searchItems(deps: Deps, access: Access, body: ItemSearch): Promise<FoundItem[]> {
  const { app } = access
  const prefix = labelsOf('namespace_prefix', body.namespace_prefix ?? [])
  const matches = body.filter && Object.keys(body.filter).length > 0 ? itemFilter(body.filter) : null
  const from = body.offset ?? 0
  const limit = body.limit ?? 10
  const found: FoundItem[] = []
  let skipped = 0
  let size = 0
  const conditions = conditionsOf(body.filter, access)
  const isKeyed = conditions.length > 0 || (matches === null && access.filter === null)
  const page = isKeyed ? Math.min(from + limit, PAGE) : PAGE
  const index = body.query ? await indexOf(deps, app) : null
  const rows =
    index === null
      ? listed(deps, app, prefix, page, conditions)
      : similar(deps, app, prefix, await embedQuery(deps, index, body.query!))
  for await (const row of rows) {
    if (matches !== null && !matches(parseJson(row.value) as JsonObject)) continue
    if (!seesItem(access, row)) continue
    if (skipped++ < from) continue
    size += row.value.length
    if (size > MAX_TEXT) throw fail('too_large', `These items exceed ${MAX_TEXT} characters; ask for fewer with limit`)
    if (found.push(row) === limit) break
  }
  await touch(deps, app, found, body.refresh_ttl ?? null)
  return found
}

/** Conditions that an item must meet. Authorization may also filter by the namespace and the key, which are no members of the value. */
function conditionsOf(filter: JsonObject | null | undefined, { members }: Access): KeyCondition[] {
  const { namespace: _, key: _key, ...own } = members
  return [...itemConditions(filter ?? {}), ...itemConditions(own)]
}

/** All items at or below the prefix, most similar first, then those without vectors. */
async function* similar(deps: Deps, app: string, prefix: string[], query: Float32Array): AsyncGenerator<FoundItem> {
  const ranked = new Set<string>()
  const idOf = ({ namespace, key }: ItemRow) => jsonText([namespace, key])
  for await (const { row, score } of deps.rankings.search(app, query, prefix)) {
    ranked.add(idOf(row))
    yield { ...row, score }
  }
  for await (const row of listed(deps, app, prefix, PAGE)) if (!ranked.has(idOf(row))) yield { ...row, score: null }
}

/** All items at or below the prefix, in pages that grow from `first` on; lets other calls run in between. */
async function* listed(
  { store }: Deps,
  app: string,
  prefix: string[],
  first: number,
  conditions: readonly KeyCondition[] = [],
): AsyncGenerator<ItemRow> {
  const now = clock.now()
  let limit = first
  let slice = performance.now()
  for (let after: ItemRow | undefined; ; ) {
    const page = await store.items.list({
      app,
      prefix,
      now,
      limit,
      conditions,
      ...(after === undefined ? {} : { after }),
    })
    for (const row of page) {
      if (performance.now() - slice > SLICE_MS) {
        await nextTurn()
        slice = performance.now()
      }
      yield row
    }
    if (page.length < limit) return
    after = page.at(-1)
    limit = Math.min(limit * 2, PAGE)
  }
}

/** Namespaces that hold an item, in the order of their labels; `max_depth` shortens them before repeats are dropped. */
export async function listNamespaces({ store }: Deps, access: Access, body: NamespaceSearch): Promise<string[][]> {
  const { app } = access
  const prefix = labelsOf('prefix', body.prefix ?? [])
  const suffix = labelsOf('suffix', body.suffix ?? [])
  const wildcard = prefix.indexOf(ANY_LABEL)
  const query = { app, prefix: wildcard === -1 ? prefix : prefix.slice(0, wildcard), now: clock.now(), limit: 1_000 }
  const found = new Map<string, string[]>()
  for (let after: string[] | undefined; ; ) {
    const page = await store.items.namespaces({ ...query, ...(after === undefined ? {} : { after }) })
    for (const labels of page) {
      if (!labelsMatch(prefix, labels, 0) || !labelsMatch(suffix, labels, labels.length - suffix.length)) continue
      if (!seesObject(access, { namespace: labels })) continue
      const shown = labels.slice(0, body.max_depth ?? labels.length)
      found.set(shown.join('.'), shown)
    }
    if (page.length < query.limit) break
    after = page.at(-1)
  }
  const offset = body.offset ?? 0
  return [...found.values()].sort(byLabels).slice(offset, offset + (body.limit ?? 100))
}

/** Whether the labels from `at` on are the wanted ones, of which `*` is any label. */
const labelsMatch = (wanted: readonly string[], labels: readonly string[], at: number): boolean =>
  at >= 0 && wanted.every((label, i) => at + i < labels.length && (label === ANY_LABEL || label === labels[at + i]))

function byLabels(a: readonly string[], b: readonly string[]): number {
  for (let i = 0; i < a.length && i < b.length; i++) if (a[i] !== b[i]) return a[i]! < b[i]! ? -1 : 1
  return a.length - b.length
}

/** Starts the time of what was read anew, unless the request or the application says otherwise; no write otherwise. */
async function touch(
  { store, settings }: Deps,
  app: string,
  rows: readonly ItemRow[],
  refresh: boolean | null,
): Promise<void> {
  const limited = rows.filter(({ ttl }) => ttl !== null)
  if (limited.length === 0) return
  if (!(refresh ?? (await defaultsOf(settings, app)).refresh_on_read ?? true)) return
  const now = clock.now()
  await store.apply([
    { step: 'items.touch', app, items: limited.map(row => ({ ...row, expires_at: expiryOf(row.ttl, now)! })) },
  ])
}
