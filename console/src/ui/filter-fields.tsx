/** Conditions of a list. */
import { useEffect, useState } from 'react'
import { Field } from './field'

const TYPING_MS = 400

interface ChoiceProps {
  label: string
  any: string
  values: readonly string[]
  nameOf?: (value: string) => string
  value: string
  onChange: (value: string) => void
}

/** One of some values, or any. */
export const Choice = ({ label, any, values, nameOf = String, value, onChange }: ChoiceProps) => (
  <Field label={label}>
    {id => (
      <select id={id} value={value} onChange={({ target }) => onChange(target.value)}>
        <option value="">{any}</option>
        {values.map(one => (
          <option key={one} value={one}>
            {nameOf(one)}
          </option>
        ))}
      </select>
    )}
  </Field>
)

interface TypedProps {
  label: string
  placeholder: string
  value: string
  fault?: (text: string) => string | null
  onChange: (value: string) => void
}

/** A text that counts when its author pauses. */
export function Typed({ label, placeholder, value, fault = () => null, onChange }: TypedProps) {
  const [text, setText] = useState(value)
  const wrong = fault(text.trim())
  useEffect(() => setText(value), [value])
  useEffect(() => {
    const next = text.trim()
    if (next === value || wrong !== null) return
    const timer = setTimeout(() => onChange(next), TYPING_MS)
    return () => clearTimeout(timer)
  })
  return (
    <Field label={label} error={wrong}>
      {id => (
        <input
          id={id}
          value={text}
          placeholder={placeholder}
          spellCheck={false}
          maxLength={1_000}
          onChange={({ target }) => setText(target.value)}
        />
      )}
    </Field>
  )
}
