/** Items of the store that the threads of an application share (docs/spec/items.md): their calls. */
import { bytesHandler, type Context, jsonHandler, type Reply } from '../../../bus/serve.js'
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
import { getItem, listNamespaces, searchItems } from './read.js'
import { putItem, removeItem } from './write.js'

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
  search: jsonHandler<ItemSearch>(validateItemSearch, async (body, { head }) => {
    const found = await searchItems(deps, accessOf(head, 'store:search'), body)
    return { body: `{"items":[${found.map(itemText).join()}]}` }
  }),
  namespaces: jsonHandler<NamespaceSearch>(validateNamespaceSearch, async (body, { head }) => ({
    body: JSON.stringify({ namespaces: await listNamespaces(deps, accessOf(head, 'store:list_namespaces'), body) }),
  })),
})

async function get(deps: Deps, head: Context['head']): Promise<Reply> {
  const query = new URLSearchParams(head.query)
  const key = query.get('key') ?? ''
  const refresh = query.get('refresh_ttl')?.trim() ? readBoolean(query, 'refresh_ttl') : null
  const row = await getItem(deps, accessOf(head, 'store:get'), { namespace: namespacesIn(query), key }, refresh)
  return { body: row === null ? 'null' : itemText(row) }
}

/** One text with dots, as the SDKs send it, or the parameter repeated. */
const namespacesIn = (query: URLSearchParams): string[] =>
  query.getAll('namespace').flatMap(text => (text === '' ? [] : text.split('.')))
