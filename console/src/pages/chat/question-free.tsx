/** An answer of any form: yes or no, one of some choices, a form, a text, or JSON. */
import { useState } from 'react'
import { Button } from '../../ui/button'
import { Json } from '../../ui/json'
import { JsonEditor } from '../../ui/json-editor'
import { SchemaForm } from '../../ui/schema-form'
import { choicesOf, isText, schemaOf } from './question-shape'

interface FreeProps {
  value: unknown
  answer: (value: unknown) => void
}

export function Free({ value, answer }: FreeProps) {
  const [text, setText] = useState('')
  const [json, setJson] = useState<unknown>(undefined)
  const [values, setValues] = useState<{ [name: string]: unknown }>({})
  const [isJson, setIsJson] = useState(false)
  const choices = choicesOf(value)
  const schema = schemaOf(value)
  const isForm = schema !== null && !isJson
  return (
    <>
      {!isText(value) && <Json value={value} open={1} />}
      <div className="actions">
        {choices?.map(choice => (
          <Button key={choice} onClick={() => answer(choice)}>
            {choice}
          </Button>
        ))}
        {choices === null && schema === null && (
          <>
            <Button kind="primary" icon="check" onClick={() => answer(true)}>
              Approve
            </Button>
            <Button kind="danger" icon="close" onClick={() => answer(false)}>
              Reject
            </Button>
          </>
        )}
        <Button kind="ghost" onClick={() => setIsJson(!isJson)}>
          {isJson ? `Answer with a ${schema === null ? 'text' : 'form'}` : 'Answer with JSON'}
        </Button>
      </div>
      <form
        className={`question-answer ${isForm ? 'by-form' : ''}`}
        onSubmit={event => {
          event.preventDefault()
          answer(isJson ? json : isForm ? values : text)
        }}
      >
        {isJson && <JsonEditor label="Answer as JSON" initial="" rows={4} onChange={setJson} />}
        {isForm && <SchemaForm schema={schema} value={values} onChange={setValues} />}
        {!isJson && !isForm && (
          <input
            aria-label="Answer"
            placeholder={choices === null ? 'Or answer in words' : 'Or another answer'}
            value={text}
            onChange={event => setText(event.target.value)}
          />
        )}
        <Button type="submit" disabled={isJson ? json === undefined : !isForm && text === ''}>
          Answer
        </Button>
      </form>
    </>
  )
}
