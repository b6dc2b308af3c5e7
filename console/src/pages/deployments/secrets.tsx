import { Button } from '../../ui/button'
import { MASK, type Secret } from './types'

interface SecretsProps {
  value: readonly Secret[]
  onChange: (value: Secret[]) => void
}

/** Environment variables of a deployment: their names, and new values. A stored value is never shown. */
export const Secrets = ({ value, onChange }: SecretsProps) => {
  const change = (at: number, part: Partial<Secret>) =>
    onChange(value.map((secret, i) => (i === at ? { ...secret, ...part } : secret)))
  return (
    <fieldset className="secrets">
      <legend>Secrets</legend>
      {value.map((secret, i) => (
        <div key={i}>
          <input
            aria-label={`Name of secret ${i + 1}`}
            className="mono"
            placeholder="NAME"
            spellCheck={false}
            autoComplete="off"
            value={secret.name}
            onChange={event => change(i, { name: event.target.value })}
          />
          <input
            aria-label={`Value of secret ${i + 1}`}
            type="password"
            autoComplete="new-password"
            placeholder={secret.value === MASK ? 'unchanged' : 'value'}
            value={secret.value === MASK ? '' : secret.value}
            onChange={event => change(i, { value: event.target.value })}
          />
          <Button
            kind="ghost"
            icon="trash"
            label={`Remove secret ${i + 1}`}
            onClick={() => onChange(value.filter((_, j) => j !== i))}
          />
        </div>
      ))}
      <Button kind="ghost" icon="plus" onClick={() => onChange([...value, { name: '', value: '' }])}>
        Add a secret
      </Button>
    </fieldset>
  )
}
