/**
 * Nodes of a run wait while its lease is not confirmed. A stopped run ends with its nodes, and a node that executes for
 * longer is reported.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { CONFIRMED_MS } from '../../workers/host/node-gate.js'
import { monotonicMs } from '../../workers/pipe.js'
import { stepLogs } from '../helpers/steps.js'
import { until } from '../helpers/until.js'
import { appOf, startHost } from './host-helper.js'

const logs = stepLogs()
t.teardown(() => logs.remove())
/** A confirmation counts for all runs of a host. */
const hostFor = async (t: Test) => {
  const host = await startHost(appOf('faults'))
  t.teardown(() => host.stop())
  await host.hello
  return host
}

/** In nanoseconds, less the millisecond by which a timer may be early. */
const ms = (count: number) => BigInt(count - 1) * 1_000_000n

const LEFT_MS = 3_000
/** A lease whose last confirmation is so old that it remains valid for another 3 s. */
const expiring = () => monotonicMs() - CONFIRMED_MS + LEFT_MS

for (const [graph_id, durability] of [
  ['steps', 'async'],
  ['steps', 'sync'],
  ['steps', 'exit'],
  ['nested', 'async'],
  ['tasks', 'async'],
] as const)
  t.test(`${graph_id}, ${durability}: nodes wait while the lease is not confirmed`, async t => {
    const host = await hostFor(t)
    const log = logs.log()
    const input = { log: log.file, steps: 50, ms: 100 }
    const run = host.start({
      graph_id,
      confirmed_at: expiring(),
      kwargs: { input, durability, temporary: false, config: { recursion_limit: 100 } },
    })
    await sleep(LEFT_MS + 500)
    const steps = log.steps().length
    t.ok(steps > 0 && steps <= LEFT_MS / 100, `${steps} steps while it was confirmed`)
    await sleep(500)
    t.equal(log.steps().length, steps, 'and none after that')
    host.confirm(monotonicMs())
    t.match(await run.ended, { status: 'success' })
    t.equal(log.steps().length, 50, 'each step once')
  })

t.test('a run that waits for its lease can be cancelled', async t => {
  const host = await hostFor(t)
  const log = logs.log()
  const input = { log: log.file, steps: 3 }
  const run = host.start({ graph_id: 'steps', confirmed_at: monotonicMs() - CONFIRMED_MS, kwargs: { input } })
  await sleep(300)
  run.cancel()
  t.match(await run.ended, { status: 'interrupted' })
  t.same(log.steps(), [])
})

t.test('a stopped run ends with its node, also when that ignores its signal', async t => {
  const host = await hostFor(t)
  for (const graph_id of ['poison', 'nested']) {
    const log = logs.log()
    const input = { log: log.file, steps: 3, at: 2, harm: 'wait', ms: 1_000 }
    const run = host.start({ graph_id, kwargs: { input } })
    const [, node] = await log.begun(2)
    run.cancel()
    t.match(await run.ended, { status: 'interrupted' })
    t.ok(process.hrtime.bigint() >= node!.at + ms(1_000), graph_id)
    t.same(log.steps(), [1, 2], 'no further node')
  }
  t.notMatch(host.output.stderr, /ignores config\.signal/)
})

t.test('a node that ignores its signal for long is reported with its run, until it ends', async t => {
  const host = await hostFor(t)
  const log = logs.log()
  const input = { log: log.file, steps: 3, at: 2, harm: 'wait', ms: 4_500 }
  const run = host.start({ graph_id: 'poison', run_id: 'the-run', kwargs: { input } })
  await log.begun(2)
  run.cancel()
  t.match(await run.ended, { status: 'interrupted' })
  await until(() => /has ended after \d+ ms \(graph poison, run the-run/.test(host.output.stderr))
  t.match(host.output.stderr, /ignores config\.signal and still executes .*run the-run/)
  t.same(log.steps(), [1, 2], 'no further node')
})
