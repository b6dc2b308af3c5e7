/** The item store: its namespaces, the items below one, and items by their meaning. */
import { useDeferredValue, useState } from 'react'
import { client } from '../api/client'
import { useLoad } from '../api/load'
import { Button } from '../ui/button'
import { Field } from '../ui/field'
import { Json } from '../ui/json'
import { JsonEditor } from '../ui/json-editor'
import { Empty, LoadedView, Trouble } from '../ui/notice'
import { Page } from '../ui/page'
import { Ago } from '../ui/time'
import { useSending } from '../ui/use-sending'
import '../styles/store.css'

const LIMIT = 50
const NAMESPACES = 200

export default function ItemStore() {
  const [namespace, setNamespace] = useState<string[]>([])
  const [query, setQuery] = useState('')
  const [writes, setWrites] = useState(false)
  const asked = useDeferredValue(query.trim())
  const namespaces = useLoad('namespaces', () => client.store.listNamespaces({ limit: NAMESPACES }))
  const items = useLoad(`items ${namespace.join('/')} ${asked}`, () =>
    client.store.searchItems(namespace, { limit: LIMIT, ...(asked === '' ? {} : { query: asked }) }),
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
        <Button icon="plus" aria-expanded={writes} onClick={() => setWrites(!writes)}>
          Put an item
        </Button>
      }
    >
      {writes && (
        <PutItem
          namespace={namespace}
          done={() => {
            setWrites(false)
            reload()
          }}
        />
      )}
      <div className="store">
        <nav className="card" aria-label="Namespaces">
          <LoadedView of={namespaces}>
            {({ namespaces: list }) => (
              <ul className="namespaces">
                {[[] as string[], ...list].map(one => (
                  <li key={one.join('/')}>
                    <button
                      type="button"
                      aria-current={one.join('/') === namespace.join('/') ? 'true' : undefined}
                      onClick={() => setNamespace(one)}
                    >
                      {one.length === 0 ? 'All namespaces' : one.join(' / ')}
                    </button>
                  </li>
                ))}
              </ul>
            )}
          </LoadedView>
        </nav>
        <section aria-label="Items" className="items">
          <input
            type="search"
            aria-label="Search by meaning"
            placeholder="Search by meaning"
            value={query}
            onChange={event => setQuery(event.target.value)}
          />
          <Trouble error={error} />
          <LoadedView of={items}>
            {({ items: list }) =>
              list.length === 0 ? (
                <Empty title={asked === '' ? 'No items here' : 'Nothing found'} icon="store">
                  {asked === ''
                    ? 'Graphs put items here, and so does the button above.'
                    : 'Items are found by meaning when langgraph.json names an embedding in store.index.'}
                </Empty>
              ) : (
                <ul>
                  {list.map(({ namespace, key, value, updatedAt, score }) => (
                    <li key={`${namespace.join('/')} ${key}`} className="card item">
                      <div className="item-head">
                        <strong>{key}</strong>
                        <span className="muted">{namespace.join(' / ')}</span>
                        {score != null && <span className="muted">{score.toFixed(3)}</span>}
                        <small className="muted">
                          <Ago at={updatedAt} />
                        </small>
                        <Button
                          kind="ghost"
                          icon="trash"
                          label="Delete"
                          onClick={() => {
                            if (confirm(`Delete the item ${key}?`))
                              void send(() => client.store.deleteItem(namespace, key))
                          }}
                        />
                      </div>
                      <Json value={value} />
                    </li>
                  ))}
                </ul>
              )
            }
          </LoadedView>
        </section>
      </div>
    </Page>
  )
}

function PutItem({ namespace, done }: { namespace: string[]; done: () => void }) {
  const [path, setPath] = useState(namespace.join('/'))
  const [key, setKey] = useState('')
  const [value, setValue] = useState<unknown>({})
  const { busy, error, send } = useSending(done)
  const parts = path.split('/').filter(Boolean)
  return (
    <form
      className="card cron-form"
      aria-label="Item"
      onSubmit={event => {
        event.preventDefault()
        void send(() => client.store.putItem(parts, key, value as { [name: string]: unknown }))
      }}
    >
      <div className="two">
        <Field label="Namespace" hint="Parts between slashes.">
          {id => <input id={id} value={path} spellCheck={false} onChange={event => setPath(event.target.value)} />}
        </Field>
        <Field label="Item key">
          {id => <input id={id} value={key} spellCheck={false} onChange={event => setKey(event.target.value)} />}
        </Field>
      </div>
      <JsonEditor label="Value" hint="A JSON object." initial="{}" rows={4} onChange={setValue} />
      <Trouble error={error} />
      <div className="actions">
        <Button kind="primary" type="submit" disabled={busy || value === undefined || key === '' || parts.length === 0}>
          Put
        </Button>
      </div>
    </form>
  )
}
