/** The graph hosts, and the run that holds the event loop of each. */
import { Link } from 'wouter'
import { ListTable } from '../../ui/list-table'
import { Status } from '../../ui/status'
import { durationText } from '../../ui/time'
import type { Host } from './figures'

export const HostTable = ({ hosts }: { hosts: readonly Host[] }) => (
  <ListTable
    label="Hosts"
    rows={hosts}
    columns={['Host', 'Pool', 'Runs', 'Loop delay', 'Held by']}
    empty={<p className="muted">No graph worker has reported its hosts.</p>}
  >
    {host => (
      <tr key={`${host.worker} ${host.pid}`}>
        <td>
          host <span className="mono">{host.pid}</span>
        </td>
        <td>{host.pool}</td>
        <td>{host.runs === 1 ? '1 run' : `${host.runs} runs`}</td>
        <td>delay {durationText(host.loop_delay_seconds * 1_000)}</td>
        <td>
          <Holder of={host} />
        </td>
      </tr>
    )}
  </ListTable>
)

function Holder({ of: { held_seconds, run } }: { of: Host }) {
  if (held_seconds === 0) return <span className="muted">no run</span>
  return (
    <>
      <Status of="held" />{' '}
      {run === null ? (
        'a run that this session may not see'
      ) : (
        <>
          {run.graph_id}{' '}
          <Link href={`/runs/${run.thread_id}/${run.run_id}`} className="mono">
            {run.run_id}
          </Link>
        </>
      )}
    </>
  )
}
