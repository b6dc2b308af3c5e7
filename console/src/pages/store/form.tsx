import { useState } from 'react'
import { client } from '../../api/client'
import { Button } from '../../ui/button'
import { Field } from '../../ui/field'
import { JsonEditor } from '../../ui/json-editor'
import { Trouble } from '../../ui/notice'
import { useSending } from '../../ui/use-sending'
import type { Item } from './filter'

interface PutItemProps {
  namespace: string[]
  /** Null: a new one. */
  item: Item | null
  close: () => void
  done: () => void
}

/** Writes an item. Namespace and key of one that exists stay. */
export function PutItem({ namespace, item, close, done }: PutItemProps) {
  const [path, setPath] = useState((item?.namespace ?? namespace).join('/'))
  const [key, setKey] = useState(item?.key ?? '')
  const [value, setValue] = useState<unknown>(item?.value ?? {})
  const { busy, error, send } = useSending(done)
  const parts = item?.namespace ?? path.split('/').filter(Boolean)
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
          {id => (
            <input
              id={id}
              value={path}
              spellCheck={false}
              readOnly={item !== null}
              onChange={event => setPath(event.target.value)}
            />
          )}
        </Field>
        <Field label="Item key">
          {id => (
            <input
              id={id}
              value={key}
              spellCheck={false}
              readOnly={item !== null}
              onChange={event => setKey(event.target.value)}
            />
          )}
        </Field>
      </div>
      <JsonEditor
        label="Value"
        hint="A JSON object."
        initial={JSON.stringify(item?.value ?? {}, null, 2)}
        rows={item === null ? 4 : 10}
        onChange={setValue}
      />
      <Trouble error={error} />
      <div className="actions">
        <Button kind="primary" type="submit" disabled={busy || value === undefined || key === '' || parts.length === 0}>
          {item === null ? 'Put' : 'Save'}
        </Button>
        <Button onClick={close}>Close</Button>
      </div>
    </form>
  )
}
