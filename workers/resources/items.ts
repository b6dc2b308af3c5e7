/** Items of the store that the threads of an application share (API: assistants-crons-store 4). */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { bytesHandler, type Context, jsonHandler, type Reply } from '../../bus/serve.js'
import type { Lease } from '../../schemas/calls.js'
import { fail, WeftError } from '../../schemas/errors.js'
import {
  ANY_LABEL,
  type ItemBatch,
  type ItemOperation,
  type ItemPut,
  type ItemRef,
  type ItemSearch,
  itemFilter,
  labelsOf,
  type NamespaceSearch,
  namespaceOf,
  storable,
  validateItemBatch,
  validateItemPut,
  validateItemRef,
  validateItemSearch,
  validateNamespaceSearch,
} from '../../schemas/items.js'
import { type JsonObject, merge } from '../../schemas/json.js'
import { readBoolean } from '../../schemas/query.js'
import type { ItemRow, Step } from '../../store/port.js'
import { type Access, accessOf, seesObject, wholeApp } from './access.js'
import type { Deps } from './context.js'
import { type FoundItem, itemText } from './rows/text.js'
import { leaseOf } from './runs/lease.js'
import { embedItems, embedQuery, indexOf } from './vectors/embed.js'

const MINUTE_MS = 60_000
/** Items read in one go, and the longest work between two turns of the event loop. */
const PAGE = 500
const SLICE_MS = 5
/** Values of one answer, in characters. */
const MAX_TEXT = 64 * 1024 * 1024
/** Expired items removed in one commit. */
const REMOVED = 500

export const items = (deps: Deps) => ({
  put: jsonHandler<ItemPut>(validateItemPut, async (body, { head }) => {
    await putItem(deps, accessOf(head, 'store:put'), body)
    return { head: { status: 204 } }
  }),
  get: bytesHandler((_, { head }) => get(deps, head)),
  delete: jsonHandler<ItemRef>(validateItemRef, async (body, { head }) => {
    await removeItem(deps, accessOf(head, 'store:delete'), body)
    return { head: { status: 204 } }
  }),
  batch: jsonHandler<ItemBatch>(validateItemBatch, (body, { head }) => batch(deps, leaseOf(head.lease), body)),
  search: jsonHandler<ItemSearch>(validateItemSearch, async (body, { head }) => {
    const found = await searchItems(deps, accessOf(head, 'store:search'), body)
    return { body: `{"items":[${found.map(itemText).join()}]}` }
  }),
  namespaces: jsonHandler<NamespaceSearch>(validateNamespaceSearch, async (body, { head }) => ({
    body: JSON.stringify({ namespaces: await listNamespaces(deps, accessOf(head, 'store:list_namespaces'), body) }),
  })),
})

/** The operations of a run, in order; puts in a row are one write. Throws `fenced` for an attempt that lost its run. */
async function batch(deps: Deps, { run_id, attempt, token }: Lease, { operations }: ItemBatch): Promise<Reply> {
  const [run] = await deps.store.runs.summary([run_id])
  if (run === undefined || run.attempt !== attempt || run.token !== token) throw fail('fenced')
  const { app } = run
  const puts = operations.filter(operation => operation.op === 'put')
  const vectors = await embedAll(deps, app, puts)
  const answers: string[] = []
  let writes: Step[] = []
  const flush = async () => {
    const steps = writes
    writes = []
    if (steps.length > 0) await deps.store.apply(steps)
    for (const step of steps) if (step.step === 'items.put') deps.rankings.note(app, step.row)
  }
  for (const operation of operations)
    try {
      if (operation.op === 'put' || operation.op === 'delete') {
        writes.push(
          operation.op === 'put' ? await putStep(deps, app, operation, vectors(operation)) : removeStep(app, operation),
        )
        answers.push('null')
        continue
      }
      await flush()
      answers.push(await answerText(deps, app, operation))
    } catch (error) {
      // An operation that breaks the rules is no failure of those beside it.
      if (!(error instanceof WeftError) || error.code !== 'invalid') throw error
      answers.push(JSON.stringify({ error: error.message }))
    }
  await flush()
  return { body: `[${answers.join()}]` }
}

