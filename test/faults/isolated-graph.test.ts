/** A graph that once harmed its host is served beside steady load of another graph. */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { type Started, startWorkers, within } from './worker-helper.js'

t.setTimeout(120_000)
const START_MS = 10_000
const BLOCK_MS = 15_000

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

t.test('runs that arrive when a block has begun do not wait for its end', async t => {
  const weft = await startWorkers({ hosts: 1 })
  t.teardown(() => weft.stop())
  // The host that loads the application is a warm one.
  await (await weft.run('slow', { steps: 1 })).ended
  const blocking = await weft.run('poison', { steps: 1, at: 1, harm: 'busy', ms: BLOCK_MS, times: 1 })
  await blocking.begun(1)
  // It is reported after a tenth of a second; another host is started after a whole one.
  await sleep(400)
  let blocked = true
  const others = await Promise.all(Array.from({ length: 5 }, () => weft.run('slow', { steps: 1, ms: 10 })))
  const first = blocking.ended.then(ending => {
    blocked = false
    return ending
  })
  for (const run of others) t.match(await within(BLOCK_MS, run.ended), { status: 'success' })
  t.ok(blocked, 'they ended before the run that blocks')
  t.match(await within(2 * BLOCK_MS, first), { status: 'success' })
})

t.test('runs that arrive in a short block begin after it in the same host', async t => {
  const weft = await startWorkers({ hosts: 1 })
  t.teardown(() => weft.stop())
  const warm = await weft.run('slow', { steps: 1 })
  await warm.ended
  const blocking = await weft.run('poison', { steps: 1, at: 1, harm: 'busy', ms: 700, times: 1 })
  await blocking.begun(1)
  await sleep(300)
  const other = await weft.run('slow', { steps: 1, ms: 10 })
  t.match(await within(START_MS, other.ended), { status: 'success' })
  t.match(await blocking.ended, { status: 'success' })
  t.equal(other.steps()[0]!.pid, warm.steps()[0]!.pid)
})
