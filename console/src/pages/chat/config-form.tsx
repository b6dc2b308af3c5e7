/** The configuration of the next runs, as a form made from the schemas of the assistant. */
import { useState } from 'react'
import { client } from '../../api/client'
import { useLoad } from '../../api/load'
import { JsonEditor } from '../../ui/json-editor'
import { LoadedView } from '../../ui/notice'
import { type Schema, SchemaForm } from '../../ui/schema-form'

type Values = { [name: string]: unknown }
export interface Settings {
  context: Values
  configurable: Values
}

/** Kept in this tab for each assistant. */
export function useSettings(assistantId: string): [Settings, (settings: Settings) => void] {
  const stored = `weft.settings.${assistantId}`
  const [, again] = useState(0)
  const read = (): Settings => {
    try {
      return { context: {}, configurable: {}, ...JSON.parse(sessionStorage.getItem(stored) ?? '{}') }
    } catch {
      return { context: {}, configurable: {} }
    }
  }
  const write = (settings: Settings) => {
    sessionStorage.setItem(stored, JSON.stringify(settings))
    again(last => last + 1)
  }
  return [read(), write]
}

interface ConfigFormProps {
  assistantId: string
  settings: Settings
  onChange: (settings: Settings) => void
}

export function ConfigForm({ assistantId, settings, onChange }: ConfigFormProps) {
  const schemas = useLoad(`schemas ${assistantId}`, () => client.assistants.getSchemas(assistantId))
  return (
    <div className="pane-config">
      <JsonEditor
        label="configurable"
        hint="As JSON, for the next runs of this tab."
        rows={3}
        initial={Object.keys(settings.configurable).length === 0 ? '' : JSON.stringify(settings.configurable, null, 2)}
        onChange={value => {
          if (value === null || (typeof value === 'object' && !Array.isArray(value)))
            onChange({ ...settings, configurable: (value ?? {}) as Values })
        }}
      />
      <LoadedView of={schemas}>
        {({ context_schema, config_schema }) => {
          const schema = (context_schema ?? config_schema) as Schema | null | undefined
          if (Object.keys(schema?.properties ?? {}).length === 0) return null
          return (
            <SchemaForm
              schema={schema!}
              value={settings.context}
              onChange={context => onChange({ ...settings, context })}
            />
          )
        }}
      </LoadedView>
    </div>
  )
}
