import { Button } from '../../ui/button'
import { ACTIONS, ListTable } from '../../ui/list-table'
import { Status } from '../../ui/status'
import { Ago, durationText } from '../../ui/time'
import { type Deployment, hasEnded, type Revision, shortId, sourceText, wordsOf } from './types'

interface RevisionsProps {
  deployment: Deployment
  rows: readonly Revision[]
  /** The revision whose log is shown. */
  shown: string | null
  show: (id: string) => void
  busy: boolean
  redeploy: (revision: Revision) => void
  interrupt: (revision: Revision) => void
}

/** The history of a deployment, newest first. */
export const Revisions = ({ deployment, rows, shown, show, busy, redeploy, interrupt }: RevisionsProps) => (
  <section className="card scroll-x" aria-label="Revisions">
    <ListTable rows={rows} columns={['Revision', 'Status', 'Source', 'Created', 'Took', ACTIONS]}>
      {revision => (
        <tr key={revision.id} aria-current={revision.id === shown ? 'true' : undefined}>
          <td>
            <button
              type="button"
              className="link mono"
              aria-pressed={revision.id === shown}
              title="Show its log"
              onClick={() => show(revision.id)}
            >
              {shortId(revision.id)}
            </button>
            {revision.id === deployment.active_revision_id && <span className="serves"> serves</span>}
          </td>
          <td>
            <Status of={wordsOf(revision.status)} />
            {revision.status_message && <p className="message">{revision.status_message}</p>}
          </td>
          <td className="break">
            {sourceText(revision.source_revision_config)}
            {revision.redeploy_of !== null && <span className="muted"> as {shortId(revision.redeploy_of)}</span>}
          </td>
          <td>
            <Ago at={revision.created_at} />
          </td>
          <td>{tookText(revision)}</td>
          <td>
            <div className="actions">
              {hasEnded(revision) ? (
                revision.status !== 'SKIPPED' && (
                  <Button kind="ghost" icon="redo" disabled={busy} onClick={() => redeploy(revision)}>
                    {redeployText(deployment, revision)}
                  </Button>
                )
              ) : (
                <Button kind="ghost" icon="stop" disabled={busy} onClick={() => interrupt(revision)}>
                  Interrupt
                </Button>
              )}
            </div>
          </td>
        </tr>
      )}
    </ListTable>
  </section>
)

function redeployText({ active_revision_id }: Deployment, { id, status }: Revision): string {
  if (id === active_revision_id) return 'Deploy again'
  return status === 'DEPLOYED' ? 'Roll back' : 'Try again'
}

const tookText = ({ started_at, finished_at }: Revision): string =>
  started_at === null || finished_at === null ? '–' : durationText(Date.parse(finished_at) - Date.parse(started_at))
