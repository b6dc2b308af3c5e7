import type { Run } from '@langchain/langgraph-sdk'
import { useState } from 'react'
import { Link } from 'wouter'
import { client } from '../../api/client'
import { useLoad } from '../../api/load'
import { Choices } from '../../ui/choices'
import { Empty, LoadedView } from '../../ui/notice'
import { Page } from '../../ui/page'
import { Status } from '../../ui/status'
import { Ago, durationText } from '../../ui/time'

const STATUSES = ['all', 'pending', 'running', 'success', 'error', 'interrupted', 'timeout'] as const
type Filter = (typeof STATUSES)[number]
const EVERY_MS = 4_000
/** The API lists the runs of one thread. */
const THREADS = 20
const RUNS = 10
const OF_ONE_THREAD = 100

/** Runs with a status: of one thread, or of the threads that have changed last. */
export function RunTable({ threadId }: { threadId: string | null }) {
  const [status, setStatus] = useState<Filter>('all')
  const runs = useLoad(`runs ${threadId} ${status}`, () => latest(threadId, status), { every: EVERY_MS })
  return (
    <Page
      title="Runs"
      note={
        threadId === null ? (
          `Of the ${THREADS} threads that changed last. Runs without a thread are not listed by the API.`
        ) : (
          <>
            Of the thread <Link href={`/threads/${threadId}`}>{threadId}</Link>
          </>
        )
      }
      actions={<Choices label="Status" choices={STATUSES} value={status} onChange={setStatus} />}
    >
      <div className="card scroll-x">
        <LoadedView of={runs}>
          {rows =>
            rows.length === 0 ? (
              <Empty title={status === 'all' ? 'No run yet' : `No run is ${status}`} icon="runs" />
            ) : (
              <table className="table">
                <thead>
                  <tr>
                    <th>Run</th>
                    <th>Status</th>
                    <th>Graph</th>
                    <th>Created</th>
                    <th>Took</th>
                    <th>Thread</th>
                  </tr>
                </thead>
                <tbody>
                  {rows.map(run => (
                    <Row key={run.run_id} run={run} />
                  ))}
                </tbody>
              </table>
            )
          }
        </LoadedView>
      </div>
    </Page>
  )
}

const Row = ({ run: { run_id, thread_id, status, metadata, created_at, updated_at } }: { run: Run }) => (
  <tr>
    <td>
      <Link href={`/runs/${thread_id}/${run_id}`} className="mono">
        {run_id}
      </Link>
    </td>
    <td>
      <Status of={status} />
    </td>
    <td>{String((metadata as { graph_id?: string } | null)?.graph_id ?? '–')}</td>
    <td>
      <Ago at={created_at} />
    </td>
    <td>{hasEnded(status) ? durationText(Date.parse(updated_at) - Date.parse(created_at)) : '–'}</td>
    <td>
      <Link href={`/threads/${thread_id}`} className="mono">
        {thread_id.slice(0, 8)}…
      </Link>
    </td>
  </tr>
)

export const hasEnded = (status: Run['status']): boolean => status !== 'pending' && status !== 'running'

async function latest(threadId: string | null, filter: Filter): Promise<Run[]> {
  const status = filter === 'all' ? {} : { status: filter }
  if (threadId !== null) return client.runs.list(threadId, { limit: OF_ONE_THREAD, ...status })
  const isOpen = filter === 'pending' || filter === 'running'
  const threads = await client.threads.search({
    limit: THREADS,
    sortBy: 'updated_at',
    select: ['thread_id'],
    ...(isOpen ? { status: 'busy' as const } : {}),
  })
  const lists = await Promise.all(
    threads.map(({ thread_id }) => client.runs.list(thread_id, { limit: RUNS, ...status })),
  )
  return lists.flat().sort((a, b) => (a.created_at < b.created_at ? 1 : -1))
}
