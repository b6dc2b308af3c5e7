import { useState } from 'react'
import { Link } from 'wouter'
import { client } from '../../api/client'
import { useLoad } from '../../api/load'
import { Button } from '../../ui/button'
import { Choices } from '../../ui/choices'
import { Icon } from '../../ui/icon'
import { Json } from '../../ui/json'
import { Empty, LoadedView, Trouble } from '../../ui/notice'
import { Page } from '../../ui/page'
import { Status } from '../../ui/status'
import { Ago, durationText } from '../../ui/time'
import { Deliveries } from './deliveries'
import { type Events, render, useEvents } from './events'
import { hasEnded } from './table'

const VIEWS = ['Rendered', 'Raw', 'Request'] as const
const EVERY_MS = 2_000

/** One run: its status, its events as they come, and what was asked for. */
export function RunView({ threadId, runId }: { threadId: string; runId: string }) {
  const run = useLoad(runId, () => client.runs.get(threadId, runId), { every: EVERY_MS })
  const events = useEvents(threadId, runId)
  const [view, setView] = useState<(typeof VIEWS)[number]>('Rendered')
  const [error, setError] = useState<unknown>(null)
  const cancel = () => {
    setError(null)
    client.runs.cancel(threadId, runId).then(run.reload, setError)
  }
  return (
    <Page
      title={<span className="mono run-id">{runId}</span>}
      note={
        <Link href={`/threads/${threadId}`}>
          Thread <span className="mono">{threadId}</span>
        </Link>
      }
      actions={
        run.data !== undefined &&
        !hasEnded(run.data.status) && (
          <Button kind="danger" icon="stop" onClick={cancel}>
            Cancel
          </Button>
        )
      }
    >
      <Trouble error={error} />
      <LoadedView of={run}>
        {({ status, created_at, updated_at, cancel_reason, ...others }) => (
          <>
            <section className="tiles" aria-label="Run">
              <Tile name="Status">
                <Status of={status} />
              </Tile>
              <Tile name="Created">
                <Ago at={created_at} />
              </Tile>
              <Tile name="Took">
                {hasEnded(status) ? durationText(Date.parse(updated_at) - Date.parse(created_at)) : '–'}
              </Tile>
              <Tile name="Attempt">{events.attempt ?? '–'}</Tile>
            </section>
            {cancel_reason && <Trouble error={new Error(cancel_reason)} />}
            {hasWebhook(others) && <Deliveries threadId={threadId} runId={runId} />}
            <section className="card" aria-label="Events">
              <div className="state-head">
                <Choices label="View" choices={VIEWS} value={view} onChange={setView} />
                <span className="muted">
                  {events.list.length} events{events.ended ? '' : ', following'}
                </span>
              </div>
              <div className="state-body">
                {view === 'Request' ? (
                  <Json value={others} open={5} />
                ) : (
                  <EventList events={events} raw={view === 'Raw'} />
                )}
              </div>
            </section>
          </>
        )}
      </LoadedView>
    </Page>
  )
}

const hasWebhook = (run: object): boolean => Boolean((run as { kwargs?: { webhook?: unknown } }).kwargs?.webhook)

const Tile = ({ name, children }: { name: string; children: React.ReactNode }) => (
  <div className="tile">
    <span className="muted">{name}</span>
    <strong>{children}</strong>
  </div>
)

function EventList({ events: { list, ended, error }, raw }: { events: Events; raw: boolean }) {
  if (list.length === 0)
    return (
      <>
        <Trouble error={error} />
        {ended && (
          <Empty title="No events" icon="runs">
            The events of a run are kept for a while, and longer when it was created with <code>stream_resumable</code>.
          </Empty>
        )}
        {!ended && <p className="muted">Waiting for the first event…</p>}
      </>
    )
  return (
    <>
      <Trouble error={error} />
      <ol className={raw ? 'events raw' : 'events'}>
        {raw
          ? list.map(({ id, event, data }, i) => (
              <li key={id || i}>
                <span className="muted">{id}</span> <strong>{event}</strong> {JSON.stringify(data)}
              </li>
            ))
          : render(list).map(({ id, name, text, data }, i) => (
              <li key={id || i}>
                <span className={`event-name ${name === 'error' ? 'bad' : ''}`}>
                  {name === 'error' && <Icon name="warn" />}
                  {name}
                </span>
                {text === undefined ? <Json value={data} open={name === 'error' ? 2 : 0} /> : <p>{text}</p>}
              </li>
            ))}
      </ol>
    </>
  )
}
