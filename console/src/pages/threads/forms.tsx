/** Forms for a checkpoint: update the state, or run from it. Both create a fork when the checkpoint is not the newest. */
import type { Assistant } from '@langchain/langgraph-sdk'
import { useState } from 'react'
import { authorIn, authorOf } from '../../api/author'
import { client } from '../../api/client'
import { useLoad } from '../../api/load'
import { Button } from '../../ui/button'
import { Field } from '../../ui/field'
import { JsonEditor } from '../../ui/json-editor'
import { Trouble } from '../../ui/notice'
import { useSending } from '../../ui/use-sending'
import { AssistantSelect } from '../assistants/select'
import { idOf, type State } from './state'

interface FormProps {
  threadId: string
  state: State
  done: () => void
}

export function UpdateState({ threadId, state, done }: FormProps) {
  const [values, setValues] = useState<unknown>({})
  const [node, setNode] = useState('')
  const work = () =>
    client.threads.updateState(threadId, {
      values: values as { [key: string]: unknown } | null,
      checkpoint: state.checkpoint,
      ...(node === '' ? {} : { asNode: node }),
    })
  const { busy, error, send } = useSending(done)
  return (
    <form
      className="state-form"
      onSubmit={event => {
        event.preventDefault()
        void send(work)
      }}
    >
      <JsonEditor
        label="Values"
        hint="As a node would return them: the reducers of the state apply."
        initial="{}"
        onChange={setValues}
      />
      <Field label="As node" hint="Empty: the node that ran last.">
        {id => <input id={id} value={node} spellCheck={false} onChange={event => setNode(event.target.value.trim())} />}
      </Field>
      <Trouble error={error} />
      <div className="actions">
        <Button kind="primary" type="submit" disabled={busy || values === undefined}>
          Write the state
        </Button>
      </div>
    </form>
  )
}

export function RunFrom({ threadId, state, done }: FormProps) {
  const [input, setInput] = useState<unknown>(null)
  const [chosen, setChosen] = useState<Assistant | null>(null)
  const assistants = useLoad('assistants', () => client.assistants.search({ limit: 100 }))
  const author = useLoad(
    `author of ${threadId} ${idOf(state)}`,
    async () => (await authorIn(state.metadata)) ?? authorOf(threadId),
  )
  const selected = chosen ?? author.data?.assistant ?? null
  const work = () =>
    client.runs.create(threadId, selected!.assistant_id, {
      input: input as { [key: string]: unknown } | null,
      checkpoint: state.checkpoint,
    })
  const { busy, error, send } = useSending(done)
  return (
    <form
      className="state-form"
      onSubmit={event => {
        event.preventDefault()
        void send(work)
      }}
    >
      <Field label="Assistant">
        {id => (
          <AssistantSelect
            id={id}
            assistants={author.data === undefined ? [] : (assistants.data ?? [])}
            author={author.data ?? null}
            chosen={selected}
            onChoose={setChosen}
          />
        )}
      </Field>
      <JsonEditor
        label="Input"
        hint="Empty: the nodes that are next at this checkpoint run again."
        rows={4}
        initial=""
        onChange={setInput}
      />
      <Trouble error={error ?? author.error ?? assistants.error} />
      <div className="actions">
        <Button kind="primary" icon="play" type="submit" disabled={busy || input === undefined || selected === null}>
          Run
        </Button>
      </div>
    </form>
  )
}