/** The vectors of each put; those of one whose texts cannot be embedded are thrown when they are read. */
async function embedAll(deps: Deps, app: string, puts: readonly ItemPut[]): Promise<(put: ItemPut) => Uint8Array> {
  const made = new Map<ItemPut, Uint8Array | WeftError>()
  const set = (some: readonly ItemPut[], vectors: readonly Uint8Array[]) => {
    for (const [i, put] of some.entries()) made.set(put, vectors[i]!)
  }
  const all = await embedItems(deps, app, puts).catch(error => asRefusal(error))
  if (Array.isArray(all)) set(puts, all)
  // One of them breaks a rule: each for itself.
  else
    for (const put of puts) {
      const own = await embedItems(deps, app, [put]).catch(error => asRefusal(error))
      if (Array.isArray(own)) set([put], own)
      else made.set(put, own)
    }
  return put => {
    const found = made.get(put)!
    if (found instanceof WeftError) throw found
    return found
  }
}

/** An operation that breaks the rules is refused; any other error concerns all of them. */
function asRefusal(error: unknown): WeftError {
  if (error instanceof WeftError && error.code === 'invalid') return error
  throw error
}

async function answerText(
  deps: Deps,
  app: string,
  operation: Exclude<ItemOperation, { op: 'put' | 'delete' }>,
): Promise<string> {
  if (operation.op === 'search') return `[${(await searchItems(deps, wholeApp(app), operation)).map(itemText).join()}]`
  if (operation.op === 'namespaces') return JSON.stringify(await listNamespaces(deps, wholeApp(app), operation))
  const row = await getItem(deps, wholeApp(app), operation, null)
  return row === null ? 'null' : itemText(row)
}

const removeStep = (app: string, { namespace, key }: ItemRef): Extract<Step, { step: 'items.remove' }> => ({
  step: 'items.remove',
  app,
  namespace: namespaceOf(namespace, 'read'),
  key: storable(key),
})

/**
 * Stores the item durably. Throws `invalid` for a namespace that breaks the rules, and as API: assistants-crons-store 6.6
 * `not_found` for an item that is not visible, `forbidden` for one that would not be.
 */
export async function putItem(deps: Deps, access: Access, body: ItemPut): Promise<void> {
  const [vectors] = await embedItems(deps, access.app, [body])
  const step = await putStep(deps, access.app, body, vectors!)
  if (access.filter === null) await deps.store.apply([step])
  else
    await alone(deps, step.row, async stored => {
      if (stored !== null && !seesItem(access, stored)) throw fail('not_found', NO_ITEM)
      if (!seesItem(access, step.row)) throw fail('forbidden', NOT_YOURS)
      await deps.store.apply([step])
    })
  deps.rankings.note(access.app, step.row)
}

/** As `putItem`; an item that does not exist is removed only where one with this key would be visible. */
async function removeItem(deps: Deps, access: Access, body: ItemRef): Promise<void> {
  const step = removeStep(access.app, body)
  if (access.filter === null) return void (await deps.store.apply([step]))
  await alone(deps, step, async stored => {
    if (stored !== null && !seesItem(access, stored)) throw fail('not_found', NO_ITEM)
    if (stored === null && !seesObject(access, { namespace: step.namespace, key: step.key }))
      throw fail('forbidden', NOT_YOURS)
    await deps.store.apply([step])
  })
}

const NO_ITEM = 'Item not found'
const NOT_YOURS = 'Not authorized'

/** Filters see the members of the value, and the namespace and the key in their place (API: assistants-crons-store 6.6). */
const seesItem = (access: Access, { value, namespace, key }: Pick<ItemRow, 'value' | 'namespace' | 'key'>): boolean =>
  access.filter === null || seesObject(access, merge(JSON.parse(value), { namespace, key }))

/** Work on one item, after all work on it that this worker began before. */
const alone = (
  { store, serialize }: Deps,
  { app, namespace, key }: Pick<ItemRow, 'app' | 'namespace' | 'key'>,
  work: (stored: ItemRow | null) => Promise<void>,
): Promise<void> =>
  serialize(JSON.stringify([app, namespace, key]), async () =>
    work(await store.items.get(app, { namespace, key }, Date.now())),
  )

async function putStep(
  { itemTtls }: Deps,
  app: string,
  body: ItemPut,
  vectors: Uint8Array,
): Promise<Extract<Step, { step: 'items.put' }>> {
  const now = Date.now()
  const ttl = body.ttl === undefined ? ((await defaultsOf(itemTtls, app)).default_ttl ?? null) : body.ttl
  const row: ItemRow = {
    app,
    namespace: namespaceOf(body.namespace, 'write'),
    key: storable(body.key),
    value: JSON.stringify(body.value),
    created_at: now,
    updated_at: now,
    ttl,
    expires_at: expiryOf(ttl, now),
  }
  return { step: 'items.put', row, vectors }
}

