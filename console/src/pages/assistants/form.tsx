/** An assistant as a form: a new one, or the next version of one. The context is a form made from the schema of its graph. */
import type { Assistant } from '@langchain/langgraph-sdk'
import { useState } from 'react'
import { client } from '../../api/client'
import { useLoad } from '../../api/load'
import { Button } from '../../ui/button'
import { Field } from '../../ui/field'
import { JsonEditor } from '../../ui/json-editor'
import { LoadedView, Trouble } from '../../ui/notice'
import { type Schema, SchemaForm } from '../../ui/schema-form'
import { useSending } from '../../ui/use-sending'

type Values = { [name: string]: unknown }

interface AssistantFormProps {
  /** Null: a new one. */
  assistant: Assistant | null
  close: () => void
  done: (assistant: Assistant) => void
}

const jsonOf = (value: object | undefined): string =>
  Object.keys(value ?? {}).length === 0 ? '' : JSON.stringify(value, null, 2)

export function AssistantForm({ assistant, close, done }: AssistantFormProps) {
  const served = useLoad('assistants', () => client.assistants.search({ limit: 100 }))
  const graphs = [...new Set((served.data ?? []).map(({ graph_id }) => graph_id))].sort()
  const [chosen, setChosen] = useState('')
  const graph = assistant?.graph_id ?? (chosen || (graphs[0] ?? ''))
  const [name, setName] = useState(assistant?.name ?? '')
  const [description, setDescription] = useState(assistant?.description ?? '')
  const [context, setContext] = useState((assistant?.context ?? {}) as Values)
  const [config, setConfig] = useState<unknown>(assistant?.config ?? {})
  const [metadata, setMetadata] = useState<unknown>(assistant?.metadata ?? {})
  const { busy, error, send } = useSending(() => {})
  const work = async () => {
    const payload = {
      name: name.trim(),
      description,
      context,
      config: (config ?? {}) as Assistant['config'],
      metadata: (metadata ?? {}) as Values,
    }
    done(
      assistant === null
        ? await client.assistants.create({ graphId: graph, ...payload })
        : await client.assistants.update(assistant.assistant_id, { graphId: graph, ...payload }),
    )
  }
  return (
    <form
      className="card cron-form"
      aria-label="Assistant"
      onSubmit={event => {
        event.preventDefault()
        void send(work)
      }}
    >
      <div className="two">
        {assistant === null && (
          <Field label="Graph of the assistant">
            {id => (
              <select id={id} value={graph} onChange={event => setChosen(event.target.value)}>
                {graphs.map(one => (
                  <option key={one} value={one}>
                    {one}
                  </option>
                ))}
              </select>
            )}
          </Field>
        )}
        <Field label="Name">
          {id => <input id={id} value={name} onChange={event => setName(event.target.value)} />}
        </Field>
        <Field label="Description">
          {id => <input id={id} value={description} onChange={event => setDescription(event.target.value)} />}
        </Field>
      </div>
      {graph !== '' && <Context key={graph} graph={graph} value={context} onChange={setContext} />}
      <div className="two">
        <JsonEditor
          label="Config"
          hint="recursion_limit, tags, configurable"
          rows={3}
          initial={jsonOf(assistant?.config)}
          onChange={setConfig}
        />
        <JsonEditor
          label="Metadata"
          hint="What the assistant is found by."
          rows={3}
          initial={jsonOf(assistant?.metadata ?? {})}
          onChange={setMetadata}
        />
      </div>
      <Trouble error={error ?? served.error} />
      <div className="actions">
        <Button
          kind="primary"
          type="submit"
          disabled={busy || name.trim() === '' || graph === '' || config === undefined || metadata === undefined}
        >
          {assistant === null ? 'Create' : 'Save as a new version'}
        </Button>
        <Button onClick={close}>Close</Button>
      </div>
    </form>
  )
}

interface ContextProps {
  graph: string
  value: Values
  onChange: (value: Values) => void
}

function Context({ graph, value, onChange }: ContextProps) {
  // The id of a graph is an id of its own assistant, too.
  const schemas = useLoad(`schemas ${graph}`, () => client.assistants.getSchemas(graph))
  const [initial] = useState(jsonOf(value))
  return (
    <LoadedView of={schemas}>
      {({ context_schema, config_schema }) => {
        const schema = (context_schema ?? config_schema) as Schema | null | undefined
        if (Object.keys(schema?.properties ?? {}).length > 0)
          return (
            <fieldset>
              <legend>Context</legend>
              <SchemaForm schema={schema!} value={value} onChange={onChange} />
            </fieldset>
          )
        return (
          <JsonEditor
            label="Context"
            hint="The graph has no schema for it."
            rows={3}
            initial={initial}
            onChange={next => next !== undefined && onChange((next ?? {}) as Values)}
          />
        )
      }}
    </LoadedView>
  )
}
