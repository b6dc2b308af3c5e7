/** Takes a key of this server, the key of the control plane, or a token of the application. */
import { useState } from 'react'
import { Link, useLocation } from 'wouter'
import { ask, Refusal } from '../api/client'
import { reloadAll } from '../api/connection'
import { type Credentials, session, setControlKey, signIn } from '../api/session'
import { useStore } from '../api/store'
import { CONTROLLED } from '../pages'
import { Button } from '../ui/button'
import { Field } from '../ui/field'
import { Trouble } from '../ui/notice'
import { useSending } from '../ui/use-sending'

export function SignIn({ reason }: { reason: string }) {
  const { credentials, controlKey } = useStore(session)
  const [, go] = useLocation()
  const [kind, setKind] = useState<Credentials['kind']>(credentials?.kind ?? 'key')
  const [value, setValue] = useState('')
  const { busy, error, send } = useSending(reloadAll)
  const work = async () => {
    const given = value.trim()
    if (kind === 'key' && (await isControlKey(given))) {
      setControlKey(given)
      go(CONTROLLED[0]!.path)
    } else signIn({ kind, value: given })
  }
  return (
    <div className="centre">
      <form
        className="card sign-in"
        onSubmit={event => {
          event.preventDefault()
          void send(work)
        }}
      >
        <h1>Sign in</h1>
        {controlKey === '' ? (
          <p className="muted">{reason}</p>
        ) : (
          <p className="muted">
            The control key opens{' '}
            {CONTROLLED.map(({ path, title }, i) => (
              <span key={path}>
                {i > 0 && ', '}
                <Link href={path}>{title}</Link>
              </span>
            ))}
            . This page needs a key of this server: <code>weft keys create</code> makes one.
          </p>
        )}
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
        <Trouble error={error} />
        <Button kind="primary" type="submit" disabled={busy || value.trim() === ''}>
          Sign in
        </Button>
      </form>
    </div>
  )
}

/** Whether the key is that of the control plane alone: keys of the server are refused there, or open the other routes, too. */
async function isControlKey(key: string): Promise<boolean> {
  const headers = { 'X-Api-Key': key }
  const answers = (path: string, method: string) =>
    ask(path, { method, headers, ...(method === 'POST' ? { body: {} } : {}) }).then(
      () => true,
      error => {
        if (error instanceof Refusal) return error.status !== 401
        throw error
      },
    )
  return !(await answers('/threads/count', 'POST')) && (await answers('/v2/deployments?limit=1', 'GET'))
}
