import type { ReactNode } from 'react'
import { Link } from 'wouter'
import { client } from '../../api/client'
import { useLoad } from '../../api/load'
import { CopyButton } from '../../ui/copy'
import { Id } from '../../ui/id'
import { Status } from '../../ui/status'
import { Ago, durationText } from '../../ui/time'
import { useNow } from '../../ui/use-now'
import { type Execution, graphOf, hasEnded, type RunWait, type WholeRun } from './run-data'

interface FactsProps {
  run: WholeRun
  /** Null: it is not known yet. */
  execution: Execution | null
  /** As the events say. */
  attempt: number | null
}

/** The facts of a run: its graph, its worker, its times. */
export function Facts({ run, execution, attempt }: FactsProps) {
  const { status, created_at, updated_at, assistant_id, thread_id, kwargs } = run
  // Without a name when it was deleted.
  const assistant = useLoad(`name of ${assistant_id}`, async () => (await client.assistants.get(assistant_id)).name)
  const isOver = hasEnded(run)
  const now = useNow(isOver ? null : 1_000)
  const created = Date.parse(created_at)
  const end = isOver ? Date.parse(execution?.ended_at ?? updated_at) : now
  const started = execution?.started_at == null ? null : Date.parse(execution.started_at)
  const waited = started ?? (isOver ? null : now)
  return (
    <section className="card" aria-label="Run">
      <dl className="facts">
        <Fact name="Status">
          <Status of={status} />
        </Fact>
        <Fact name="Graph">
          <Link href={`/graphs/${assistant_id}`}>{graphOf(run)}</Link>
        </Fact>
        <Fact name="Assistant">
          <Link href={`/runs?assistant=${assistant_id}`} title={`All runs of ${assistant_id}`}>
            {assistant.data ?? <Id of={assistant_id} />}
          </Link>
        </Fact>
        <Fact name="Thread">
          {kwargs.temporary ? (
            'none'
          ) : (
            <>
              <Link href={`/threads/${thread_id}`}>
                <Id of={thread_id} />
              </Link>
              <Link href={`/runs?thread=${thread_id}`} className="muted">
                its runs
              </Link>
            </>
          )}
        </Fact>
        <Fact name="Created">
          <Ago at={created_at} /> <span className="muted">{new Date(created_at).toLocaleTimeString()}</span>
        </Fact>
        <Fact name="Waited">{waited === null ? '–' : durationText(waited - created)}</Fact>
        <Fact name="Executed">{started === null ? '–' : durationText(end - started)}</Fact>
        <Fact name="Attempt">{execution?.attempt || attempt || '–'}</Fact>
        <Fact name="Pool">{execution?.pool ?? '–'}</Fact>
        {execution?.waits_for != null && status === 'pending' && (
          <Fact name="Waits for" isWide>
            <Wait wait={execution.waits_for} thread={thread_id} />
          </Fact>
        )}
        {execution?.worker != null && (
          <Fact name="Worker" isWide>
            <Link href="/workers" className="mono">
              {execution.worker}
            </Link>
          </Fact>
        )}
        {execution?.trace_id != null && (
          <Fact name="Trace">
            <Id of={execution.trace_id} />
            <CopyButton text={execution.trace_id} label="Copy the trace id" />
          </Fact>
        )}
      </dl>
    </section>
  )
}

function Wait({ wait, thread }: { wait: RunWait; thread: string }) {
  const { reason, until, run_id, of, running, most } = wait
  if (reason === 'time') return <>its time, {new Date(until!).toLocaleString()}</>
  if (reason === 'thread')
    return (
      <>
        the end of run{' '}
        <Link href={`/runs/${thread}/${run_id}`}>
          <Id of={run_id!} />
        </Link>{' '}
        of its thread
      </>
    )
  if (reason === 'worker') return <>a graph worker of its pool: none is there</>
  if (reason === 'rate')
    return (
      <>
        the rate of its {of}: the next run may start at {new Date(until!).toLocaleString()}
      </>
    )
  if (reason === 'slot') return <>a free slot</>
  const counts = most === undefined ? '' : `: ${running} of ${most} run`
  return (
    <>
      the limit of its {of}
      {counts}
    </>
  )
}

interface FactProps {
  name: string
  isWide?: boolean
  children: ReactNode
}

const Fact = ({ name, isWide = false, children }: FactProps) => (
  <div className={isWide ? 'fact-wide' : undefined}>
    <dt>{name}</dt>
    <dd>{children}</dd>
  </div>
)
