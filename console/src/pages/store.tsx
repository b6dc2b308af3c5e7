/** The item store: the tree of its namespaces, the items below one, found by meaning, by words and by their members. */
import { useDeferredValue, useState } from 'react'
import { client } from '../api/client'
import { useLoad } from '../api/load'
import { Button } from '../ui/button'
import { Json } from '../ui/json'
import { Empty, LoadedView, Trouble } from '../ui/notice'
import { Page } from '../ui/page'
import { Pager } from '../ui/pager'
import { Ago } from '../ui/time'
import { useFilters } from '../ui/use-filters'
import { useSending } from '../ui/use-sending'
import { filterIn, type Item, wordsIn } from './store/filter'
import { PutItem } from './store/form'
import { NamespaceTree } from './store/tree'
import '../styles/store.css'

const LIMIT = 50
const NAMESPACES = 1_000

export default function ItemStore() {
  const [{ in: path = '', q = '', filter: filterText = '', from = '0' }, setFilters] = useFilters()
  const namespace = path === '' ? [] : path.split('/').map(decodeURIComponent)
  const offset = Number(from) || 0
  const asked = useDeferredValue(q.trim())
  const filter = filterIn(useDeferredValue(filterText.trim()))
  // An item, or "new".
  const [edited, setEdited] = useState<Item | 'new' | null>(null)
  const namespaces = useLoad('namespaces', () => client.store.listNamespaces({ limit: NAMESPACES }))
  const items = useLoad(`items ${path} ${asked} ${JSON.stringify(filter)} ${offset}`, () =>
    client.store.searchItems(namespace, {
      limit: LIMIT,
      offset,
      ...(asked === '' ? {} : { query: asked }),
      ...(filter === null ? {} : { filter }),
    }),
  )
  const reload = () => {
    namespaces.reload()
    items.reload()
  }
  const { error, send } = useSending(reload)
  return (
    <Page
      title="Store"
      note="Items that graphs keep beyond a thread."
      actions={
        <Button icon="plus" aria-expanded={edited === 'new'} onClick={() => setEdited(edited === 'new' ? null : 'new')}>
          Put an item
        </Button>
      }
    >
      {edited !== null && (
        <PutItem
          key={edited === 'new' ? 'new' : `${edited.namespace.join('/')} ${edited.key}`}
          namespace={namespace}
          item={edited === 'new' ? null : edited}
          close={() => setEdited(null)}
          done={() => {
            setEdited(null)
            reload()
          }}
        />
      )}
      <div className="store">
        <nav className="card" aria-label="Namespaces">
          <LoadedView of={namespaces}>
            {({ namespaces: list }) => (
              <NamespaceTree
                paths={list}
                chosen={namespace}
                onChoose={next => setFilters({ in: next.map(encodeURIComponent).join('/'), from: '' })}
              />
            )}
          </LoadedView>
        </nav>
        <section aria-label="Items" className="items">
          <search className="filters">
            <input
              type="search"
              aria-label="Search by meaning"
              placeholder="Search by meaning"
              value={q}
              onChange={event => setFilters({ q: event.target.value, from: '' })}
            />
            <input
              type="search"
              aria-label="Filter by members"
              placeholder='kind:note, or {"n": {"$gt": 3}}'
              value={filterText}
              onChange={event => setFilters({ filter: event.target.value, from: '' })}
            />
          </search>
          {filterText.trim() !== '' && filter === null && (
            <p className="muted">A filter is a member as kind:note, or a JSON object.</p>
          )}
          <Trouble error={error} />
          <LoadedView of={items}>
            {({ items: found }) => {
              // Without an index the server ignores what was asked for.
              const isRanked = asked === '' || found.some(({ score }) => score != null)
              const list = isRanked ? found : wordsIn(found, asked)
              return (
                <>
                  {!isRanked && (
                    <p className="store-note" role="status">
                      This application has no index to search by meaning: <code>store.index</code> in langgraph.json
                      names an embedding. Shown are those of the newest {found.length} items that have these words.
                    </p>
                  )}
                  {list.length === 0 ? (
                    <Empty title={asked === '' && filter === null ? 'No items here' : 'Nothing found'} icon="store">
                      {asked === '' && filter === null
                        ? 'Graphs put items here, and so does the button above.'
                        : 'Other words, another filter or another namespace may find some.'}
                    </Empty>
                  ) : (
                    <ul>
                      {list.map(item => (
                        <Row
                          key={`${item.namespace.join('/')} ${item.key}`}
                          item={item}
                          edit={() => setEdited(item)}
                          remove={() => void send(() => client.store.deleteItem(item.namespace, item.key))}
                        />
                      ))}
                    </ul>
                  )}
                </>
              )
            }}
          </LoadedView>
          <Pager
            offset={offset}
            size={LIMIT}
            shown={items.data?.items.length}
            go={next => setFilters({ from: next })}
          />
        </section>
      </div>
    </Page>
  )
}

interface RowProps {
  item: Item
  edit: () => void
  remove: () => void
}

const Row = ({ item: { namespace, key, value, updatedAt, score }, edit, remove }: RowProps) => (
  <li className="card item">
    <div className="item-head">
      <strong>{key}</strong>
      <span className="muted">{namespace.join(' / ')}</span>
      {score != null && <span className="muted">{score.toFixed(3)}</span>}
      <small className="muted">
        <Ago at={updatedAt} />
      </small>
      <Button kind="ghost" icon="edit" label="Edit" onClick={edit} />
      <Button
        kind="ghost"
        icon="trash"
        label="Delete"
        onClick={() => {
          if (confirm(`Delete the item ${key}?`)) remove()
        }}
      />
    </div>
    <Json value={value} />
  </li>
)
