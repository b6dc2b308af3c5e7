import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '../../helpers/until.js'
import { checkAll } from '../harness/checks.js'
import { startLoad } from '../harness/load.js'
import type { Row } from '../harness/row.js'

/** From the first answer of the broker's port to a ready edge, and a margin for the poll. */
const BACK_MS = 2_000

export const row: Row = {
  number: 6,
  name: 'Broker process death',
  fault: 'kill -9 of the NATS server, started again after a second, again and again.',
  promised:
    'Every accepted run ends; a create is answered 2xx or 503, or not at all and then repeated with its key. Edges and ' +
    'workers are back within 2 s of the broker; streams go on by themselves.',
  async run(stage) {
    const roles = await stage.roles()
    const kills = stage.size(2, 3, 8)
    const every = stage.size(6, 12, 15)
    const perSecond = stage.size(10, 20)
    const load = startLoad(stage, { urls: () => roles.urls, perSecond, steps: 6, ms: 150, events: 3 })
    const backs: number[] = []
    for (let n = 0; n < kills; n++) {
      await sleep(every * 1_000)
      roles.nats.kill()
      await sleep(1_000)
      await roles.nats.restart()
      const since = performance.now()
      const ready = (url: string) => fetch(`${url}/ready`).then(({ status }) => status === 200)
      await until(async () => (await Promise.all(roles.urls.map(ready))).every(Boolean), 20_000)
      backs.push(performance.now() - since)
    }
    await sleep(1_000)
    await checkAll(stage, roles, load)
    const refused = [...stage.ledger.refused()].filter(status => status !== 503)
    stage.expect(refused.length === 0, `calls were refused with ${refused}`)
    const back = Math.max(...backs)
    stage.expectTime(back <= BACK_MS, `ready ${Math.round(back)} ms after the broker`)
    const unknown = stage.ledger.count('unknown')
    return {
      load: `${load.items.length} runs at ${perSecond} a second; ${kills} kills, one every ${every} s`,
      measured:
        `${load.succeeded()} of ${load.items.length} succeeded; ready ${Math.round(back)} ms after the broker at most; ` +
        `${stage.ledger.count('fail')} calls refused, ${unknown} without an answer`,
    }
  },
}
