/**
 * `store.path` of langgraph.json: a store that the application brings, for `/store` and the graphs of both languages. Its
 * export is a BaseStore of `@langchain/langgraph`, a promise of one, or a function that returns one of these.
 */
import type { Item as AnsweredItem, ItemBatch, ItemOperation, StoreAnswer } from '../../../schemas/items/items.js'
import type { JsonObject } from '../../../schemas/json.js'
import { render } from '../render.js'

/** Answers an ItemBatch, both as JSON. Never rejects for an operation that fails. */
export interface OpenStore {
  answer(batch: Uint8Array): Promise<Uint8Array>
  close(): Promise<void>
}

/** The methods of the library's BaseStore. */
interface BaseStore {
  get(namespace: string[], key: string): Promise<StoredItem | null | undefined>
  put(namespace: string[], key: string, value: JsonObject, index?: false | string[]): Promise<void>
  delete(namespace: string[], key: string): Promise<void>
  search(prefix: string[], options: object): Promise<StoredItem[]>
  listNamespaces(options: object): Promise<string[][]>
  start?(): unknown
  stop?(): unknown
}

interface StoredItem {
  namespace: string[]
  key: string
  value: JsonObject
  createdAt: Date | string
  updatedAt: Date | string
  score?: number
}

/** The store cannot do what the operation asks for. */
class RefusedOperation extends Error {}

const METHODS = ['get', 'put', 'delete', 'search', 'listNamespaces'] as const
const decoder = new TextDecoder()
const encoder = new TextEncoder()

/** Throws an Error with one sentence for an export that is no store. */
export async function openStore(exported: unknown, path: string): Promise<OpenStore> {
  const store = await (typeof exported === 'function' ? (exported as () => unknown)() : exported)
  if (!isStore(store))
    throw new Error(
      `store.path: ${path} is no store; expected a BaseStore of @langchain/langgraph, or a function that returns one.`,
    )
  await store.start?.()
  return {
    async answer(batch) {
      const { operations } = JSON.parse(decoder.decode(batch)) as ItemBatch
      const answers: StoreAnswer[] = []
      // In order: a read returns what an operation before it has written.
      for (const operation of operations) answers.push(await answerOf(store, operation))
      return encoder.encode(render(answers))
    },
    close: async () => void (await store.stop?.()),
  }
}

const isStore = (value: unknown): value is BaseStore =>
  typeof value === 'object' &&
  value !== null &&
  METHODS.every(name => typeof (value as JsonObject)[name] === 'function')

async function answerOf(store: BaseStore, operation: ItemOperation): Promise<StoreAnswer> {
  try {
    return await carryOut(store, operation)
  } catch (error) {
    const { name, message } = error instanceof Error ? error : { name: 'Error', message: String(error) }
    const isRefusal = error instanceof RefusedOperation || name === 'InvalidNamespaceError'
    if (!isRefusal) console.error(`The store of the application failed to ${operation.op}:`, error)
    return { error: message.slice(0, 500), code: isRefusal ? 'invalid' : 'internal' }
  }
}

async function carryOut(store: BaseStore, operation: ItemOperation): Promise<StoreAnswer> {
  switch (operation.op) {
    case 'get': {
      const found = await store.get(operation.namespace, operation.key)
      return found == null ? null : itemOf(found)
    }
    case 'put': {
      const { namespace, key, value, index, ttl } = operation
      if (ttl != null) throw new RefusedOperation('ttl: the store of the application cannot limit how long items live')
      await store.put(namespace, key, value, index ?? undefined)
      return null
    }
    case 'delete':
      await store.delete(operation.namespace ?? [], operation.key)
      return null
    case 'search': {
      const { namespace_prefix, filter, query, limit, offset } = operation
      const found = await store.search(namespace_prefix ?? [], given({ filter, query, limit, offset }))
      return found.map(item => ({ ...itemOf(item), score: item.score ?? null }))
    }
    case 'namespaces': {
      const { prefix, suffix, max_depth, limit, offset } = operation
      return store.listNamespaces(given({ prefix, suffix, maxDepth: max_depth, limit, offset }))
    }
  }
}

/** The library has defaults for members that are absent. */
const given = (options: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(options).filter(([, value]) => value != null))

const itemOf = ({ namespace, key, value, createdAt, updatedAt }: StoredItem): AnsweredItem => ({
  namespace,
  key,
  value,
  created_at: timeOf(createdAt),
  updated_at: timeOf(updatedAt),
})

const timeOf = (time: Date | string): string => new Date(time).toISOString()
