/** Takes a key of this server, or a token of the application. */
import { useState } from 'react'
import { reloadAll } from '../api/connection'
import { type Credentials, session, signIn } from '../api/session'
import { useStore } from '../api/store'
import { Button } from '../ui/button'
import { Field } from '../ui/field'

export function SignIn({ reason }: { reason: string }) {
  const { credentials } = useStore(session)
  const [kind, setKind] = useState<Credentials['kind']>(credentials?.kind ?? 'key')
  const [value, setValue] = useState('')
  return (
    <div className="centre">
      <form
        className="card sign-in"
        onSubmit={event => {
          event.preventDefault()
          signIn({ kind, value: value.trim() })
          reloadAll()
        }}
      >
        <h1>Sign in</h1>
        <p className="muted">{reason}</p>
        <Field label="Sign in with">
          {id => (
            <select id={id} value={kind} onChange={event => setKind(event.target.value as Credentials['kind'])}>
              <option value="key">A key of this server</option>
              <option value="bearer">A bearer token of the application</option>
            </select>
          )}
        </Field>
        <Field label={kind === 'key' ? 'Key' : 'Token'} hint="Kept in this tab only, and sent to this server only.">
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
        <Button kind="primary" type="submit" disabled={value.trim() === ''}>
          Sign in
        </Button>
      </form>
    </div>
  )
}
