/** The threads, the latest first: by status, graph, words and metadata. The address holds what is asked for. */
import { type ReactNode, useDeferredValue } from 'react'
import { Link } from 'wouter'
import { client } from '../../api/client'
import { useLoad } from '../../api/load'
import { Button } from '../../ui/button'
import { Choices } from '../../ui/choices'
import { ACTIONS, ListTable } from '../../ui/list-table'
import { Empty, LoadedView, Trouble } from '../../ui/notice'
import { Page } from '../../ui/page'
import { Pager } from '../../ui/pager'
import { Status } from '../../ui/status'
import { Ago } from '../../ui/time'
import { useFilters } from '../../ui/use-filters'
import { useSending } from '../../ui/use-sending'
import { GraphFilter } from '../assistants/graph-filter'
import { DEPTH, type Found, findThreads, isWords, PAGE, type Row } from './search'
import { saidIn, tailOf, titleOf } from './title'

const STATUSES = ['all', 'idle', 'busy', 'interrupted', 'error'] as const
const EVERY_MS = 5_000

export function ThreadTable() {
  const [{ status = '', graph = '', q = '', from = '0', depth = '' }, setFilters] = useFilters()
  const text = useDeferredValue(q.trim())
  const asked = { status, graph, text, offset: Number(from) || 0, depth: Number(depth) || DEPTH }
  const threads = useLoad(
    `threads ${JSON.stringify(asked)}`,
    signal => findThreads(asked, signal),
    // Words take several requests.
    isWords(text) ? {} : { every: EVERY_MS },
  )
  const { busy, error, send } = useSending(threads.reload)
  const remove = (row: Row) => {
    if (confirm(`Delete the thread “${titleOf(row)}”, with its runs and checkpoints?`))
      void send(() => client.threads.delete(row.thread_id))
  }
  const isFiltered = status !== '' || graph !== '' || text !== ''
  return (
    <Page title="Threads" note="Each keeps the state of its graph after every step.">
      <search className="filters">
        <input
          type="search"
          aria-label="Search threads"
          placeholder="Words, an id, or user:ada of the metadata"
          value={q}
          onChange={event => setFilters({ q: event.target.value, from: '', depth: '' })}
        />
        <GraphFilter value={graph} onChange={next => setFilters({ graph: next, from: '' })} />
        <Choices
          label="Status"
          choices={STATUSES}
          value={STATUSES.find(one => one === status) ?? 'all'}
          onChange={next => setFilters({ status: next === 'all' ? '' : next, from: '' })}
        />
      </search>
      <Trouble error={error} />
      <div className="card scroll-x">
        <LoadedView of={threads}>
          {({ rows, ...found }) => (
            <>
              <Rows
                rows={rows}
                busy={busy}
                remove={remove}
                empty={
                  <Empty title={isFiltered ? 'No thread matches' : 'No thread yet'} icon="thread">
                    {isFiltered ? 'Other words or another status may.' : 'A conversation in Chat makes one.'}
                  </Empty>
                }
              />
              <Looked of={found} onMore={() => setFilters({ depth: String(asked.depth + DEPTH) })} />
            </>
          )}
        </LoadedView>
      </div>
      {!isWords(text) && (
        <Pager
          offset={asked.offset}
          size={PAGE}
          shown={threads.data?.rows.length}
          go={next => setFilters({ from: next })}
        />
      )}
    </Page>
  )
}

interface RowsProps {
  rows: Row[]
  busy: boolean
  remove: (row: Row) => void
  empty: ReactNode
}

const Rows = ({ rows, busy, remove, empty }: RowsProps) => (
  <ListTable rows={rows} columns={['Thread', 'Status', 'Graph', 'Updated', 'Created', ACTIONS]} empty={empty}>
    {row => (
      <tr key={row.thread_id}>
        <td>
          <div className="cell-title">
            <Link href={`/threads/${row.thread_id}`}>{titleOf(row)}</Link>
            {saidIn(row) !== null && <span className="muted mono">{tailOf(row.thread_id)}</span>}
          </div>
        </td>
        <td>
          <Status of={row.status} />
        </td>
        <td>{String(row.metadata?.graph_id ?? '–')}</td>
        <td className="nowrap">
          <Ago at={row.updated_at} />
        </td>
        <td className="nowrap only-wide">
          <Ago at={row.created_at} />
        </td>
        <td>
          <div className="cell-actions">
            <Button kind="ghost" icon="trash" label="Delete" disabled={busy} onClick={() => remove(row)} />
          </div>
        </td>
      </tr>
    )}
  </ListTable>
)

/** How far was looked for words. */
const Looked = ({ of: { looked, more }, onMore }: { of: Omit<Found, 'rows'>; onMore: () => void }) =>
  looked === null ? null : (
    <p className="looked muted" role="status">
      {more
        ? `Looked at the newest ${looked.toLocaleString()} threads.`
        : `Looked at every thread: ${looked.toLocaleString()}.`}
      {more && <Button onClick={onMore}>Look at {DEPTH.toLocaleString()} more</Button>}
    </p>
  )
