import { setTimeout as sleep } from 'node:timers/promises'
import { checkAll } from '../../harness/checks.js'
import { startLoad } from '../../harness/load.js'
import type { Row } from '../../harness/row.js'

const SECONDS = 10

export const row: Row = {
  number: 35,
  name: 'Every stream has an end',
  fault:
    'The faults of all rows that were executed by the same command, and here: kill -9 of an edge and of a graph worker.',
  promised:
    'Every stream ends within 5 s of its run: after its last event, after `error` where the run failed, and never early as if ' +
    'it were complete.',
  async run(stage) {
    const roles = await stage.roles({ graphs: 2, env: { BG_JOB_TIMEOUT_SECS: '20' } })
    const options = { urls: () => roles.urls, perSecond: stage.size(3, 6), follow: 1, events: 3 }
    const loads = [
      { load: startLoad(stage, { ...options, steps: 6, ms: 150 }), statuses: ['success'] },
      // A thrown error, and the time limit.
      { load: startLoad(stage, { ...options, steps: 3, ms: 50, how: 'throw' }), statuses: ['error'] },
      {
        load: startLoad(stage, { ...options, perSecond: 1, steps: 1, ms: 60_000, how: 'signal', events: 0 }),
        statuses: ['timeout'],
      },
    ]
    await sleep(SECONDS * 400)
    await stage.replace(roles, 'edge', 0)
    await sleep(SECONDS * 300)
    await stage.replace(roles, 'graphs', 0)
    await sleep(SECONDS * 300)
    for (const { load } of loads) await load.stop()
    // A thread of another load would count as busy.
    for (const { load } of loads) await load.settle()
    for (const { load, statuses } of loads) await checkAll(stage, roles, load, { statuses, executions: false })
    const { streams, wrong, broken } = stage.tally
    stage.expect(wrong === 0, `${wrong} streams of all rows ended wrongly or not at all`)
    return {
      load: `${streams} streams that clients followed, of all rows of this command; ${broken} of their connections broke`,
      measured: `${streams - wrong} of ${streams} ended as they must`,
    }
  },
}
