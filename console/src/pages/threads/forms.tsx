/** Forms for a checkpoint: update the state, or run from it. Both create a fork when the checkpoint is not the newest. */
import type { Assistant } from '@langchain/langgraph-sdk'
import { useState } from 'react'
import { authorIn, authorOf } from '../../api/author'
import { client } from '../../api/client'
import { useLoad } from '../../api/load'
import { Button } from '../../ui/button'
import { Field } from '../../ui/field'
import { JsonEditor } from '../../ui/json-editor'
import { LoadedView, Trouble } from '../../ui/notice'
import { useSending } from '../../ui/use-sending'
import { AssistantSelect } from '../assistants/select'
import { idOf, type State, useValues } from './state'

interface FormProps {
  threadId: string
  state: State
  done: () => void
}

/** Characters of values that a person edits as a whole. */
const EDITABLE = 50_000

export function UpdateState({ threadId, state, done }: FormProps) {
  const loaded = useValues(threadId, state)
  return (
    <LoadedView of={loaded}>
      {({ values }) => <UpdateForm threadId={threadId} state={state} done={done} before={values} />}
    </LoadedView>
  )
}

function UpdateForm({ threadId, state, done, before }: FormProps & { before: unknown }) {
  const text = JSON.stringify(before, null, 2)
  const isLarge = text.length > EDITABLE
  const [values, setValues] = useState<unknown>(isLarge ? {} : before)
  const [node, setNode] = useState('')
  const nodes = useLoad(`nodes of ${threadId} ${idOf(state)}`, async () => {
    const author = (await authorIn(state.metadata)) ?? (await authorOf(threadId))
    if (!author?.assistant) return []
    const graph = await client.assistants.getGraph(author.assistant.assistant_id)
    return graph.nodes.map(({ id }) => String(id)).filter(id => !OUTSIDE.includes(id))
  })
  const changed = changedIn(before, values)
  const work = () =>
    client.threads.updateState(threadId, {
      values: changed as { [key: string]: unknown } | null,
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
        hint={`${isLarge ? 'The state is large: name the members to write. ' : ''}Members that you change are written as if a node had returned them, through their reducers: a list may grow by what you write, a message with the same id is replaced.`}
        rows={10}
        initial={isLarge ? '{}' : text}
        onChange={setValues}
      />
      <Field label="As node" hint="What follows this node runs next.">
        {id => (
          <select id={id} value={node} onChange={event => setNode(event.target.value)}>
            <option value="">The node that ran last</option>
            {(nodes.data ?? []).map(name => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        )}
      </Field>
      <Trouble error={error ?? nodes.error} />
      <div className="actions">
        <Button
          kind="primary"
          type="submit"
          disabled={busy || values === undefined || (changed === null && node === '')}
        >
          Write the state
        </Button>
        {changed === null && <span className="muted">Nothing is changed yet.</span>}
      </div>
    </form>
  )
}

const OUTSIDE = ['__start__', '__end__']

/** The members that differ from before; null when none does. */
function changedIn(before: unknown, after: unknown): unknown {
  if (typeof after !== 'object' || after === null || Array.isArray(after)) return after ?? null
  const old = (before ?? {}) as { [name: string]: unknown }
  const changed = Object.entries(after).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(old[name]))
  return changed.length === 0 ? null : Object.fromEntries(changed)
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
