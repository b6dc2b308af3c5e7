/** The crons: when they fire next, paused or not, changed and made. */
import type { Cron as ApiCron } from '@langchain/langgraph-sdk'
import { Fragment, useState } from 'react'
import { Link } from 'wouter'
import { ask, client } from '../api/client'
import { useLoad } from '../api/load'
import { Button } from '../ui/button'
import { Id } from '../ui/id'
import { ACTIONS, ListTable } from '../ui/list-table'
import { Empty, LoadedView, Trouble } from '../ui/notice'
import { Page } from '../ui/page'
import { Status } from '../ui/status'
import { durationText } from '../ui/time'
import { useNow } from '../ui/use-now'
import { useSending } from '../ui/use-sending'
import { fireNow } from './crons/fire'
import { Firings } from './crons/firings'
import { CronForm } from './crons/form'

interface Cron extends ApiCron {
  /** Why the server has paused it. */
  paused_reason?: string
  /** At most five. */
  next_run_dates: string[]
}

const EVERY_MS = 10_000
const SEARCH = {
  limit: 100,
  sort_by: 'next_run_date',
  sort_order: 'asc',
  select: [
    'cron_id',
    'assistant_id',
    'thread_id',
    'schedule',
    'timezone',
    'enabled',
    'on_run_completed',
    'payload',
    'paused_reason',
    'next_run_dates',
  ],
}
const TAKES_OVER = 'The server has paused this cron. If you let it go on, its runs have your identity from now on.'

export default function Crons() {
  const crons = useLoad(
    'crons',
    signal => ask<Cron[]>('/runs/crons/search', { method: 'POST', body: SEARCH, signal }),
    { every: EVERY_MS },
  )
  // The cron whose firings are shown.
  const [opened, setOpened] = useState<string | null>(null)
  // A cron, or "new".
  const [edited, setEdited] = useState<Cron | 'new' | null>(null)
  const assistants = useLoad('assistants of crons', () => client.assistants.search({ limit: 1000 }))
  const nameOf = ({ assistant_id }: Cron): string =>
    assistants.data?.find(one => one.assistant_id === assistant_id)?.name ?? `…${assistant_id.slice(-8)}`
  const [fired, setFired] = useState<{ thread_id: string | null; run_id: string } | null>(null)
  const { busy, error, send } = useSending(crons.reload)
  const now = useNow(1_000)
  return (
    <Page
      title="Crons"
      note="Each time of a schedule makes exactly one run."
      actions={
        <Button kind="primary" icon="plus" aria-expanded={edited === 'new'} onClick={() => setEdited('new')}>
          New cron
        </Button>
      }
    >
      {edited !== null && (
        <CronForm
          key={edited === 'new' ? 'new' : edited.cron_id}
          cron={edited === 'new' ? null : edited}
          close={() => {
            setEdited(null)
            crons.reload()
          }}
        />
      )}
      <Trouble error={error} />
      {fired !== null && (
        <p className="done" role="status">
          A run has started. {fired.thread_id && <Link href={`/runs/${fired.thread_id}/${fired.run_id}`}>See it</Link>}
        </p>
      )}
      <div className="card scroll-x">
        <LoadedView of={crons}>
          {rows => (
            <ListTable
              rows={rows}
              columns={['Cron', 'Schedule', 'Next', 'State', 'Thread', ACTIONS]}
              empty={
                <Empty title="No cron yet" icon="clock">
                  A cron starts runs of an assistant at the times of a schedule.
                </Empty>
              }
            >
              {cron => (
                <Fragment key={cron.cron_id}>
                  <tr>
                    <td>
                      <div className="cell-title">
                        <Link href={`/assistants/${cron.assistant_id}`}>{nameOf(cron)}</Link>
                        <span className="muted mono cron-input">{inputText(cron)}</span>
                      </div>
                    </td>
                    <td>
                      <code className="nowrap">{cron.schedule}</code>{' '}
                      <span className="muted">{cron.timezone ?? 'UTC'}</span>
                    </td>
                    <td>
                      {nextText(cron, now)}
                      {cron.next_run_dates.length > 1 && (
                        <div className="muted cron-next">
                          then
                          {cron.next_run_dates.slice(1).map(at => (
                            <time key={at} dateTime={at}>
                              {short(at)}
                            </time>
                          ))}
                        </div>
                      )}
                    </td>
                    <td>
                      <Status of={cron.enabled ? 'enabled' : 'paused'} />
                      {cron.paused_reason !== undefined && <div className="muted">{cron.paused_reason}</div>}
                    </td>
                    <td>
                      {cron.thread_id ? (
                        <Link href={`/threads/${cron.thread_id}`}>
                          <Id of={cron.thread_id} />
                        </Link>
                      ) : (
                        <span className="muted">a new one each time</span>
                      )}
                    </td>
                    <td>
                      <div className="actions">
                        <Button
                          kind="ghost"
                          icon="down"
                          label="Firings"
                          aria-expanded={opened === cron.cron_id}
                          onClick={() => setOpened(opened === cron.cron_id ? null : cron.cron_id)}
                        />
                        <Button
                          kind="ghost"
                          icon="send"
                          label="Fire now"
                          disabled={busy}
                          onClick={() => {
                            if (confirm(`Start a run of ${nameOf(cron)} with the input of this cron now?`))
                              void send(async () => setFired(await fireNow(cron)))
                          }}
                        />
                        <Button
                          kind="ghost"
                          icon={cron.enabled ? 'pause' : 'redo'}
                          label={cron.enabled ? 'Pause' : 'Go on'}
                          disabled={busy}
                          onClick={() => {
                            if (cron.paused_reason === undefined || confirm(TAKES_OVER))
                              void send(() => client.crons.update(cron.cron_id, { enabled: !cron.enabled }))
                          }}
                        />
                        <Button kind="ghost" icon="edit" label="Edit" onClick={() => setEdited(cron)} />
                        <Button
                          kind="ghost"
                          icon="trash"
                          label="Delete"
                          disabled={busy}
                          onClick={() => {
                            if (confirm(`Delete the cron ${cron.schedule}?`))
                              void send(() => client.crons.delete(cron.cron_id))
                          }}
                        />
                      </div>
                    </td>
                  </tr>
                  {opened === cron.cron_id && (
                    <tr>
                      <td colSpan={6}>
                        <Firings cronId={cron.cron_id} />
                      </td>
                    </tr>
                  )}
                </Fragment>
              )}
            </ListTable>
          )}
        </LoadedView>
      </div>
    </Page>
  )
}

function inputText({ payload }: Cron): string {
  const text = payload.input == null ? 'no input' : JSON.stringify(payload.input)
  return text.length > 120 ? `${text.slice(0, 120)}…` : text
}

function nextText({ next_run_dates: [next] }: Cron, now: number): string {
  if (next === undefined) return '–'
  const ms = Date.parse(next) - now
  return `${new Date(next).toLocaleString()}${ms > 0 ? `, in ${durationText(Math.ceil(ms / 1_000) * 1_000)}` : ''}`
}

const short = (at: string): string =>
  new Date(at).toLocaleString(undefined, {
    weekday: 'short',
    day: 'numeric',
    month: 'short',
    hour: 'numeric',
    minute: '2-digit',
  })