async function get(deps: Deps, head: Context['head']): Promise<Reply> {
  const query = new URLSearchParams(head.query)
  const key = query.get('key') ?? ''
  if (key === '') throw fail('invalid', 'key: expected a text that is not empty')
  const refresh = query.get('refresh_ttl')?.trim() ? readBoolean(query, 'refresh_ttl') : null
  const row = await getItem(deps, accessOf(head, 'store:get'), { namespace: namespacesIn(query), key }, refresh)
  return { body: row === null ? 'null' : itemText(row) }
}

/** One text with dots, as the SDKs send it, or the parameter repeated. */
const namespacesIn = (query: URLSearchParams): string[] =>
  query.getAll('namespace').flatMap(text => (text === '' ? [] : text.split('.')))

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
  const row = await deps.store.items.get(app, { namespace, key: storable(item.key) }, Date.now())
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
  const page = matches === null && access.filter === null ? Math.min(from + limit, PAGE) : PAGE
  const index = body.query ? await indexOf(deps, app) : null
  const rows =
    index === null
      ? listed(deps, app, prefix, page)
      : similar(deps, app, prefix, await embedQuery(deps, index, body.query!))
  for await (const row of rows) {
    if (matches !== null && !matches(JSON.parse(row.value) as JsonObject)) continue
    if (!seesItem(access, row)) continue
    if (skipped++ < from) continue
    size += row.value.length
    if (size > MAX_TEXT) throw fail('too_large', `These items exceed ${MAX_TEXT} characters; ask for fewer with limit`)
    if (found.push(row) === limit) break
  }
  await touch(deps, app, found, body.refresh_ttl ?? null)
  return found
}

/** All items at or below the prefix, most similar first, then those without vectors. */
async function* similar(deps: Deps, app: string, prefix: string[], query: Float32Array): AsyncGenerator<FoundItem> {
  const ranked = new Set<string>()
  const idOf = ({ namespace, key }: ItemRow) => JSON.stringify([namespace, key])
  for await (const { row, score } of deps.rankings.search(app, query, prefix)) {
    ranked.add(idOf(row))
    yield { ...row, score }
  }
  for await (const row of listed(deps, app, prefix, PAGE)) if (!ranked.has(idOf(row))) yield { ...row, score: null }
}

/** All items at or below the prefix, a page at a time; gives other calls a turn while it goes on. */
async function* listed({ store }: Deps, app: string, prefix: string[], limit: number): AsyncGenerator<ItemRow> {
  const now = Date.now()
  let slice = performance.now()
  for (let after: ItemRow | undefined; ; ) {
    const page = await store.items.list({ app, prefix, now, limit, ...(after === undefined ? {} : { after }) })
    for (const row of page) {
      if (performance.now() - slice > SLICE_MS) {
        await nextTurn()
        slice = performance.now()
      }
      yield row
    }
    if (page.length < limit) return
    after = page.at(-1)
  }
}

/** Namespaces that hold an item, in the order of their labels; `max_depth` shortens them before repeats are dropped. */
export async function listNamespaces({ store }: Deps, access: Access, body: NamespaceSearch): Promise<string[][]> {
  const { app } = access
  const prefix = labelsOf('prefix', body.prefix ?? [])
  const suffix = labelsOf('suffix', body.suffix ?? [])
  const wildcard = prefix.indexOf(ANY_LABEL)
  const query = { app, prefix: wildcard === -1 ? prefix : prefix.slice(0, wildcard), now: Date.now(), limit: 1_000 }
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
  { store, itemTtls }: Deps,
  app: string,
  rows: readonly ItemRow[],
  refresh: boolean | null,
): Promise<void> {
  const limited = rows.filter(({ ttl }) => ttl !== null)
  if (limited.length === 0) return
  if (!(refresh ?? (await defaultsOf(itemTtls, app)).refresh_on_read ?? true)) return
  const now = Date.now()
  await store.apply([
    { step: 'items.touch', app, items: limited.map(row => ({ ...row, expires_at: expiryOf(row.ttl, now)! })) },
  ])
}

const expiryOf = (ttl: number | null, now: number): number | null =>
  ttl === null ? null : now + Math.ceil(ttl * MINUTE_MS)

const defaultsOf = async (itemTtls: Deps['itemTtls'], app: string) => (await itemTtls.of(app))[0] ?? {}

/** Removes what has expired; until then it is not answered either. */
export async function sweepItems({ store }: Deps): Promise<void> {
  const now = Date.now()
  for (;;) {
    const expired = await store.items.expired(now, REMOVED)
    if (expired.length === 0) return
    await store.apply(expired.map(item => ({ step: 'items.remove' as const, ...item, expired_at: now })))
  }
}
