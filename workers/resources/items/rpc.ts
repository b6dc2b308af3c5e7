/** Items of the store that the threads of an application share (docs/spec/items.md): their calls. */
import { bytesHandler, type Context, jsonHandler, type Reply } from '../../../bus/serve.js'
import { jsonText } from '../../../schemas/exact.js'
import {
  type ItemPut,
  type ItemRef,
  type ItemSearch,
  type NamespaceSearch,
  validateItemPut,
  validateItemRef,
  validateItemSearch,
  validateNamespaceSearch,
} from '../../../schemas/items/items.js'
import { readBoolean } from '../../../schemas/query.js'
import { accessOf } from '../access.js'
import type { Deps } from '../context.js'
import { itemText } from '../rows/text.js'
import { appStoreOf } from './app-store.js'
import { getItem, listNamespaces, searchItems } from './read.js'
import { putItem, removeItem } from './write.js'

export const items = (deps: Deps) => ({
  put: jsonHandler<ItemPut>(validateItemPut, async (body, { head }) => {
    const access = accessOf(head, 'store:put')
    const own = await appStoreOf(deps, access.app)
    await (own === null ? putItem(deps, access, body) : own.put(access, body))
    return { head: { status: 204 } }
  }),
  get: bytesHandler((_, { head }) => get(deps, head)),
  delete: jsonHandler<ItemRef>(validateItemRef, async (body, { head }) => {
    const access = accessOf(head, 'store:delete')
    const own = await appStoreOf(deps, access.app)
    await (own === null ? removeItem(deps, access, body) : own.remove(access, body))
    return { head: { status: 204 } }
  }),
  search: jsonHandler<ItemSearch>(validateItemSearch, async (body, { head }) => {
    const access = accessOf(head, 'store:search')
    const own = await appStoreOf(deps, access.app)
    if (own !== null) return { body: jsonText({ items: await own.search(access, body) }) }
    const found = await searchItems(deps, access, body)
    return { body: `{"items":[${found.map(itemText).join()}]}` }
  }),
  namespaces: jsonHandler<NamespaceSearch>(validateNamespaceSearch, async (body, { head }) => {
    const access = accessOf(head, 'store:list_namespaces')
    const own = await appStoreOf(deps, access.app)
    const namespaces = await (own === null ? listNamespaces(deps, access, body) : own.namespaces(access, body))
    return { body: JSON.stringify({ namespaces }) }
  }),
})

async function get(deps: Deps, head: Context['head']): Promise<Reply> {
  const query = new URLSearchParams(head.query)
  const key = query.get('key') ?? ''
  const refresh = query.get('refresh_ttl')?.trim() ? readBoolean(query, 'refresh_ttl') : null
  const access = accessOf(head, 'store:get')
  const item = { namespace: namespacesIn(query), key }
  const own = await appStoreOf(deps, access.app)
  if (own !== null) return { body: jsonText(await own.get(access, item, refresh)) }
  const row = await getItem(deps, access, item, refresh)
  return { body: row === null ? 'null' : itemText(row) }
}

/** One text with dots, as the SDKs send it, or the parameter repeated. */
const namespacesIn = (query: URLSearchParams): string[] =>
  query.getAll('namespace').flatMap(text => (text === '' ? [] : text.split('.')))
