/** A question of the graph, answered in place: approve or reject, a text, or any JSON. */
import { useState } from 'react'
import { Button } from '../../ui/button'
import { Icon } from '../../ui/icon'
import { Json } from '../../ui/json'
import { JsonEditor } from '../../ui/json-editor'

interface QuestionProps {
  value: unknown
  answer: (value: unknown) => void
}

/** As the human-in-the-loop middleware of LangChain asks. */
interface ActionRequest {
  name: string
  args: { [name: string]: unknown }
  description?: string
}
type Decision =
  | { type: 'approve' }
  | { type: 'reject'; message?: string }
  | { type: 'edit'; edited_action: { name: string; args: unknown } }

export function Question({ value, answer }: QuestionProps) {
  const requests = requestsOf(value)
  return (
    <section className="question" aria-label="Question">
      <h2>
        <Icon name="question" />
        {textOf(value) ?? 'The graph waits for an answer'}
      </h2>
      {requests === null ? (
        <Free value={value} answer={answer} />
      ) : (
        <Actions requests={requests} decide={decisions => answer({ decisions })} />
      )}
    </section>
  )
}

function Free({ value, answer }: QuestionProps) {
  const [text, setText] = useState('')
  const [json, setJson] = useState<unknown>(undefined)
  const [isJson, setIsJson] = useState(false)
  return (
    <>
      {typeof value !== 'string' && <Json value={value} open={1} />}
      <div className="actions">
        <Button kind="primary" icon="check" onClick={() => answer(true)}>
          Approve
        </Button>
        <Button kind="danger" icon="close" onClick={() => answer(false)}>
          Reject
        </Button>
        <Button kind="ghost" onClick={() => setIsJson(!isJson)}>
          {isJson ? 'Answer with a text' : 'Answer with JSON'}
        </Button>
      </div>
      <form
        className="question-answer"
        onSubmit={event => {
          event.preventDefault()
          answer(isJson ? json : text)
        }}
      >
        {isJson ? (
          <JsonEditor label="Answer as JSON" initial="" rows={4} onChange={setJson} />
        ) : (
          <input
            aria-label="Answer"
            placeholder="Or answer in words"
            value={text}
            onChange={event => setText(event.target.value)}
          />
        )}
        <Button type="submit" disabled={isJson ? json === undefined : text === ''}>
          Answer
        </Button>
      </form>
    </>
  )
}

function Actions({ requests, decide }: { requests: ActionRequest[]; decide: (decisions: Decision[]) => void }) {
  const [decisions, setDecisions] = useState<{ [at: number]: Decision }>({})
  const [editing, setEditing] = useState<number | null>(null)
  const [args, setArgs] = useState<unknown>(undefined)
  const take = (at: number, decision: Decision) => {
    const all = { ...decisions, [at]: decision }
    setDecisions(all)
    setEditing(null)
    if (Object.keys(all).length === requests.length) decide(requests.map((_, i) => all[i]!))
  }
  return requests.map(({ name, args: asked, description }, i) => (
    <div key={i} className="question-action">
      <h3>
        {name} {decisions[i] !== undefined && <span className="muted">{decisions[i].type}</span>}
      </h3>
      {description && <p className="muted">{description}</p>}
      {editing === i ? (
        <JsonEditor label="Arguments" initial={JSON.stringify(asked, null, 2)} onChange={setArgs} />
      ) : (
        <Json value={asked} />
      )}
      <div className="actions">
        {editing === i ? (
          <Button
            kind="primary"
            disabled={args === undefined}
            onClick={() => take(i, { type: 'edit', edited_action: { name, args } })}
          >
            Approve as edited
          </Button>
        ) : (
          <Button kind="primary" icon="check" onClick={() => take(i, { type: 'approve' })}>
            Approve
          </Button>
        )}
        <Button
          icon="edit"
          onClick={() => {
            setArgs(asked)
            setEditing(editing === i ? null : i)
          }}
        >
          {editing === i ? 'Do not edit' : 'Edit'}
        </Button>
        <Button kind="danger" icon="close" onClick={() => take(i, { type: 'reject' })}>
          Reject
        </Button>
      </div>
    </div>
  ))
}

function requestsOf(value: unknown): ActionRequest[] | null {
  const { action_requests } = (value ?? {}) as { action_requests?: unknown }
  return Array.isArray(action_requests) && action_requests.length > 0 ? (action_requests as ActionRequest[]) : null
}

function textOf(value: unknown): string | null {
  if (typeof value === 'string') return value
  const { question, message, description } = (value ?? {}) as { [name: string]: unknown }
  const text = question ?? message ?? description
  return typeof text === 'string' ? text : null
}
