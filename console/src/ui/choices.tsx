interface ChoicesProps<T extends string> {
  label: string
  choices: readonly T[]
  value: T
  onChange: (value: T) => void
}

/** A few choices of which one holds, beside each other. */
export const Choices = <T extends string>({ label, choices, value, onChange }: ChoicesProps<T>) => (
  <fieldset className="choices">
    <legend className="hidden">{label}</legend>
    {choices.map(choice => (
      <button type="button" key={choice} aria-pressed={choice === value} onClick={() => onChange(choice)}>
        {choice}
      </button>
    ))}
  </fieldset>
)
