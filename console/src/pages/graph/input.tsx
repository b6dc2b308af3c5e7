/** The input of a run: a form made from the schema of the graph, or JSON; filled from the inputs of earlier runs. */
import { useEffect, useState } from 'react'
import { ask, client } from '../../api/client'
import { useLoad } from '../../api/load'
import { Choices } from '../../ui/choices'
import { Field } from '../../ui/field'
import { JsonEditor } from '../../ui/json-editor'
import { Loading } from '../../ui/notice'
import { type Schema, SchemaForm } from '../../ui/schema-form'

export type Input = { [name: string]: unknown } | null

interface InputFormProps {
  assistantId: string
  /** Raised when another run has ended: its input is an earlier one then. */
  round: number
  /** Undefined while the text is no JSON. */
  onChange: (input: Input | undefined) => void
}

const MESSAGES = 'messages'
const SEARCHED = 30
const LISTED = 8
const SHOWN = 48

export function InputForm({ assistantId, round, onChange }: InputFormProps) {
  const schemas = useLoad(`schemas ${assistantId}`, () => client.assistants.getSchemas(assistantId))
  const earlier = useLoad(`inputs ${assistantId} ${round}`, signal => earlierInputs(assistantId, signal))
  const [value, setValue] = useState<Input>({})
  const [asJson, setAsJson] = useState(false)
  // Editors of text keep their own: another value is another editor.
  const [filled, setFilled] = useState(0)
  const change = (next: Input | undefined) => {
    if (next !== undefined) setValue(next)
    onChange(next)
  }
  const show = (next: Input) => {
    change(next)
    setFilled(last => last + 1)
  }
  // The empty input is one, too.
  useEffect(() => onChange({}), [onChange])
  if (schemas.data === undefined && schemas.error === undefined) return <Loading />

  const schema = (schemas.data?.input_schema ?? null) as Schema | null
  const hasForm = Object.keys(schema?.properties ?? {}).length > 0 && (value === null || isObject(value))
  const isJson = asJson || !hasForm
  return (
    <>
      <div className="graph-input-head">
        <h2>Input</h2>
        {hasForm && (
          <Choices
            label="Show the input as"
            choices={['Form', 'JSON']}
            value={isJson ? 'JSON' : 'Form'}
            onChange={choice => {
              setAsJson(choice === 'JSON')
              show(value)
            }}
          />
        )}
      </div>
      {earlier.data !== undefined && earlier.data.length > 0 && (
        <Field label="Earlier inputs">
          {id => (
            <select id={id} value="" onChange={({ target }) => show(earlier.data![Number(target.value)]!)}>
              <option value="">Choose one to start from</option>
              {earlier.data!.map((input, i) => (
                <option key={JSON.stringify(input)} value={i}>
                  {titleOf(input)}
                </option>
              ))}
            </select>
          )}
        </Field>
      )}
      {isJson ? (
        <JsonEditor
          key={filled}
          label="JSON"
          hint="Runs on a new thread."
          rows={8}
          initial={value === null ? '' : JSON.stringify(value, null, 2)}
          onChange={next => change(next as Input | undefined)}
        />
      ) : (
        <Form key={filled} schema={schema!} value={value ?? {}} onChange={change} />
      )}
    </>
  )
}

interface FormProps {
  schema: Schema
  value: { [name: string]: unknown }
  onChange: (value: Input) => void
}

/** The form follows the schema, but messages are written as the text of one. */
function Form({ schema, value, onChange }: FormProps) {
  const { [MESSAGES]: messages, ...others } = schema.properties!
  const text = messages === undefined ? null : textOf(value[MESSAGES])
  return (
    <>
      {text !== null && (
        <Field label="Message" hint="Runs on a new thread.">
          {id => (
            <textarea
              id={id}
              rows={3}
              value={text}
              onChange={({ target }) => {
                const { [MESSAGES]: _, ...rest } = value
                const content = target.value
                onChange(content === '' ? rest : { ...rest, [MESSAGES]: [{ role: 'user', content }] })
              }}
            />
          )}
        </Field>
      )}
      <SchemaForm
        schema={{ ...schema, properties: text === null ? schema.properties : others }}
        value={value}
        onChange={onChange}
      />
    </>
  )
}

const isObject = (value: unknown): boolean => typeof value === 'object' && value !== null && !Array.isArray(value)

/** The text of one message of a person; "" without messages; null: they are more than that. */
function textOf(messages: unknown): string | null {
  if (messages === undefined) return ''
  const [first, ...more] = Array.isArray(messages) ? messages : [null, null]
  const isHuman = first?.role === 'user' || first?.role === 'human' || first?.type === 'human'
  return more.length === 0 && isHuman && typeof first.content === 'string' ? first.content : null
}

function titleOf(input: Input): string {
  const text = textOf(input?.[MESSAGES]) || JSON.stringify(input)
  return text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text
}

/** Returns the inputs of the latest runs, each once. */
async function earlierInputs(assistant_id: string, signal: AbortSignal): Promise<Input[]> {
  const body = { assistant_id, limit: SEARCHED, select: ['kwargs'] }
  const runs = await ask<{ kwargs: { input?: Input } }[]>('/runs/search', { method: 'POST', body, signal })
  const byText = new Map(
    runs
      .map(({ kwargs }) => kwargs.input)
      .filter(input => isObject(input))
      .map(input => [JSON.stringify(input), input!]),
  )
  return [...byText.values()].slice(0, LISTED)
}
