/** All runs that meet the conditions of the address, newest first. */
import { useEffect, useState } from 'react'
import { useSearchParams } from 'wouter'
import { ask } from '../../api/client'
import { useLoad } from '../../api/load'
import { Button } from '../../ui/button'
import { Empty, Failure, Skeleton, Trouble } from '../../ui/notice'
import { Page } from '../../ui/page'
import { clockText } from '../../ui/time'
import { type Action, Bulk, countText } from './bulk'
import { conditionsOf, type Filter, isAny, queryOf, readFilter } from './filter'
import { Filters } from './filters'
import { Outcomes } from './outcomes'
import { hasEnded, type Run } from './run-data'
import { RunTable } from './table'
import { useRuns } from './use-runs'

export function RunList() {
  const [query, setQuery] = useSearchParams()
  const filter = readFilter(query)
  const key = `${queryOf({ ...filter, live: true })}`
  const change = (part: Partial<Filter>) =>
    setQuery(queryOf({ ...filter, ...part }), { replace: 'text' in part || 'thread' in part })
  return (
    <Page
      title="Runs"
      note={<Total filter={filter} />}
      actions={
        <label className="switch">
          <input type="checkbox" checked={filter.live} onChange={({ target }) => change({ live: target.checked })} />
          Live
        </label>
      }
    >
      <Filters filter={filter} change={change} />
      {filter.text === '' && <Outcomes filter={filter} />}
      <Listing key={key} filter={filter} />
    </Page>
  )
}

/** A count reads an index when there is one condition; else it may read a million runs, and nobody needs it. */
function Total({ filter }: { filter: Filter }) {
  const { status, graph, assistant, thread, text } = filter
  const conditions = [graph, assistant, thread].filter(Boolean).length + (status.length > 0 ? 1 : 0)
  return conditions > 1 || text !== '' ? 'Newest first.' : <Counted filter={filter} />
}

function Counted({ filter }: { filter: Filter }) {
  const total = useLoad(`count ${queryOf({ ...filter, live: true })}`, async signal => {
    const count = await ask<number>('/runs/count', { method: 'POST', body: conditionsOf(filter), signal })
    return `${count.toLocaleString()} ${count === 1 ? 'run' : 'runs'} at ${clockText(new Date().toISOString())}`
  })
  return total.data === undefined ? 'Newest first.' : `${total.data}, newest first.`
}

function Listing({ filter }: { filter: Filter }) {
  const { rows, next, isLoaded, error, isReading, readMore, reload } = useRuns(filter)
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const [action, setAction] = useState<{ kind: Action; runs: readonly Run[] } | null>(null)
  const { shown, held, release } = useHeld(rows, chosen.size > 0)
  if (!isLoaded)
    return <div className="card">{error === null ? <Skeleton /> : <Failure error={error} retry={reload} />}</div>
  const runs = rows.filter(({ run_id }) => chosen.has(run_id))
  return (
    <>
      {shown.length > 0 && <Trouble error={error} />}
      {runs.length > 0 && (
        <ChosenBar
          runs={runs}
          onAction={kind => setAction({ kind, runs: kind === 'cancel' ? runs.filter(run => !hasEnded(run)) : runs })}
          clear={() => setChosen(new Set())}
        />
      )}
      {action !== null && (
        <Bulk
          action={action.kind}
          runs={action.runs}
          close={() => {
            setAction(null)
            setChosen(new Set())
            reload()
          }}
        />
      )}
      {held > 0 && (
        <Button icon="down" onClick={release}>
          Show {held} new {held === 1 ? 'run' : 'runs'}
        </Button>
      )}
      <section className="card" aria-label="List">
        {shown.length === 0 && error !== null ? (
          <Failure error={error} retry={reload} />
        ) : shown.length === 0 ? (
          <Nothing filter={filter} isEnd={next === null} />
        ) : (
          <RunTable runs={shown} chosen={chosen} onChoose={setChosen} />
        )}
      </section>
      <div className="actions run-more">
        {next !== null && (
          <Button icon="down" disabled={isReading} onClick={readMore}>
            {isReading ? 'Reading…' : 'Older runs'}
          </Button>
        )}
        {shown.length > 0 && (
          <span className="muted" role="status">
            {countText(shown.length)} shown{next === null ? ', the oldest last.' : '.'}
          </span>
        )}
      </div>
    </>
  )
}

/** While a person chooses runs, new ones wait: the rows stay where they are. */
function useHeld(rows: readonly Run[], isHeld: boolean) {
  const [top, setTop] = useState<string | null>(null)
  const first = rows[0]?.run_id ?? null
  useEffect(() => setTop(isHeld ? last => last ?? first : null), [isHeld, first])
  const held =
    top === null
      ? 0
      : Math.max(
          0,
          rows.findIndex(({ run_id }) => run_id === top),
        )
  return { shown: rows.slice(held), held, release: () => setTop(first) }
}

interface ChosenBarProps {
  runs: readonly Run[]
  onAction: (action: Action) => void
  clear: () => void
}

function ChosenBar({ runs, onAction, clear }: ChosenBarProps) {
  const open = runs.filter(run => !hasEnded(run)).length
  return (
    <section className="chosen-bar" aria-label="Chosen runs">
      <strong>{countText(runs.length)} chosen</strong>
      <div className="actions">
        <Button kind="danger" icon="stop" disabled={open === 0} onClick={() => onAction('cancel')}>
          Cancel
        </Button>
        <Button icon="redo" onClick={() => onAction('again')}>
          Run again
        </Button>
        <Button kind="ghost" icon="close" label="Choose none" onClick={clear} />
      </div>
    </section>
  )
}

function Nothing({ filter, isEnd }: { filter: Filter; isEnd: boolean }) {
  if (!isEnd)
    return (
      <Empty title="None among the newest runs" icon="search">
        Some thousand runs were looked at. There are older ones.
      </Empty>
    )
  if (isAny(filter) && filter.since === '')
    return (
      <Empty title="No run yet" icon="runs">
        Runs appear here as soon as a client creates one.
      </Empty>
    )
  if (filter.status.length === 1 && isAny({ ...filter, status: [] }) && filter.since === '')
    return <Empty title={`No run is ${filter.status[0]}`} icon="runs" />
  return (
    <Empty title="No run meets these conditions" icon="runs">
      Runs without a thread are removed about a minute after their end.
    </Empty>
  )
}
