import { useState } from 'react'
import { control } from '../../api/control'
import { Button } from '../../ui/button'
import { CopyButton } from '../../ui/copy'
import { Dialog } from '../../ui/dialog'
import { Field } from '../../ui/field'
import { Trouble } from '../../ui/notice'
import { useSending } from '../../ui/use-sending'
import { type Key, LIMITS, type Limits, SCOPES, type Scope } from './types'

const LIFETIMES = { '': 'Never', 1: 'In a day', 30: 'In 30 days', 90: 'In 90 days', 365: 'In a year' }
const DAY_MS = 24 * 3_600_000

/** Asks what the key may do, and shows it once. */
export function CreateKey({ close }: { close: () => void }) {
  const [made, setMade] = useState<(Key & { key: string }) | null>(null)
  const [name, setName] = useState('')
  const [scopes, setScopes] = useState<readonly Scope[]>(['run'])
  const [days, setDays] = useState('90')
  const [limits, setLimits] = useState<Partial<Limits>>({})
  const { busy, error, send } = useSending(() => {})
  if (made !== null)
    return (
      <Dialog key="made" label="The new key" stays close={close}>
        <h2>Key “{made.name}”</h2>
        <p className="muted">It is shown only now: the server keeps no more than a digest.</p>
        <div className="secret">
          <code>{made.key}</code>
          <CopyButton text={made.key} label="Copy the key" />
        </div>
        <div className="actions">
          <Button kind="primary" onClick={close}>
            Done
          </Button>
        </div>
      </Dialog>
    )
  const create = () =>
    control<Key & { key: string }>('/v2/keys', {
      method: 'POST',
      body: { name, scopes, limits, expires_at: days === '' ? null : new Date(Date.now() + Number(days) * DAY_MS) },
    }).then(setMade)
  return (
    <Dialog label="New key" close={close}>
      <form
        className="form"
        onSubmit={event => {
          event.preventDefault()
          void send(create)
        }}
      >
        <h2>New key</h2>
        <Field label="Name" hint="Which program uses it.">
          {id => (
            <input
              id={id}
              required
              maxLength={200}
              autoComplete="off"
              value={name}
              onChange={event => setName(event.target.value)}
            />
          )}
        </Field>
        <fieldset>
          <legend>Scopes</legend>
          {SCOPES.map(([scope, note]) => (
            <label key={scope} className="check">
              <input
                type="checkbox"
                checked={scopes.includes(scope)}
                onChange={({ target: { checked } }) =>
                  setScopes(checked ? [...scopes, scope] : scopes.filter(one => one !== scope))
                }
              />
              <span>
                <strong>{scope}</strong> <span className="muted">{note}</span>
              </span>
            </label>
          ))}
        </fieldset>
        <Field label="Expires">
          {id => (
            <select id={id} value={days} onChange={event => setDays(event.target.value)}>
              {Object.entries(LIFETIMES).map(([days, text]) => (
                <option key={days} value={days}>
                  {text}
                </option>
              ))}
            </select>
          )}
        </Field>
        <details>
          <summary>Limits</summary>
          <div className="form limits">
            {LIMITS.map(([name, label]) => (
              <Field key={name} label={label}>
                {id => (
                  <input
                    id={id}
                    type="number"
                    min={name === 'requests_per_second' ? undefined : 1}
                    step={name === 'requests_per_second' ? 'any' : 1}
                    placeholder="none"
                    value={limits[name] ?? ''}
                    onChange={({ target: { valueAsNumber: n } }) =>
                      setLimits({ ...limits, [name]: Number.isNaN(n) ? null : n })
                    }
                  />
                )}
              </Field>
            ))}
          </div>
        </details>
        <Trouble error={error} />
        <div className="actions">
          <Button kind="primary" type="submit" disabled={busy || name.trim() === '' || scopes.length === 0}>
            Create
          </Button>
          <Button onClick={close}>Close</Button>
        </div>
      </form>
    </Dialog>
  )
}
