/**
 * Nodes of a run wait while its lease is not confirmed. A run that was stopped or has ended starts none, whatever is
 * confirmed. A stopped run ends with its nodes, and a node that executes for longer is reported.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { CONFIRMED_MS } from '../../../workers/host/guards/node-gate.js'
import { monotonicMs } from '../../../workers/pipe.js'
import { stepLogs } from '../../helpers/steps.js'
import { until } from '../../helpers/until.js'
import { appOf, startHost } from '../host-helper.js'

const logs = stepLogs()
t.teardown(() => logs.remove())
/** A confirmation counts for all runs of a host. */
const hostFor = async (t: Test) => {
  const host = await startHost(appOf('faults'))
  t.teardown(() => host.stop())
  await host.hello
  return host
}

/** Less the millisecond by which a timer may be early. */
const nanoseconds = (ms: number) => BigInt(ms - 1) * 1_000_000n

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
    host.confirm(run.slot, monotonicMs())
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

t.test('a run that is stopped starts no node, whatever is confirmed before, with or after the stop', async t => {
  const host = await hostFor(t)
  type Waiting = { slot: number; cancel(): void }
  const confirm = ({ slot }: Waiting) => host.confirm(slot, monotonicMs())
  const orders: { [name: string]: (run: Waiting) => void } = {
    'confirmed, then stopped': run => {
      confirm(run)
      run.cancel()
    },
    'stopped, then confirmed': run => {
      run.cancel()
      confirm(run)
    },
    // The node that waits looks again between the two.
    'stopped, confirmed later': run => {
      run.cancel()
      setImmediate(confirm, run)
    },
  }
  for (const graph_id of ['steps', 'nested', 'tasks'])
    for (const [name, order] of Object.entries(orders)) {
      const log = logs.log()
      const input = { log: log.file, steps: 3 }
      const run = host.start({ graph_id, confirmed_at: monotonicMs() - CONFIRMED_MS, kwargs: { input } })
      // It answers after the run has come to its gate.
      await host.ping()
      await sleep(100)
      order(run)
      t.match(await run.ended, { status: 'interrupted' }, `${graph_id}: ${name}`)
      t.same(log.steps(), [], 'no node')
    }
  const log = logs.log()
  const run = host.start({ graph_id: 'steps', kwargs: { input: { log: log.file, steps: 3 } } })
  run.cancel()
  t.match(await run.ended, { status: 'interrupted' }, 'stopped with its start')
  t.same(log.steps(), [])
})

t.test('a confirmation opens the gate of its run alone, and counts from when it was sent', async t => {
  const host = await hostFor(t)
  const [first, second] = [logs.log(), logs.log()]
  const start = ({ file }: { file: string }) =>
    host.start({
      graph_id: 'steps',
      confirmed_at: monotonicMs() - CONFIRMED_MS,
      kwargs: { input: { log: file, steps: 3 } },
    })
  const [kept, lost] = [start(first), start(second)]
  await sleep(200)
  // The answer to a heartbeat that was sent before a pause.
  host.confirm(kept.slot, monotonicMs() - CONFIRMED_MS)
  host.confirm(lost.slot, monotonicMs() - 3 * CONFIRMED_MS)
  await sleep(200)
  t.same([first.steps(), second.steps()], [[], []])
  host.confirm(kept.slot, monotonicMs())
  // The answer to an earlier one is late.
  host.confirm(kept.slot, monotonicMs() - CONFIRMED_MS)
  t.match(await kept.ended, { status: 'success' })
  t.same([first.steps(), second.steps()], [[1, 2, 3], []])
  lost.cancel()
  t.match(await lost.ended, { status: 'interrupted' })
  t.same(second.steps(), [])
})

t.test('a run that waits to begin keeps what is confirmed meanwhile', async t => {
  const host = await hostFor(t)
  const log = logs.log()
  const run = host.start({
    graph_id: 'steps',
    confirmed_at: monotonicMs() - CONFIRMED_MS,
    kwargs: { input: { log: log.file, steps: 3 } },
  })
  host.confirm(run.slot, monotonicMs())
  t.match(await run.ended, { status: 'success' })
})

t.test('a function that a stopped run leaves behind starts no task, during the stop and after the end', async t => {
  const host = await hostFor(t)
  // Its first task ends while the run waits for it, and after the run has ended without it.
  for (const ms of [1_500, 5_000]) {
    const log = logs.log()
    const run = host.start({ graph_id: 'tasks', kwargs: { input: { log: log.file, steps: 3, ms } } })
    const [task] = await log.begun(1)
    run.cancel()
    t.match(await run.ended, { status: 'interrupted' })
    await until(() => process.hrtime.bigint() >= task!.at + nanoseconds(ms + 500))
    t.same(log.steps(), [1], `after ${ms} ms`)
  }
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
    t.ok(process.hrtime.bigint() >= node!.at + nanoseconds(1_000), graph_id)
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
