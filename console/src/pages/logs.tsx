/** The output of graphs and graph workers, as it comes. */
import { useState } from 'react'
import { useLoad } from '../api/load'
import { Button } from '../ui/button'
import { Choices } from '../ui/choices'
import { Choice, Typed } from '../ui/filter-fields'
import { Empty, LoadedView } from '../ui/notice'
import { Page } from '../ui/page'
import { useFilters } from '../ui/use-filters'
import { askLogs, Lines } from './logs/lines'
import '../styles/runs.css'

const EVERY_MS = 2_000
/** This level, and those above it. */
const LEASTS = ['all', 'info', 'warn', 'error'] as const
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

export default function LogPage() {
  const [{ text = '', level: given = '', worker = '', run = '' }, change] = useFilters()
  const level = LEASTS.find(one => one === given) ?? 'all'
  const [follows, setFollows] = useState(true)
  const query = Object.entries({ text, level, worker, run_id: run }).filter(
    ([, value]) => value !== '' && value !== 'all',
  )
  const found = useLoad(
    `logs ${query}`,
    signal => askLogs(Object.fromEntries(query), signal),
    follows ? { every: EVERY_MS } : {},
  )
  const workers = [...new Set([...(found.data?.workers.map(one => one.worker) ?? []), worker].filter(Boolean))]
  return (
    <Page
      title="Logs"
      note="What graphs write, and warnings of graph workers: the last 10,000 lines of each worker, at most an hour."
      actions={
        <Button icon={follows ? 'pause' : 'play'} onClick={() => setFollows(!follows)}>
          {follows ? 'Pause' : 'Follow'}
        </Button>
      }
    >
      <section className="card" aria-label="Filters">
        <div className="run-filters-head">
          <Choices
            label="Level"
            choices={LEASTS}
            value={level}
            onChange={next => change({ level: next === 'all' ? '' : next })}
          />
        </div>
        <div className="log-filters">
          <Typed label="Text" placeholder="A part of the line" value={text} onChange={next => change({ text: next })} />
          <Typed
            label="Run"
            placeholder="Id of a run"
            value={run}
            fault={id => (id === '' || UUID.test(id) ? null : 'Expected a UUID')}
            onChange={next => change({ run: next })}
          />
          <Choice
            label="Worker"
            any="Any worker"
            values={workers}
            value={worker}
            onChange={next => change({ worker: next })}
          />
        </div>
      </section>
      <section className="card log-page" aria-label="Log">
        <LoadedView of={found}>
          {({ lines }) =>
            lines.length > 0 ? (
              <Lines of={lines} withRuns />
            ) : (
              <Empty title="No line" icon="log">
                {query.length > 0
                  ? 'No line that is kept matches these conditions.'
                  : 'Nothing was written yet, or the lines were dropped.'}
              </Empty>
            )
          }
        </LoadedView>
      </section>
    </Page>
  )
}
