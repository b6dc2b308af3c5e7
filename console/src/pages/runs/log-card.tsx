/** The output of the nodes of a run. */
import { Link } from 'wouter'
import { Refusal } from '../../api/client'
import { useLoad } from '../../api/load'
import { LoadedView } from '../../ui/notice'
import { askLogs, Lines } from '../logs/lines'
import { hasEnded, type WholeRun } from './run-data'

const EVERY_MS = 2_000
const FORBIDDEN = 403

export function LogCard({ run }: { run: WholeRun }) {
  const { run_id, status } = run
  const isOver = hasEnded(run)
  const found = useLoad(`logs of ${run_id} ${status}`, signal => askLogs({ run_id }, signal), {
    every: isOver ? undefined : EVERY_MS,
  })
  // Lines are for operators: users of an application see their runs without them.
  if (found.error instanceof Refusal && found.error.status === FORBIDDEN) return null
  return (
    <section className="card" aria-label="Log lines">
      <div className="state-head">
        <strong>Log lines</strong>
        <Link href={`/logs?run=${run_id}`}>Open in Logs</Link>
      </div>
      <LoadedView of={found}>
        {({ lines }) =>
          lines.length > 0 ? (
            <Lines of={lines} />
          ) : (
            <p className="state-body muted">
              {isOver
                ? 'The run has written nothing, or its worker does not have the lines any more.'
                : 'The run has written nothing yet.'}
            </p>
          )
        }
      </LoadedView>
    </section>
  )
}
