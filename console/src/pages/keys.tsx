/** The keys of this server: what they may do, when they were used, created and revoked. */
import { useState } from 'react'
import { Link } from 'wouter'
import { control, listAll } from '../api/control'
import { useLoad } from '../api/load'
import { session } from '../api/session'
import { useStore } from '../api/store'
import { Button } from '../ui/button'
import { ACTIONS, ListTable } from '../ui/list-table'
import { Empty, Trouble } from '../ui/notice'
import { Page } from '../ui/page'
import { Status } from '../ui/status'
import { Ago } from '../ui/time'
import { useSending } from '../ui/use-sending'
import '../styles/control.css'
import { ForgetKey, Gate } from './control/gate'
import { CreateKey } from './keys/create'
import { type Key, LIMITS } from './keys/types'

const EVERY_MS = 10_000

export default function Keys() {
  const keys = useLoad('keys', signal => listAll<Key>('/v2/keys', signal), { every: EVERY_MS })
  const [creating, setCreating] = useState(false)
  const [revoked, setRevoked] = useState<{ name: string; paused: number } | null>(null)
  const { busy, error, send } = useSending(keys.reload)
  const { controlKey, credentials } = useStore(session)
  const own = controlKey || (credentials?.kind === 'key' ? credentials.value : '')
  const revoke = ({ id, name }: Key) => {
    const warning = own.startsWith(`weft_${id}_`) ? ' It is the key that you are using.' : ''
    const effect = 'It opens nothing from now on, its open streams end, and its crons are paused.'
    if (!confirm(`Revoke the key ${name}? ${effect}${warning}`)) return
    void send(async () => {
      const { paused_crons } = await control<{ paused_crons: number | null }>(`/v2/keys/${id}`, { method: 'DELETE' })
      setRevoked({ name, paused: paused_crons ?? 0 })
    })
  }
  return (
    <Page
      title="API keys"
      note="Each program has a key of its own, with no more rights than it needs."
      actions={
        <>
          <ForgetKey />
          {keys.data !== undefined && (
            <Button kind="primary" icon="plus" onClick={() => setCreating(true)}>
              New key
            </Button>
          )}
        </>
      }
    >
      {creating && (
        <CreateKey
          close={() => {
            setCreating(false)
            keys.reload()
          }}
        />
      )}
      <Trouble error={error} />
      {revoked !== null && (
        <p role="status">
          The key {revoked.name} is revoked.
          {revoked.paused > 0 && (
            <>
              {' '}
              <Link href="/crons">{revoked.paused === 1 ? 'One cron is' : `${revoked.paused} crons are`} paused</Link>.
            </>
          )}
        </p>
      )}
      <div className="card scroll-x">
        <Gate of={keys} scope="admin">
          {rows => <Table rows={rows} busy={busy} revoke={revoke} />}
        </Gate>
      </div>
    </Page>
  )
}

const NOTHING = (
  <Empty title="No key yet" icon="key">
    Requests need one when the server is started with <code>WEFT_REQUIRE_KEYS=1</code>.
  </Empty>
)

interface TableProps {
  rows: readonly Key[]
  busy: boolean
  revoke(key: Key): void
}

const Table = ({ rows, busy, revoke }: TableProps) => (
  <ListTable
    rows={rows}
    columns={['Name', 'Scopes', 'Last use', 'Expires', 'Limits', 'Created', ACTIONS]}
    empty={NOTHING}
  >
    {key => (
      <tr key={key.id}>
        <td>
          {key.name}
          <br />
          <span className="mono muted">{key.id}</span>
        </td>
        <td>{key.scopes.join(', ')}</td>
        <td data-label="Last use">
          {key.last_used_at === null ? <span className="muted">never</span> : <Ago at={key.last_used_at} />}
        </td>
        <td data-label="Expires">
          <Expiry at={key.expires_at} />
        </td>
        <td data-label="Limits">{limitsText(key)}</td>
        <td data-label="Created">
          <Ago at={key.created_at} /> <span className="muted">{authorText(key, rows)}</span>
        </td>
        <td>
          <Button kind="ghost" icon="trash" label="Revoke" disabled={busy} onClick={() => revoke(key)} />
        </td>
      </tr>
    )}
  </ListTable>
)

function Expiry({ at }: { at: string | null }) {
  if (at === null) return <span className="muted">never</span>
  const date = new Date(at)
  if (date.getTime() <= Date.now()) return <Status of="expired" />
  return (
    <time dateTime={at} title={date.toLocaleString()}>
      {date.toLocaleDateString()}
    </time>
  )
}

const limitsText = ({ limits }: Key) =>
  LIMITS.flatMap(([name, label]) => (limits[name] === null ? [] : `${label}: ${limits[name]}`)).join(', ') || (
    <span className="muted">none</span>
  )

function authorText({ created_by }: Key, rows: readonly Key[]): string {
  if (created_by === 'command') return 'by weft keys'
  if (created_by === 'control') return 'by the control key'
  return `by ${rows.find(({ id }) => id === created_by)?.name ?? created_by}`
}
