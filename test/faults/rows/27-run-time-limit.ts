import { checkAll } from '../harness/checks.js'
import { startLoad } from '../harness/load.js'
import type { Row } from '../harness/row.js'
import { begunIn } from '../harness/witness.js'

const LIMIT_SECS = 3
const HOW = ['signal', 'wait', 'busy'] as const
/** The status is there at most so long after the create. */
const LATEST_MS = 9_000

export const row: Row = {
  number: 27,
  name: 'Run time limit',
  fault: `Nodes without an end, with \`BG_JOB_TIMEOUT_SECS=${LIMIT_SECS}\`: some await, some block the event loop.`,
  promised: `Status \`timeout\` after ${LIMIT_SECS} to ${LATEST_MS / 1_000} s; the thread and the slot are free again.`,
  async run(stage) {
    const roles = await stage.roles({
      graphs: 1,
      env: { BG_JOB_TIMEOUT_SECS: `${LIMIT_SECS}`, N_JOBS_PER_WORKER: '10' },
    })
    const url = roles.urls[0]!
    const times: number[] = []
    const one = async (how: (typeof HOW)[number]) => {
      const since = performance.now()
      const options = { urls: () => roles.urls, perSecond: 10, most: 1, steps: 1, ms: 600_000, how, follow: 1 }
      const load = startLoad(stage, options)
      await load.created()
      await load.settle(30_000)
      times.push(performance.now() - since)
      await checkAll(stage, roles, load, { statuses: ['timeout'], executions: false })
    }
    const rounds = stage.size(2, 6)
    for (const how of HOW) {
      // One that blocks the event loop delays the others of its host, whose limit stands still meanwhile.
      const all = Array.from({ length: rounds }, () => () => one(how))
      if (how === 'busy') for (const run of all) await run()
      else await Promise.all(all.map(run => run()))
    }
    const [least, most] = [Math.min(...times), Math.max(...times)]
    stage.expect(least >= LIMIT_SECS * 1_000, `a run ended after ${Math.round(least)} ms`)
    stage.expectTime(most <= LATEST_MS, `a run ended after ${Math.round(most)} ms`)
    const nodes = begunIn(stage.witness).length
    stage.expect(nodes === times.length, `${nodes} executions of ${times.length} nodes`)
    // More runs than slots: every slot must be free.
    const next = await Promise.all(
      Array.from({ length: 20 }, () =>
        stage.ledger.call({
          url,
          path: '/runs/wait',
          body: { assistant_id: 'witness', input: { file: stage.witness, key: 'next', steps: 1 } },
        }),
      ),
    )
    stage.expect(
      next.every(({ outcome }) => outcome === 'ok'),
      'later runs fail',
    )
    return {
      load: `${times.length} runs; those that block one after the other`,
      measured: `ended after ${(least / 1_000).toFixed(1)} to ${(most / 1_000).toFixed(1)} s; 20 of 20 later runs succeeded`,
    }
  },
}
