/** A graph worker whose connection to the broker is half open stops starting nodes before its runs are taken over. */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { halfOpenProxy } from '../helpers/half-open-proxy.js'
import { until } from '../helpers/until.js'
import { type Started, startWorkers, within } from './worker-helper.js'

t.setTimeout(180_000)

t.test('default durability: the old attempt starts no node beside the new one', async t => {
  const weft = await startWorkers()
  const proxy = await halfOpenProxy(weft.nats.url('graphs'))
  t.teardown(async () => {
    proxy.thaw()
    await weft.stop()
    await proxy.stop()
  })
  await weft.addGraphs({}, proxy.url)
  await weft.graphs.stop()
  const runs: Started[] = []
  for (let n = 0; n < 5; n++)
    runs.push(await weft.run('steps', { steps: 60, ms: 300 }, { thread_id: await weft.thread() }))
  for (const run of runs) await run.begun(3)
  await weft.addGraphs()
  proxy.freeze()
  const pids = (run: Started) => [...new Set(run.steps().map(({ pid }) => pid))]
  await until(() => runs.every(run => pids(run).length > 1), 60_000)
  await sleep(5_000)
  for (const run of runs) {
    const all = run.steps()
    const [old] = pids(run)
    const taken = all.find(({ pid }) => pid !== old)!
    const beside = all.filter(({ pid, at }) => pid === old && at > taken.at)
    t.equal(beside.length, 0, `${beside.length} nodes of the old attempt began after the first of the new one`)
    const frozen = Number(taken.at - all.findLast(({ pid }) => pid === old)!.at) / 1e6
    t.comment(`the last old node began ${Math.round(frozen)} ms before the first new one`)
  }
  proxy.thaw()
  for (const run of runs) {
    t.match(await within(60_000, run.ended), { status: 'success' })
    const all = run.steps()
    const [old, other] = pids(run)
    t.ok(all.findLast(({ pid }) => pid === old)!.at < all.find(({ pid }) => pid === other)!.at, 'nor when it is back')
  }
})
