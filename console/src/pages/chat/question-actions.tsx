/** Decisions about actions, as the human-in-the-loop middleware asks for them: one for each, sent together. */
import { useState } from 'react'
import { Button } from '../../ui/button'
import { Field } from '../../ui/field'
import { Json } from '../../ui/json'
import { JsonEditor } from '../../ui/json-editor'
import type { ActionRequest, Decision } from './question-shape'

interface ActionsProps {
  requests: ActionRequest[]
  decide: (decisions: Decision[]) => void
}

export function Actions({ requests, decide }: ActionsProps) {
  const [decisions, setDecisions] = useState<{ [at: number]: Decision }>({})
  const take = (at: number, decision: Decision) => {
    const all = { ...decisions, [at]: decision }
    setDecisions(all)
    if (Object.keys(all).length === requests.length) decide(requests.map((_, i) => all[i]!))
  }
  return requests.map((request, i) => (
    <Action key={i} of={request} decided={decisions[i]?.type ?? null} take={decision => take(i, decision)} />
  ))
}

interface ActionProps {
  of: ActionRequest
  decided: Decision['type'] | null
  take: (decision: Decision) => void
}

function Action({ of: { name, args: asked, description, allowed, edited }, decided, take }: ActionProps) {
  const [opened, setOpened] = useState<'edit' | 'reject' | 'respond' | null>(null)
  const [args, setArgs] = useState<unknown>(asked)
  const [message, setMessage] = useState('')
  const isAllowed = (one: ActionRequest['allowed'][number]) => allowed.includes(one)
  const done = (decision: Decision) => {
    setOpened(null)
    take(decision)
  }
  const said = message.trim() === '' ? {} : { message: message.trim() }
  return (
    <div className="question-action">
      <h3>
        {name} {decided !== null && <span className="status quiet">{decided}</span>}
      </h3>
      {description && <p className="muted">{description}</p>}
      {opened === 'edit' ? (
        <JsonEditor label="Arguments" initial={JSON.stringify(asked, null, 2)} onChange={setArgs} />
      ) : (
        <Json value={asked} />
      )}
      {(opened === 'reject' || opened === 'respond') && (
        <Field label={opened === 'reject' ? 'Reason' : 'Response'} hint="The model reads it.">
          {id => <input id={id} value={message} onChange={event => setMessage(event.target.value)} />}
        </Field>
      )}
      <div className="actions">
        {opened === null && isAllowed('approve') && (
          <Button kind="primary" icon="check" onClick={() => done({ type: 'approve' })}>
            Approve
          </Button>
        )}
        {opened === 'edit' && (
          <Button
            kind="primary"
            disabled={args === undefined}
            onClick={() => done({ type: 'edit', [edited]: { name, args } })}
          >
            Approve as edited
          </Button>
        )}
        {opened === 'respond' && (
          <Button kind="primary" disabled={message.trim() === ''} onClick={() => done({ type: 'respond', ...said })}>
            Send the response
          </Button>
        )}
        {opened === null && isAllowed('edit') && (
          <Button
            icon="edit"
            onClick={() => {
              setArgs(asked)
              setOpened('edit')
            }}
          >
            Edit
          </Button>
        )}
        {opened === null && isAllowed('respond') && (
          <Button icon="chat" onClick={() => setOpened('respond')}>
            Respond
          </Button>
        )}
        {opened === null && isAllowed('reject') && (
          <Button kind="danger" icon="close" onClick={() => setOpened('reject')}>
            Reject
          </Button>
        )}
        {opened === 'reject' && (
          <Button kind="danger" icon="close" onClick={() => done({ type: 'reject', ...said })}>
            {message.trim() === '' ? 'Reject without a reason' : 'Reject'}
          </Button>
        )}
        {opened !== null && (
          <Button kind="ghost" onClick={() => setOpened(null)}>
            Back
          </Button>
        )}
      </div>
    </div>
  )
}
