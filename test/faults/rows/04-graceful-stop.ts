import { setTimeout as sleep } from 'node:timers/promises'
import type { Proc } from '../../helpers/cluster.js'
import { checkAll } from '../harness/checks.js'
import { startLoad } from '../harness/load.js'
import type { Row } from '../harness/row.js'
import { begunIn, byKey } from '../harness/witness.js'

/** WEFT_STOP_MS of the processes of this row, and what is promised beyond it. */
const GRACE_MS = 6_000
const MARGIN_MS = 2_000

export const row: Row = {
  number: 4,
  name: 'Graceful stop',
  fault: 'SIGTERM to every graph worker, edge and resource worker in turn, each with a successor.',
  promised:
    'No run is lost or interrupted, none has more than two attempts; every process ends with code 0 within its time to stop ' +
    'and 2 s.',
  async run(stage) {
    const roles = await stage.roles({ env: { WEFT_STOP_MS: `${GRACE_MS}`, N_JOBS_PER_WORKER: '50' } })
    const perSecond = stage.size(10, 25, 50)
    const load = startLoad(stage, { urls: () => roles.urls, perSecond, steps: 4, ms: 200, follow: 10 })
    const rounds = stage.size(1, 2)
    let slowest = 0
    let stops = 0
    const stop = async (proc: Proc) => {
      const since = performance.now()
      const code = await proc.stop()
      stops++
      slowest = Math.max(slowest, performance.now() - since)
      stage.expect(code === 0, `a process ended with code ${code}`)
    }
    for (let round = 0; round < rounds; round++) {
      for (const n of roles.graphs.keys()) {
        const [old, successor] = [roles.graphs[n]!, await roles.add('graphs')]
        roles.graphs[n] = successor
        await stop(old)
        await sleep(500)
      }
      for (const n of roles.edges.keys()) {
        const [old, successor] = [roles.edges[n]!, await roles.add('edge')]
        roles.edges[n] = successor
        roles.urls[n] = `http://127.0.0.1:${successor.port}`
        await stop(old)
        await sleep(500)
      }
      for (const n of roles.resources.keys()) {
        // One process owns the embedded store: its successor starts after it has ended.
        await stop(roles.resources[n]!)
        roles.resources[n] = await roles.add('resources')
        await sleep(500)
      }
    }
    await checkAll(stage, roles, load)
    stage.expectTime(slowest <= GRACE_MS + MARGIN_MS, `a process took ${Math.round(slowest)} ms to end`)
    const attempts = [...byKey(begunIn(stage.witness)).values()].map(nodes =>
      Math.max(...nodes.map(one => one.attempt)),
    )
    const most = Math.max(...attempts)
    stage.expect(most <= 2, `a run had ${most} attempts`)
    const { length } = load.items
    return {
      load: `${length} runs at ${perSecond} a second; ${stops} processes stopped`,
      measured:
        `${load.succeeded()} of ${length} succeeded, ${most} attempts at most; the slowest process ended after ` +
        `${(slowest / 1_000).toFixed(1)} s of ${GRACE_MS / 1_000} s`,
    }
  },
}
