import { setTimeout as sleep } from 'node:timers/promises'
import { checkAll } from '../harness/checks.js'
import { CRON_ENV, checkCrons, makeCrons } from '../harness/crons.js'
import { startLoad } from '../harness/load.js'
import { killAll, startAll } from '../harness/restart.js'
import type { Row } from '../harness/row.js'

export const row: Row = {
  number: 7,
  name: 'Broker loses its disk',
  fault: 'kill -9 of every process; the folder of the broker is deleted; everything starts again.',
  promised:
    'Every accepted run ends: running, pending, delayed and of crons. Streamed events may be lost; every client receives ' +
    'the end of its run.',
  async run(stage) {
    const roles = await stage.roles({ env: CRON_ENV })
    const each = stage.size(15, 60)
    const crons = await makeCrons(stage, roles.urls[0]!, stage.size(4, 20), 2_000, 8)
    const options = { urls: () => roles.urls, perSecond: 40, most: each, steps: 4 }
    const loads = [
      startLoad(stage, { ...options, ms: 1_500, follow: 2 }),
      startLoad(stage, { ...options, ms: 50, body: { after_seconds: 12 } }),
    ]
    for (const load of loads) await load.created()
    // They wait behind the running ones: thirty slots are taken.
    const pending = startLoad(stage, { ...options, ms: 50 })
    await pending.created()
    await killAll(stage, roles)
    await sleep(2_000)
    const since = performance.now()
    await startAll(roles, { wiped: true })
    const up = performance.now() - since
    for (const load of [...loads, pending]) await checkAll(stage, roles, load, { losesEvents: true })
    const slots = await checkCrons(stage, roles.urls[0]!, crons)
    const items = [...loads, pending].flatMap(load => load.items)
    const ended = items.filter(({ status }) => status === 'success').length
    return {
      load: `${items.length} runs, running, pending and delayed; ${crons.all.length} crons`,
      measured:
        `${ended} of ${items.length} ended, all processes were up after ${(up / 1_000).toFixed(1)} s; ` +
        `${slots.runs} runs of ${slots.slots} slots, ${slots.skipped} missed and declared`,
    }
  },
}
