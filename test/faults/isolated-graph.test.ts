/** A graph that once harmed its host is served beside steady load of another graph. */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { type Started, startWorkers, within } from './worker-helper.js'

t.setTimeout(120_000)
const START_MS = 10_000

for (const [harm, ms] of [
  ['busy', 1_500],
  ['exit', 0],
] as const)
  t.test(`a graph whose node did "${harm}" once is not starved by runs of another`, async t => {
    const weft = await startWorkers()
    const load: Started[] = []
    let on = true
    t.teardown(async () => {
      on = false
      await loading
      await weft.stop()
    })
    const loading = (async () => {
      for (; on; await sleep(300)) load.push(await weft.run('slow', { ms: 2_000 }))
    })()
    const bad = await weft.run('poison', { steps: 1, at: 1, harm, ms, times: 1 })
    t.match(await within(30_000, bad.ended), { status: 'success' })
    // Every host has runs of the other graph by now.
    await sleep(4_000)
    for (let n = 0; n < 5; n++) {
      const run = await weft.run('poison', { steps: 2 })
      t.match(await within(START_MS, run.ended), { status: 'success' })
      await sleep(500)
    }
    on = false
    await loading
    for (const run of load) t.match(await within(20_000, run.ended), { status: 'success' })
  })
