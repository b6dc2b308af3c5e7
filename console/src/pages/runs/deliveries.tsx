/** The webhook of a run: its state, its attempts, and one more on request. */
import { ask } from '../../api/client'
import { useLoad } from '../../api/load'
import { Button } from '../../ui/button'
import { ListTable } from '../../ui/list-table'
import { LoadedView, Trouble } from '../../ui/notice'
import { Status } from '../../ui/status'
import { Ago, clockText, durationText } from '../../ui/time'
import { useSending } from '../../ui/use-sending'

interface Attempt {
  attempt: number
  started_at: string
  ended_at: string | null
  status: number | null
  error: string | null
}

interface Delivery {
  url: string
  state: 'pending' | 'scheduled' | 'sending' | 'delivered' | 'given_up' | 'unknown'
  next_attempt_at: string | null
  attempts: Attempt[]
}

const EVERY_MS = 2_000

export function Deliveries({ threadId, runId }: { threadId: string; runId: string }) {
  const path = `/threads/${threadId}/runs/${runId}/webhook`
  const delivery = useLoad(path, signal => ask<Delivery>(path, { signal }), { every: EVERY_MS })
  const { busy, error, send } = useSending(delivery.reload)
  return (
    <section className="card" aria-label="Webhook">
      <LoadedView of={delivery}>
        {({ url, state, next_attempt_at, attempts }) => (
          <>
            <div className="state-head">
              <div className="actions">
                <strong>Webhook</strong>
                <span className="mono muted">{url}</span>
                <Status of={state.replace('_', ' ')} />
                {next_attempt_at !== null && (
                  <span className="muted">next attempt at {clockText(next_attempt_at)}</span>
                )}
              </div>
              <Button
                icon="redo"
                disabled={busy || state === 'pending' || state === 'sending'}
                onClick={() => send(() => ask(`${path}/repeat`, { method: 'POST' }))}
              >
                Deliver again
              </Button>
            </div>
            <Trouble error={error} />
            {attempts.length === 0 ? (
              <p className="state-body muted">{NOTHING[state] ?? 'No attempt yet.'}</p>
            ) : (
              <div className="scroll-x">
                <Attempts list={attempts} />
              </div>
            )}
          </>
        )}
      </LoadedView>
    </section>
  )
}

const NOTHING: { readonly [state: string]: string } = {
  pending: 'It is called after the end of the run.',
  unknown: 'An earlier version of Weft has called it, and kept no attempts.',
}

/** Newest first. */
const Attempts = ({ list }: { list: readonly Attempt[] }) => (
  <ListTable rows={list.toReversed()} columns={['Attempt', 'Started', 'Took', 'Answer']}>
    {({ attempt, started_at, ended_at, status, error }) => (
      <tr key={attempt}>
        <td>{attempt}</td>
        <td>
          <Ago at={started_at} />
        </td>
        <td>{ended_at === null ? '–' : durationText(Date.parse(ended_at) - Date.parse(started_at))}</td>
        <td>{status ?? error ?? <span className="muted">waiting for it</span>}</td>
      </tr>
    )}
  </ListTable>
)
