import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '../../helpers/until.js'
import { checkAll } from '../harness/checks.js'
import { CRON_ENV, checkCrons, makeCrons } from '../harness/crons.js'
import { type Load, startLoad } from '../harness/load.js'
import { startAll } from '../harness/restart.js'
import type { Row } from '../harness/row.js'

export const row: Row = {
  number: 30,
  name: 'Restart of everything',
  fault: 'SIGTERM to every process, the broker stops; everything starts again.',
  promised:
    'Every process ends with code 0. Running, pending and delayed runs and crons go on, streams resume, and nothing is stuck.',
  async run(stage) {
    const roles = await stage.roles({ env: CRON_ENV })
    const each = stage.size(15, 50, 100)
    const begun = async (load: Load) => {
      await until(() => load.items.length >= each, 60_000)
      await load.stop()
    }
    const crons = await makeCrons(stage, roles.urls[0]!, stage.size(4, 20), 2_000, 10)
    const options = { urls: () => roles.urls, perSecond: 40, most: each, steps: 4 }
    const loads = [
      startLoad(stage, { ...options, ms: 2_000, follow: 2 }),
      startLoad(stage, { ...options, ms: 50, body: { after_seconds: 15 } }),
    ]
    for (const load of loads) await begun(load)
    // They wait behind the running ones.
    const pending = startLoad(stage, { ...options, ms: 50 })
    await begun(pending)
    const codes: (number | null)[] = []
    for (const procs of [roles.edges, roles.graphs, roles.resources])
      codes.push(...(await Promise.all(procs.map(proc => proc.stop()))))
    stage.expect(
      codes.every(code => code === 0),
      `processes ended with ${[...new Set(codes)].join(', ')}`,
    )
    roles.nats.kill()
    await sleep(1_000)
    const since = performance.now()
    await startAll(roles)
    const up = performance.now() - since
    const answer = await stage.ledger.call({ url: roles.urls[0]!, path: '/threads', body: {} })
    stage.expect(answer.outcome === 'ok', `the first call was answered ${answer.status}`)
    for (const load of [...loads, pending]) await checkAll(stage, roles, load, { losesEvents: true })
    const slots = await checkCrons(stage, roles.urls[0]!, crons)
    const items = [...loads, pending].flatMap(load => load.items)
    const ended = items.filter(({ status }) => status === 'success').length
    return {
      load: `${items.length} runs, running, pending and delayed; ${crons.all.length} crons`,
      measured:
        `${ended} of ${items.length} succeeded, all processes were up after ${(up / 1_000).toFixed(1)} s; ` +
        `${slots.runs} runs of ${slots.slots} slots, ${slots.skipped} missed and declared`,
    }
  },
}
