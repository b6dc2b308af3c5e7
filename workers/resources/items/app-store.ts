/**
 * Items of an application that brings a store of its own (`store.path` of langgraph.json). Its code runs in the app host of
 * a graph worker of the application; this asks that worker, and applies the filters of authorization to what it answers.
 */
import { checkAs, decodeJson } from '../../../bus/decode.js'
import { fail } from '../../../schemas/errors.js'
import { jsonText } from '../../../schemas/exact.js'
import { token } from '../../../schemas/ids.js'
import {
  type Item,
  type ItemOperation,
  type ItemPut,
  type ItemRef,
  type ItemSearch,
  itemKey,
  labelsOf,
  type NamespaceSearch,
  namespaceOf,
  type StoreAnswer,
  validateStoreAnswers,
} from '../../../schemas/items/items.js'
import { merge } from '../../../schemas/json.js'
import { host } from '../../../schemas/subjects.js'
import { type Access, seesObject } from '../access.js'
import type { Deps } from '../context.js'
import { activeSettings } from '../rows/app-settings.js'
import { NO_ITEM, NOT_YOURS } from './rules.js'

/** A database that is called over a network takes its time. */
const ITEMS_MS = 30_000
/** A graph worker that gives no sign for this time is not the one that answers. */
const SILENCE_MS = 2_000
/** Items of one question, when a filter of authorization decides which of them count. */
const PAGE = 200

/** The operations of routes on the store of an application. Each throws as its counterpart in `read.ts` and `write.ts`. */
export interface AppStore {
  /** The operations of a run, which no filter concerns, in order. Each may be refused by itself. */
  carryOut(operations: readonly ItemOperation[]): Promise<StoreAnswer[]>
  put(access: Access, body: ItemPut): Promise<void>
  get(access: Access, item: { namespace: string[]; key: string }, refresh: boolean | null): Promise<Item | null>
  remove(access: Access, body: ItemRef): Promise<void>
  search(access: Access, body: ItemSearch): Promise<Item[]>
  namespaces(access: Access, body: NamespaceSearch): Promise<string[][]>
}

/** Null: the revision that serves now has no store of its own. */
export async function appStoreOf(deps: Pick<Deps, 'apps' | 'caller' | 'settings'>, app: string) {
  const found = await activeSettings(deps, 'app_store', app)
  return found === null ? null : openAppStore(deps, found.pool)
}

function openAppStore({ caller }: Pick<Deps, 'caller'>, pool: string): AppStore {
  async function carryOut(operations: readonly ItemOperation[]): Promise<StoreAnswer[]> {
    const body = Buffer.from(jsonText({ operations }))
    const repeat = operations.every(({ op }) => op !== 'put' && op !== 'delete')
    const options = { timeout: ITEMS_MS, silence: SILENCE_MS, repeat }
    const answer = await caller.ask(host(token('pool', pool), 'items'), { request_id: '' }, body, options)
    const answers = answersIn(answer.body)
    if (answers?.length !== operations.length) throw fail('internal', OTHER_ANSWER)
    return answers
  }

  /** One operation, with the answer of its kind. */
  async function ask<Answer extends StoreAnswer>(operation: ItemOperation): Promise<Answer> {
    const [answer] = await carryOut([operation])
    if (answer !== null && 'error' in answer!) throw fail(answer.code, `The store of the application: ${answer.error}`)
    return answer as Answer
  }

  const sees = (access: Access, { value, namespace, key }: Pick<Item, 'value' | 'namespace' | 'key'>) =>
    seesObject(access, merge(value, { namespace, key }))

  /** The stored item, if the caller may see it. */
  async function visible(access: Access, { namespace, key }: { namespace: string[]; key: string }) {
    if (access.filter === null) return null
    const stored = await ask<Item | null>({ op: 'get', namespace, key })
    if (stored !== null && !sees(access, stored)) throw fail('not_found', NO_ITEM)
    return stored
  }

  /** The rows that the caller may see, of all that the store has: it knows nothing of filters of authorization. */
  async function paged<Row>(
    read: (limit: number, offset: number) => Promise<Row[]>,
    isVisible: (row: Row) => boolean,
    { limit, offset }: { limit: number; offset: number },
  ): Promise<Row[]> {
    const found: Row[] = []
    // A store that knows no offset answers the same page again and again.
    for (let from = 0; found.length < offset + limit && from < MOST; from += PAGE) {
      const page = await read(PAGE, from)
      found.push(...page.filter(isVisible))
      if (page.length < PAGE) break
    }
    return found.slice(offset, offset + limit)
  }

  return {
    carryOut,
    async put(access, body) {
      const item = { ...body, namespace: namespaceOf(body.namespace, 'write'), key: itemKey(body.key) }
      const stored = await visible(access, item)
      if (!sees(access, item)) throw stored === null ? fail('forbidden', NOT_YOURS) : fail('not_found', NO_ITEM)
      await ask({ op: 'put', ...item })
    },
    async get(access, { namespace, key }, refresh_ttl) {
      const place = { namespace: namespaceOf(namespace, 'read'), key: itemKey(key) }
      const found = await ask<Item | null>({ op: 'get', ...place, ...(refresh_ttl === null ? {} : { refresh_ttl }) })
      if (found !== null && !sees(access, found)) throw fail('not_found', NO_ITEM)
      return found
    },
    async remove(access, body) {
      const place = { namespace: namespaceOf(body.namespace, 'read'), key: itemKey(body.key) }
      const stored = await visible(access, place)
      if (stored === null && !seesObject(access, place)) throw fail('forbidden', NOT_YOURS)
      await ask({ op: 'delete', ...place })
    },
    async search(access, body) {
      const search = { ...body, namespace_prefix: labelsOf('namespace_prefix', body.namespace_prefix ?? []) }
      if (access.filter === null) return ask<Item[]>({ op: 'search', ...search })
      const read = (limit: number, offset: number) => ask<Item[]>({ op: 'search', ...search, limit, offset })
      return paged(read, item => sees(access, item), { limit: body.limit ?? 10, offset: body.offset ?? 0 })
    },
    async namespaces(access, body) {
      const [prefix, suffix] = [labelsOf('prefix', body.prefix ?? []), labelsOf('suffix', body.suffix ?? [])]
      const search = { ...body, prefix, suffix }
      if (access.filter === null) return ask<string[][]>({ op: 'namespaces', ...search })
      // By whole namespaces: a shortened one would not be what a filter names.
      const whole = { ...search, max_depth: null }
      const read = (limit: number, offset: number) => ask<string[][]>({ op: 'namespaces', ...whole, limit, offset })
      const all = await paged(read, namespace => seesObject(access, { namespace }), { limit: MOST, offset: 0 })
      const shown = new Map(
        all.map(labels => labels.slice(0, body.max_depth ?? labels.length)).map(one => [one.join('.'), one]),
      )
      const from = body.offset ?? 0
      return [...shown.values()].slice(from, from + (body.limit ?? 100))
    },
  }
}

/** Null for what is no list of answers: the code of an application may send anything. */
function answersIn(body: Uint8Array): StoreAnswer[] | null {
  try {
    return checkAs(decodeJson(body, { quote: false, most: MAX_ANSWER_VALUES }), validateStoreAnswers)
  } catch {
    return null
  }
}

/** Members and elements of one answer. */
const MAX_ANSWER_VALUES = 2_000_000
/** Rows that are read to find those that a caller may see. */
const MOST = 100_000
const OTHER_ANSWER = 'The store of the application did not answer what it was asked'
