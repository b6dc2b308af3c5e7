/** The conditions of the list. Each change is in the address at once. */
import { useState } from 'react'
import { client } from '../../api/client'
import { useLoad } from '../../api/load'
import { Button } from '../../ui/button'
import { Field } from '../../ui/field'
import { Choice, Typed } from '../../ui/filter-fields'
import { type Filter, isAny, isSpan, STATUSES, type Status } from './filter'

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i
const ASSISTANTS = 1_000

interface FiltersProps {
  filter: Filter
  change: (part: Partial<Filter>) => void
}

export function Filters({ filter, change }: FiltersProps) {
  const [isOpen, setOpen] = useState(false)
  const assistants = useLoad('assistants', () =>
    client.assistants.search({ limit: ASSISTANTS, select: ['assistant_id', 'graph_id', 'name'] }),
  )
  const list = assistants.data ?? []
  const graphs = withChosen([...new Set(list.map(({ graph_id }) => graph_id))].sort(), filter.graph)
  const names = new Map(list.map(({ assistant_id, name }) => [assistant_id, name]))
  const offered = list.filter(({ graph_id }) => filter.graph === '' || graph_id === filter.graph)
  const chosen = withChosen(
    offered.map(({ assistant_id }) => assistant_id),
    filter.assistant,
  )
  return (
    <section className={`card run-filters ${isOpen ? 'open' : ''}`} aria-label="Filters">
      <div className="run-filters-head">
        <Statuses chosen={filter.status} onChange={status => change({ status })} />
        <div className="actions">
          {!(isAny(filter) && filter.since === '') && (
            <Button
              kind="ghost"
              icon="close"
              onClick={() => change({ status: [], graph: '', assistant: '', thread: '', text: '', since: '' })}
            >
              Clear
            </Button>
          )}
          <span className="phone-only">
            <Button icon="settings" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
              More filters
            </Button>
          </span>
        </div>
      </div>
      <div className="run-filters-fields">
        <Time since={filter.since} onChange={since => change({ since })} />
        <Choice
          label="Graph"
          any="Any graph"
          values={graphs}
          value={filter.graph}
          onChange={graph => change({ graph, assistant: '' })}
        />
        <Choice
          label="Assistant"
          any="Any assistant"
          values={chosen}
          nameOf={id => names.get(id) ?? id}
          value={filter.assistant}
          onChange={assistant => change({ assistant })}
        />
        <Typed
          label="Thread"
          placeholder="Id of a thread"
          value={filter.thread}
          fault={text => (text === '' || UUID.test(text) ? null : 'Expected a UUID')}
          onChange={thread => change({ thread })}
        />
        <Typed
          label="Error contains"
          placeholder="KeyError, timed out, …"
          value={filter.text}
          onChange={text => change({ text })}
        />
      </div>
    </section>
  )
}

const withChosen = (values: string[], value: string): string[] =>
  value === '' || values.includes(value) ? values : [value, ...values]

/** Any of the pressed ones; none pressed: all. */
const Statuses = ({
  chosen,
  onChange,
}: {
  chosen: readonly Status[]
  onChange: (status: readonly Status[]) => void
}) => (
  <fieldset className="choices">
    <legend className="hidden">Status</legend>
    <button type="button" aria-pressed={chosen.length === 0} onClick={() => onChange([])}>
      all
    </button>
    {STATUSES.map(status => (
      <button
        key={status}
        type="button"
        aria-pressed={chosen.includes(status)}
        onClick={() =>
          onChange(STATUSES.filter(one => (one === status ? !chosen.includes(one) : chosen.includes(one))))
        }
      >
        {status}
      </button>
    ))}
  </fieldset>
)

const TIMES = { '': 'Any time', hour: 'Last hour', day: 'Last day', week: 'Last week' } as const
const SINCE = 'since'

function Time({ since, onChange }: { since: string; onChange: (since: string) => void }) {
  const isTime = since !== '' && !isSpan(since)
  return (
    <Field label="Created">
      {id => (
        <span className="run-time">
          <select
            id={id}
            value={isTime ? SINCE : since}
            onChange={({ target: { value } }) => onChange(value === SINCE ? startOfToday() : value)}
          >
            {Object.entries(TIMES).map(([value, name]) => (
              <option key={value} value={value}>
                {name}
              </option>
            ))}
            <option value={SINCE}>Since…</option>
          </select>
          {isTime && (
            <input
              type="datetime-local"
              aria-label="Created since"
              value={localText(new Date(since))}
              onChange={({ target: { value } }) => value !== '' && onChange(new Date(value).toISOString())}
            />
          )}
        </span>
      )}
    </Field>
  )
}

const startOfToday = (): string => new Date(new Date().setHours(0, 0, 0, 0)).toISOString()

/** In the time zone of the browser, as the input takes it. */
const localText = (time: Date): string =>
  new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16)
