/** The hosts of a pool as an operator sees them: how many runs each one has, and which run holds its event loop. */
import { sample } from '../../bus/figures.js'
import type { HostReport, Sample } from '../../schemas/metrics.js'
import type { GraphHost } from './host-process.js'
import type { RunTable } from './run-table.js'

/** Hosts in one report; those with the longest delay. */
const MAX_HOSTS = 256
/** Characters of the name of a graph. */
const MAX_NAME = 512

export function reportHosts(hosts: readonly GraphHost[], table: RunTable, app: string, pool: string): HostReport[] {
  const reports = hosts.map((host): HostReport => {
    const held_ms = host.held.now()
    const run = held_ms === 0 ? undefined : table.get(host, host.holder)
    return {
      app,
      pool,
      pid: host.pid,
      runs: table.runsOf(host).length,
      loop_delay_seconds: Math.max(host.late(), held_ms) / 1_000,
      held_seconds: held_ms / 1_000,
      run: run === undefined ? null : nameOf(run.lease),
    }
  })
  return reports.sort((a, b) => b.loop_delay_seconds - a.loop_delay_seconds).slice(0, MAX_HOSTS)
}

const nameOf = ({ run_id, thread_id, graph_id }: NonNullable<HostReport['run']>) => ({
  run_id,
  thread_id,
  graph_id: graph_id.slice(0, MAX_NAME),
})

/** The same as figures without a label for a host. */
export const hostFigures = (reports: readonly HostReport[], pool: string): Sample[] => [
  sample('weft_host_loop_delay_seconds', reports[0]?.loop_delay_seconds ?? 0, { pool }),
  sample('weft_hosts_held', reports.filter(({ held_seconds }) => held_seconds > 0).length, { pool }),
]
