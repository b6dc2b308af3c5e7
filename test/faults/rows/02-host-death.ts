import { setTimeout as sleep } from 'node:timers/promises'
import { stepLogs } from '../../helpers/steps.js'
import { checkAll } from '../harness/checks.js'
import { quantile } from '../harness/ledger.js'
import { startLoad } from '../harness/load.js'
import type { Row } from '../harness/row.js'

const HARMS = ['exit', 'abort', 'oom'] as const
const NEXT_MS = 1_000

export const row: Row = {
  number: 2,
  name: 'Graph process death, worker alive',
  fault: 'A graph calls `process.exit`, `process.abort`, or runs out of a heap of 64 MB, in its first attempt.',
  promised: `The next attempt begins within ${NEXT_MS / 1_000} s (p95); runs of other graphs on that worker succeed.`,
  async run(stage) {
    const roles = await stage.roles({ graphs: 1, env: { WEFT_HOST_MEMORY_MB: '64', N_JOBS_PER_WORKER: '100' } })
    const logs = stepLogs()
    stage.defer(() => logs.remove())
    const load = startLoad(stage, { urls: () => roles.urls, perSecond: stage.size(3, 5), steps: 5, ms: 100 })
    const rounds = stage.size(2, 8)
    const gaps: number[] = []
    for (let n = 0; n < rounds; n++)
      for (const harm of HARMS) {
        const log = logs.log()
        const { body: thread } = await stage.ledger.call<{ thread_id: string }>({
          url: roles.urls[0]!,
          path: '/threads',
          body: {},
        })
        const input = { log: log.file, steps: 4, at: 2, harm, times: 1 }
        await stage.ledger.call({
          url: roles.urls[0]!,
          path: `/threads/${thread!.thread_id}/runs`,
          body: { assistant_id: 'poison', input, durability: 'sync' },
        })
        await log.begun(5)
        const all = log.all()
        const steps = all.map(({ step }) => step).join(' ')
        stage.expect(steps === '1 2 2 3 4', `${harm}: the steps ${steps} were executed`)
        // From the start of the harmful node: running out of memory takes its own time.
        if (harm !== 'oom') gaps.push(Number(all[2]!.at - all[1]!.at) / 1e6)
        await sleep(200)
      }
    await checkAll(stage, roles, load)
    const p95 = quantile(gaps, 0.95)
    stage.expectTime(p95 <= NEXT_MS, `the next attempt began after ${Math.round(p95)} ms (p95)`)
    const { length } = load.items
    return {
      load: `${rounds * HARMS.length} hosts killed by their graph beside ${length} runs of another graph`,
      measured: `next attempt after ${Math.round(p95)} ms (p95); ${load.succeeded()} of ${length} other runs succeeded`,
    }
  },
}
