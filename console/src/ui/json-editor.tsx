/** A value as JSON text that a person edits; says where it is wrong. */
import { useState } from 'react'
import { Field } from './field'

interface JsonEditorProps {
  label: string
  hint?: string
  /** The text at the beginning. */
  initial: string
  rows?: number
  /** Called with each change: the value, or undefined while the text is no JSON. */
  onChange: (value: unknown) => void
}

export function JsonEditor({ label, hint, initial, rows = 6, onChange }: JsonEditorProps) {
  const [text, setText] = useState(initial)
  const [error, setError] = useState<string | null>(null)
  return (
    <Field label={label} hint={hint} error={error}>
      {id => (
        <textarea
          id={id}
          className="mono"
          rows={rows}
          spellCheck={false}
          value={text}
          aria-invalid={error !== null}
          onChange={({ target: { value } }) => {
            setText(value)
            try {
              onChange(value.trim() === '' ? null : JSON.parse(value))
              setError(null)
            } catch (error) {
              onChange(undefined)
              setError((error as Error).message)
            }
          }}
        />
      )}
    </Field>
  )
}
