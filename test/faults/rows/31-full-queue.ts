import { readFileSync } from 'node:fs'
import { rssOf } from '../../helpers/processes.js'
import { until } from '../../helpers/until.js'
import type { Row } from '../harness/row.js'

const EDGE_MB = 250
const BATCH = 50
const CALLERS = 4
const DRAIN_MS = 900_000

export const row: Row = {
  number: 31,
  name: 'A queue without workers',
  fault: 'No graph worker runs while clients create runs without end; then one starts.',
  promised: `Runs are accepted, or refused with 429 or 503 and \`Retry-After\`; an edge needs ${EDGE_MB} MB at most. Every accepted run is executed when a worker starts.`,
  async run(stage) {
    const count = stage.size(20_000, 30_000, 200_000)
    const roles = await stage.roles({ edges: 1, graphs: 1, env: { N_JOBS_PER_WORKER: '100' } })
    const [url, edge] = [roles.urls[0]!, roles.edges[0]!]
    await roles.graphs[0]!.stop()
    const run = { assistant_id: 'witness', input: { file: stage.witness, key: 'queue', steps: 1, ms: 0 } }
    let asked = 0
    let accepted = 0
    let most = 0
    const since = performance.now()
    const caller = async () => {
      while (asked < count) {
        asked += BATCH
        const request = { url, path: '/runs/batch', body: Array.from({ length: BATCH }, () => run) }
        const { outcome, body, retryAfter, status } = await stage.ledger.call<{ run_id: string }[]>(request)
        if (outcome === 'ok') accepted += body!.length
        else stage.expect(retryAfter !== null, `a create was refused with ${status} without Retry-After`)
        most = Math.max(most, rssOf(edge.pid))
      }
    }
    await Promise.all(Array.from({ length: CALLERS }, caller))
    const filled_s = (performance.now() - since) / 1_000
    const foreign = [...stage.ledger.refused()].filter(status => ![429, 503].includes(status))
    stage.expect(foreign.length === 0, `creates were refused with ${foreign}`)
    stage.expect(most <= EDGE_MB, `the edge needs ${Math.round(most)} MB`)
    await roles.add('graphs')
    const drained = performance.now()
    const left = async () => {
      const answer = await fetch(`${url}/metrics?format=json`)
      const { queue } = (await answer.json()) as { queue: { n_pending: number | null; n_running: number | null } }
      // Unknown while the store is overloaded.
      return queue.n_pending === null || queue.n_running === null ? -1 : queue.n_pending + queue.n_running
    }
    await until(async () => (await left().catch(() => -1)) === 0, DRAIN_MS).catch(async () =>
      stage.expect(false, `${await left()} runs are left after ${DRAIN_MS / 60_000} minutes`),
    )
    const drain_s = (performance.now() - drained) / 1_000
    const begun = new Set(
      readFileSync(stage.witness, 'utf8')
        .split('\n')
        .filter(line => line.startsWith('B '))
        .map(line => line.split(' ')[1]),
    )
    stage.expect(begun.size >= accepted, `${accepted - begun.size} of ${accepted} accepted runs were not executed`)
    return {
      load: `${asked} creates in batches of ${BATCH} by ${CALLERS} callers`,
      measured:
        `${accepted} accepted at ${Math.round(accepted / filled_s)} a second, ${asked - accepted} refused; edge ${Math.round(most)} MB at most; ` +
        `drained by one worker at ${Math.round(accepted / drain_s)} a second`,
    }
  },
}
