/** The latest times at which a cron fired, with the runs that it made. */
import { Link } from 'wouter'
import { ask } from '../../api/client'
import { useLoad } from '../../api/load'
import { LoadedView } from '../../ui/notice'
import { Status } from '../../ui/status'

interface Firing {
  scheduled_at: string
  late: boolean
  run_id: string | null
  thread_id: string | null
  /** Null: it was refused or removed. */
  run_status: string | null
  error: string | null
}

const EVERY_MS = 10_000

export function Firings({ cronId }: { cronId: string }) {
  const path = `/runs/crons/${cronId}/firings`
  const firings = useLoad(path, signal => ask<Firing[]>(path, { signal }), { every: EVERY_MS })
  return (
    <section className="firings" aria-label="Firings">
      <LoadedView of={firings}>
        {list =>
          list.length === 0 ? (
            <p className="muted">It has not fired yet.</p>
          ) : (
            <ol>
              {list.map(firing => (
                <li key={firing.scheduled_at}>
                  <time dateTime={firing.scheduled_at}>{new Date(firing.scheduled_at).toLocaleString()}</time>
                  {firing.late && <Status of="late" />}
                  <Outcome of={firing} />
                </li>
              ))}
            </ol>
          )
        }
      </LoadedView>
    </section>
  )
}

function Outcome({ of: { run_id, thread_id, run_status, error } }: { of: Firing }) {
  if (error !== null)
    return (
      <>
        <Status of="skipped" /> <span>{error}</span>
      </>
    )
  if (run_status === null) return <span className="muted">its run has ended and was removed</span>
  return (
    <>
      <Status of={run_status} />
      <Link href={`/runs/${thread_id}/${run_id}`} className="mono">
        {run_id}
      </Link>
    </>
  )
}
