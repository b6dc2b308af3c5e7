/** The threads that wait for a person, over all graphs, answered in place. */
import { useState } from 'react'
import { Link } from 'wouter'
import { goOn } from '../api/answer'
import { ask } from '../api/client'
import { useLoad } from '../api/load'
import { countWaiting } from '../api/waiting'
import { Icon } from '../ui/icon'
import { Empty, LoadedView, Trouble } from '../ui/notice'
import { Page } from '../ui/page'
import { Pager } from '../ui/pager'
import { Ago } from '../ui/time'
import { useFilters } from '../ui/use-filters'
import { useSending } from '../ui/use-sending'
import { GraphFilter } from './assistants/graph-filter'
import { Questions } from './chat/questions'
import { TITLE, type Titled, titleOf } from './threads/title'
import '../styles/inbox.css'

interface Waiting extends Titled {
  state_updated_at: string
  interrupts: { [task_id: string]: { id?: string; value?: unknown }[] }
}

interface Answered {
  thread_id: string
  run_id: string
  title: string
}

const PAGE = 20
const EVERY_MS = 5_000
const SEARCH = {
  status: 'interrupted',
  limit: PAGE,
  sort_by: 'state_updated_at',
  sort_order: 'desc',
  select: ['thread_id', 'metadata', 'state_updated_at', 'interrupts'],
  extract: TITLE,
}

export default function Inbox() {
  const [{ graph = '', from = '0' }, setFilters] = useFilters()
  const offset = Number(from) || 0
  const filter = graph === '' ? {} : { metadata: { graph_id: graph } }
  const threads = useLoad(
    `inbox ${graph} ${offset}`,
    signal => ask<Waiting[]>('/threads/search', { method: 'POST', body: { ...SEARCH, offset, ...filter }, signal }),
    { every: EVERY_MS },
  )
  const [answered, setAnswered] = useState<Answered | null>(null)
  const done = (answer: Answered) => {
    setAnswered(answer)
    threads.reload()
    void countWaiting()
  }
  return (
    <Page
      title="Inbox"
      note="Threads that wait for a person. An answer goes to the graph that asked."
      actions={<GraphFilter value={graph} onChange={next => setFilters({ graph: next, from: '' })} />}
    >
      {answered !== null && (
        <p className="answered" role="status">
          <Icon name="check" />
          <span>
            Answered “{answered.title}”.{' '}
            <Link href={`/runs/${answered.thread_id}/${answered.run_id}`}>See its run</Link>
          </span>
        </p>
      )}
      <LoadedView of={threads}>
        {rows =>
          rows.length === 0 ? (
            <div className="card">
              <Empty title="Nothing waits" icon="check">
                {graph === ''
                  ? 'A thread appears here when its graph stops and asks.'
                  : `No thread of the graph ${graph} waits.`}
              </Empty>
            </div>
          ) : (
            <ul className="inbox" aria-label="Waiting threads">
              {rows.map(thread => (
                // A graph that asks again has another question.
                <Row key={`${thread.thread_id} ${thread.state_updated_at}`} thread={thread} done={done} />
              ))}
            </ul>
          )
        }
      </LoadedView>
      <Pager offset={offset} size={PAGE} shown={threads.data?.length} go={next => setFilters({ from: next })} />
    </Page>
  )
}

function Row({ thread, done }: { thread: Waiting; done: (answered: Answered) => void }) {
  const { thread_id, metadata, state_updated_at, interrupts } = thread
  const title = titleOf(thread)
  const questions = Object.values(interrupts).flat()
  const [run, setRun] = useState<string | null>(null)
  const { busy, error, send } = useSending(() => {})
  const answer = (resume: unknown) =>
    void send(async () => {
      const { run_id } = await goOn(thread_id, resume)
      setRun(run_id)
      done({ thread_id, run_id, title })
    })
  return (
    <li className="card inbox-row">
      <div className="inbox-head">
        <h2>
          <Link href={`/threads/${thread_id}`}>{title}</Link>
        </h2>
        <span className="muted">{String(metadata?.graph_id ?? 'no graph')}</span>
        <span className="muted">
          <Ago at={state_updated_at} />
        </span>
        <Link href={`/chat/${thread_id}`} className="button ghost icon-only" aria-label="Open in Chat">
          <Icon name="chat" />
        </Link>
      </div>
      <Trouble error={error} />
      {run !== null ? (
        <p className="muted">Answered; the run goes on.</p>
      ) : (
        <Questions questions={questions} busy={busy} answer={answer} />
      )}
    </li>
  )
}
