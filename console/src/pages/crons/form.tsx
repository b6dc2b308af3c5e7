import type { Cron } from '@langchain/langgraph-sdk'
import { useState } from 'react'
import { client } from '../../api/client'
import { useLoad } from '../../api/load'
import { Button } from '../../ui/button'
import { Field } from '../../ui/field'
import { JsonEditor } from '../../ui/json-editor'
import { Trouble } from '../../ui/notice'
import { useSending } from '../../ui/use-sending'

interface CronFormProps {
  /** Null: a new one. */
  cron: Cron | null
  close: () => void
}

/** Schedule, time zone and input of a cron. */
export function CronForm({ cron, close }: CronFormProps) {
  const assistants = useLoad('assistants', () => client.assistants.search({ limit: 100 }))
  const [assistant, setAssistant] = useState(cron?.assistant_id ?? '')
  const [schedule, setSchedule] = useState(cron?.schedule ?? '0 9 * * *')
  const [timezone, setTimezone] = useState(cron?.timezone ?? Intl.DateTimeFormat().resolvedOptions().timeZone)
  const [input, setInput] = useState<unknown>(cron?.payload.input ?? null)
  const { busy, error, send } = useSending(close)
  const list = assistants.data ?? []
  const chosen = assistant || list[0]?.assistant_id
  const work = () => {
    const payload = { schedule, timezone, input: input as { [key: string]: unknown } | null }
    return cron === null ? client.crons.create(chosen!, payload) : client.crons.update(cron.cron_id, payload)
  }
  return (
    <form
      className="card cron-form"
      aria-label="Cron"
      onSubmit={event => {
        event.preventDefault()
        void send(work)
      }}
    >
      <div className="two">
        {cron === null && (
          <Field label="Assistant">
            {id => (
              <select id={id} value={chosen ?? ''} onChange={event => setAssistant(event.target.value)}>
                {list.map(({ assistant_id, name }) => (
                  <option key={assistant_id} value={assistant_id}>
                    {name}
                  </option>
                ))}
              </select>
            )}
          </Field>
        )}
        <Field label="Schedule" hint="Minute, hour, day, month, weekday.">
          {id => (
            <input
              id={id}
              className="mono"
              value={schedule}
              spellCheck={false}
              onChange={event => setSchedule(event.target.value)}
            />
          )}
        </Field>
        <Field label="Time zone" hint="A name of the IANA list.">
          {id => (
            <input id={id} value={timezone} spellCheck={false} onChange={event => setTimezone(event.target.value)} />
          )}
        </Field>
      </div>
      <JsonEditor
        label="Input"
        rows={4}
        initial={input === null ? '' : JSON.stringify(input, null, 2)}
        onChange={setInput}
      />
      <Trouble error={error ?? assistants.error} />
      <div className="actions">
        <Button kind="primary" type="submit" disabled={busy || input === undefined || (cron === null && !chosen)}>
          {cron === null ? 'Create' : 'Save'}
        </Button>
        <Button onClick={close}>Close</Button>
      </div>
    </form>
  )
}
