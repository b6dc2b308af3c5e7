/** A form made from a JSON Schema: texts, numbers, switches, choices and groups; JSON for everything else. */
import { Field } from './field'
import { JsonEditor } from './json-editor'

export interface Schema {
  type?: string | string[]
  title?: string
  description?: string
  enum?: unknown[]
  default?: unknown
  properties?: { [name: string]: Schema }
  anyOf?: Schema[]
}
type Values = { [name: string]: unknown }

interface SchemaFormProps {
  schema: Schema
  value: Values
  onChange: (value: Values) => void
}

export const SchemaForm = ({ schema, value, onChange }: SchemaFormProps) => (
  <div className="form">
    {Object.entries(schema.properties ?? {}).map(([name, part]) => (
      <Part
        key={name}
        name={name}
        schema={part}
        value={value[name]}
        onChange={next => {
          const { [name]: _, ...others } = value
          onChange(next === undefined ? others : { ...value, [name]: next })
        }}
      />
    ))}
  </div>
)

interface PartProps {
  name: string
  schema: Schema
  value: unknown
  /** undefined: left to the default. */
  onChange: (value: unknown) => void
}

function Part({ name, schema, value, onChange }: PartProps) {
  const { title = name, description, default: usual } = schema
  const hint = description ?? (usual === undefined ? undefined : `Default: ${JSON.stringify(usual)}`)
  const kind = kindOf(schema)
  if (kind === 'group')
    return (
      <fieldset>
        <legend>{title}</legend>
        <SchemaForm schema={schema} value={(value ?? {}) as Values} onChange={onChange} />
      </fieldset>
    )
  if (kind === 'json')
    return (
      <JsonEditor
        label={title}
        hint={hint}
        rows={3}
        initial={value === undefined ? '' : JSON.stringify(value, null, 2)}
        onChange={next => onChange(next ?? undefined)}
      />
    )
  return (
    <Field label={title} hint={hint}>
      {id => {
        if (kind === 'choice' || kind === 'boolean') {
          const choices = kind === 'boolean' ? [true, false] : schema.enum!
          return (
            <select
              id={id}
              value={value === undefined ? '' : JSON.stringify(value)}
              onChange={({ target }) => onChange(target.value === '' ? undefined : JSON.parse(target.value))}
            >
              <option value="">Default</option>
              {choices.map(choice => (
                <option key={JSON.stringify(choice)} value={JSON.stringify(choice)}>
                  {String(choice)}
                </option>
              ))}
            </select>
          )
        }
        return (
          <input
            id={id}
            type={kind === 'number' ? 'number' : 'text'}
            step="any"
            value={value === undefined ? '' : String(value)}
            placeholder={usual === undefined ? '' : String(usual)}
            onChange={({ target }) =>
              onChange(target.value === '' ? undefined : kind === 'number' ? target.valueAsNumber : target.value)
            }
          />
        )
      }}
    </Field>
  )
}

function kindOf(schema: Schema): 'choice' | 'boolean' | 'number' | 'text' | 'group' | 'json' {
  if (schema.enum !== undefined) return 'choice'
  const type = Array.isArray(schema.type) ? schema.type.find(one => one !== 'null') : schema.type
  if (type === 'boolean') return 'boolean'
  if (type === 'number' || type === 'integer') return 'number'
  if (type === 'string') return 'text'
  return type === 'object' && schema.properties !== undefined ? 'group' : 'json'
}
