/** Pages of the control plane: their data, or the form for the key that they need. */
import { type ReactNode, useState } from 'react'
import { Refusal } from '../../api/client'
import { reloadAll } from '../../api/connection'
import type { Loaded } from '../../api/load'
import { session, setControlKey } from '../../api/session'
import { useStore } from '../../api/store'
import { Button } from '../../ui/button'
import { Field } from '../../ui/field'
import { LoadedView } from '../../ui/notice'

interface GateProps<T> {
  of: Loaded<T>
  /** The scope that a key needs. */
  scope: string
  children: (data: T) => ReactNode
}

export function Gate<T>({ of, scope, children }: GateProps<T>) {
  const { error } = of
  if (error instanceof Refusal && (error.status === 401 || error.status === 403))
    return <EnterKey reason={error.message} scope={scope} />
  return <LoadedView of={of}>{children}</LoadedView>
}

function EnterKey({ reason, scope }: { reason: string; scope: string }) {
  const [value, setValue] = useState('')
  return (
    <form
      className="enter-key"
      aria-label="Key of the control plane"
      onSubmit={event => {
        event.preventDefault()
        setControlKey(value.trim())
        setValue('')
        reloadAll()
      }}
    >
      <h2>Enter a key</h2>
      <p className="muted">{reason}</p>
      <Field
        label="Control key"
        hint={
          <>
            The key of the control plane, <code>control.key</code> in the data folder, or a key with the scope{' '}
            <code>{scope}</code>. Kept in this tab only, and sent to this server only.
          </>
        }
      >
        {id => (
          <input
            id={id}
            type="password"
            autoComplete="off"
            spellCheck={false}
            value={value}
            onChange={event => setValue(event.target.value)}
          />
        )}
      </Field>
      <div className="actions">
        <Button kind="primary" type="submit" disabled={value.trim() === ''}>
          Continue
        </Button>
      </div>
    </form>
  )
}

/** Takes back the key that was entered. */
export function ForgetKey() {
  const { controlKey } = useStore(session)
  if (controlKey === '') return null
  return (
    <Button
      kind="ghost"
      icon="key"
      onClick={() => {
        setControlKey('')
        reloadAll()
      }}
    >
      Forget the control key
    </Button>
  )
}
