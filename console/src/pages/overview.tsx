/** The graphs of this server, and its state. */
import { Link } from 'wouter'
import { ask, client } from '../api/client'
import { useLoad } from '../api/load'
import { Empty, LoadedView } from '../ui/notice'
import { Page } from '../ui/page'
import { Status } from '../ui/status'
import { Ago } from '../ui/time'
import { TITLE, type Titled, titleOf } from './threads/title'

interface Info {
  version: string
  langgraph_js_version: string
}
interface Queue {
  queue: { n_pending: number | null; n_running: number | null; max_age_secs: number | null }
  workers: { max: number; active: number; available: number }
}

const EVERY_MS = 5_000

export default function Overview() {
  const info = useLoad('info', signal => ask<Info>('/info', { signal }))
  const queue = useLoad('queue', signal => ask<Queue>('/metrics?format=json', { signal }), { every: EVERY_MS })
  const assistants = useLoad('assistants', () => client.assistants.search({ limit: 50 }))
  const threads = useLoad(
    'threads',
    signal => ask<Thread[]>('/threads/search', { method: 'POST', body: LATEST, signal }),
    { every: EVERY_MS },
  )
  return (
    <Page title="Overview" note={info.data && `Weft ${info.data.version}, LangGraph ${info.data.langgraph_js_version}`}>
      <section aria-label="Load" className="tiles">
        <Tile name="Running" value={queue.data?.queue.n_running} />
        <Tile name="Waiting" value={queue.data?.queue.n_pending} />
        <Tile name="Oldest wait" value={queue.data && `${Math.round(queue.data.queue.max_age_secs ?? 0)} s`} />
        <Tile name="Free slots" value={queue.data && `${queue.data.workers.available} of ${queue.data.workers.max}`} />
      </section>
      <div className="two">
        <section className="card" aria-labelledby="assistants">
          <h2 id="assistants">Assistants</h2>
          <LoadedView of={assistants}>
            {list =>
              list.length === 0 ? (
                <Empty title="No assistant yet">A graph worker registers one for each graph.</Empty>
              ) : (
                <ul className="rows">
                  {list.map(({ assistant_id, name, graph_id, description }) => (
                    <li key={assistant_id}>
                      <div>
                        <Link href={`/assistants/${assistant_id}`}>{name}</Link>
                        <small className="muted">{description || `graph ${graph_id}`}</small>
                      </div>
                    </li>
                  ))}
                </ul>
              )
            }
          </LoadedView>
        </section>
        <section className="card" aria-labelledby="threads">
          <h2 id="threads">Latest threads</h2>
          <LoadedView of={threads}>
            {list =>
              list.length === 0 ? (
                <Empty title="No thread yet" icon="thread">
                  A thread keeps the state of a conversation.
                </Empty>
              ) : (
                <ul className="rows">
                  {list.map(({ thread_id, status, updated_at, ...named }) => (
                    <li key={thread_id}>
                      <Link href={`/threads/${thread_id}`} className="cut">
                        {titleOf({ thread_id, ...named })}
                      </Link>
                      <Status of={status} />
                      <small className="muted">
                        <Ago at={updated_at} />
                      </small>
                    </li>
                  ))}
                </ul>
              )
            }
          </LoadedView>
        </section>
      </div>
    </Page>
  )
}

interface Thread extends Titled {
  status: string
  updated_at: string
}

const LATEST = {
  limit: 8,
  sort_by: 'updated_at',
  sort_order: 'desc',
  select: ['thread_id', 'status', 'updated_at', 'metadata'],
  extract: TITLE,
}

const Tile = ({ name, value }: { name: string; value: number | string | null | undefined }) => (
  <div className="tile">
    <span className="muted">{name}</span>
    <strong>{value ?? '–'}</strong>
  </div>
)
