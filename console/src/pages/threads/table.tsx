import type { ThreadStatus } from '@langchain/langgraph-sdk'
import { useState } from 'react'
import { Link } from 'wouter'
import { client } from '../../api/client'
import { useLoad } from '../../api/load'
import { Button } from '../../ui/button'
import { Choices } from '../../ui/choices'
import { Empty, LoadedView } from '../../ui/notice'
import { Page } from '../../ui/page'
import { Status } from '../../ui/status'
import { Ago } from '../../ui/time'

const STATUSES = ['all', 'idle', 'busy', 'interrupted', 'error'] as const
const PAGE = 25
const EVERY_MS = 5_000

/** The threads of a status, the latest first. */
export function ThreadTable() {
  const [status, setStatus] = useState<(typeof STATUSES)[number]>('all')
  const [offset, setOffset] = useState(0)
  const threads = useLoad(
    `${status} ${offset}`,
    () =>
      client.threads.search({
        limit: PAGE,
        offset,
        sortBy: 'updated_at',
        ...(status === 'all' ? {} : { status: status as ThreadStatus }),
        select: ['thread_id', 'status', 'updated_at', 'created_at', 'metadata'],
      }),
    { every: EVERY_MS },
  )
  return (
    <Page
      title="Threads"
      note="Each keeps the state of its graph after every step."
      actions={
        <Choices
          label="Status"
          choices={STATUSES}
          value={status}
          onChange={next => {
            setStatus(next)
            setOffset(0)
          }}
        />
      }
    >
      <div className="card scroll-x">
        <LoadedView of={threads}>
          {rows =>
            rows.length === 0 ? (
              <Empty title={status === 'all' ? 'No thread yet' : `No thread is ${status}`} icon="thread">
                A conversation in Chat makes one.
              </Empty>
            ) : (
              <table className="table">
                <thead>
                  <tr>
                    <th>Thread</th>
                    <th>Status</th>
                    <th>Graph</th>
                    <th>Updated</th>
                    <th>Created</th>
                  </tr>
                </thead>
                <tbody>
                  {rows.map(({ thread_id, status, metadata, updated_at, created_at }) => (
                    <tr key={thread_id}>
                      <td>
                        <Link href={`/threads/${thread_id}`} className="mono">
                          {thread_id}
                        </Link>
                      </td>
                      <td>
                        <Status of={status} />
                      </td>
                      <td>{String(metadata?.graph_id ?? '–')}</td>
                      <td>
                        <Ago at={updated_at} />
                      </td>
                      <td>
                        <Ago at={created_at} />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            )
          }
        </LoadedView>
      </div>
      {(offset > 0 || threads.data?.length === PAGE) && (
        <div className="actions">
          <Button icon="left" disabled={offset === 0} onClick={() => setOffset(offset - PAGE)}>
            Newer
          </Button>
          <Button icon="right" disabled={(threads.data?.length ?? 0) < PAGE} onClick={() => setOffset(offset + PAGE)}>
            Older
          </Button>
        </div>
      )}
    </Page>
  )
}
