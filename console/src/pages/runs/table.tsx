/** Rows of runs that can be chosen. On a phone each is a card. */
import { useEffect, useRef } from 'react'
import { Link } from 'wouter'
import { Id } from '../../ui/id'
import { Status } from '../../ui/status'
import { Ago, durationText } from '../../ui/time'
import { useNow } from '../../ui/use-now'
import { errorTextOf, graphOf, hasEnded, type Run } from './run-data'

interface RunTableProps {
  runs: readonly Run[]
  chosen: ReadonlySet<string>
  onChoose: (chosen: ReadonlySet<string>) => void
}

export function RunTable({ runs, chosen, onChoose }: RunTableProps) {
  const count = runs.filter(({ run_id }) => chosen.has(run_id)).length
  const isOpen = runs.some(run => !hasEnded(run))
  const now = useNow(isOpen ? 1_000 : null)
  const all = useRef<HTMLInputElement>(null)
  useEffect(() => {
    if (all.current !== null) all.current.indeterminate = count > 0 && count < runs.length
  }, [count, runs.length])
  const choose = (run_id: string, isChosen: boolean) => {
    const next = new Set(chosen)
    if (isChosen) next.add(run_id)
    else next.delete(run_id)
    onChoose(next)
  }
  return (
    <table className="table runs-table">
      <thead>
        <tr>
          <th className="run-box">
            <input
              ref={all}
              type="checkbox"
              aria-label={`Choose all ${runs.length} shown`}
              checked={count === runs.length}
              onChange={({ target }) => onChoose(new Set(target.checked ? runs.map(({ run_id }) => run_id) : []))}
            />
          </th>
          <th>Run</th>
          <th>Status</th>
          <th>Graph</th>
          <th className="run-error">Error</th>
          <th>Created</th>
          <th>Took</th>
          <th>Thread</th>
        </tr>
      </thead>
      <tbody>
        {runs.map(run => (
          <Row
            key={run.run_id}
            run={run}
            now={hasEnded(run) ? 0 : now}
            isChosen={chosen.has(run.run_id)}
            onChoose={isChosen => choose(run.run_id, isChosen)}
          />
        ))}
      </tbody>
    </table>
  )
}

interface RowProps {
  run: Run
  now: number
  isChosen: boolean
  onChoose: (isChosen: boolean) => void
}

function Row({ run, now, isChosen, onChoose }: RowProps) {
  const { run_id, thread_id, status, created_at, updated_at, cancel_reason } = run
  const ended = hasEnded(run) ? Date.parse(updated_at) : now
  const why = run.error ? errorTextOf(run.error) : (cancel_reason ?? '')
  return (
    <tr className={isChosen ? 'chosen' : ''}>
      <td className="run-box">
        <input
          type="checkbox"
          aria-label={`Choose run ${run_id}`}
          checked={isChosen}
          onChange={({ target }) => onChoose(target.checked)}
        />
      </td>
      <td>
        <Link href={`/runs/${thread_id}/${run_id}`}>
          <Id of={run_id} />
        </Link>
      </td>
      <td>
        <Status of={status} />
      </td>
      <td className="run-graph">{graphOf(run)}</td>
      <td className={`run-error ${run.error ? 'bad' : 'muted'}`} title={why}>
        <span>{why.split('\n', 1)[0]}</span>
      </td>
      <td className="run-when">
        <Ago at={created_at} />
      </td>
      <td className="run-took">{durationText(ended - Date.parse(created_at))}</td>
      <td className="run-thread">
        <Link href={`/threads/${thread_id}`}>
          <Id of={thread_id} />
        </Link>
      </td>
    </tr>
  )
}
