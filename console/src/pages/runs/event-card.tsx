import { useState } from 'react'
import { Choices } from '../../ui/choices'
import { Icon } from '../../ui/icon'
import { Json } from '../../ui/json'
import { Trouble } from '../../ui/notice'
import { type Events, render } from './events'

const VIEWS = ['Rendered', 'Raw'] as const

interface EventCardProps {
  events: Events
  hasEnded: boolean
  /** Whether the nodes are shown above. */
  hasSteps: boolean
}

/** The events of a run as they come, or why there are none. */
export function EventCard({ events, hasEnded, hasSteps }: EventCardProps) {
  const { list, ended, isExpired, error } = events
  const [view, setView] = useState<(typeof VIEWS)[number]>('Rendered')
  return (
    <section className="card" aria-label="Events">
      <div className="state-head">
        <strong>Events</strong>
        {list.length > 0 && (
          <div className="actions">
            <span className="muted">
              {list.length} {list.length === 1 ? 'event' : 'events'}
              {ended ? '' : ', following'}
            </span>
            <Choices label="View" choices={VIEWS} value={view} onChange={setView} />
          </div>
        )}
      </div>
      <div className="state-body">
        {isExpired ? (
          <p className="muted">
            The events of this run have expired: they are kept for about a minute after its end, and longer for a run
            that was created with <code>stream_resumable</code>.
            {hasSteps && ' The nodes above are from its checkpoints, which are kept.'}
          </p>
        ) : (
          <Trouble error={error} />
        )}
        {list.length === 0 && !isExpired && !error && (
          <p className="muted">{hasEnded && ended ? 'The run has sent no event.' : 'Waiting for the first event…'}</p>
        )}
        {list.length > 0 && <EventList list={list} isRaw={view === 'Raw'} />}
      </div>
    </section>
  )
}

const EventList = ({ list, isRaw }: { list: Events['list']; isRaw: boolean }) => (
  <ol className={isRaw ? 'events raw' : 'events'}>
    {isRaw
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
)
