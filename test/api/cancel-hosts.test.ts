/** When the work of a stopped run has ended, and what its host does meanwhile. */
import { rmSync, writeFileSync } from 'node:fs'
import t from 'tap'
import { startCluster } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'
import { stepLogs } from '../helpers/steps.js'
import { firstRun } from '../helpers/threads.js'

t.setTimeout(240_000)
const app = 'test/apps/faults'
const logs = stepLogs()
t.teardown(() => logs.remove())

t.test('the next run of a thread starts when no node of the stopped run executes', async t => {
  const cluster = await startCluster({ app })
  t.teardown(() => cluster.stop())
  const client = lines[0]!.connect(cluster.url)
  const NODE_MS = 1_500
  for (const [what, multitaskStrategy] of [
    ['interrupt', 'interrupt'],
    ['rollback', 'rollback'],
    ['cancel', 'enqueue'],
  ] as const) {
    const { thread_id } = await client.threads.create()
    const [first, second] = [logs.log(), logs.log()]
    const input = { log: first.file, steps: 2, at: 1, harm: 'wait', ms: NODE_MS }
    const stopped = await client.runs.create(thread_id, 'poison', { input })
    const [node] = await first.begun(1)
    const next = await client.runs.create(thread_id, 'steps', {
      input: { log: second.file, steps: 1 },
      multitaskStrategy,
    })
    if (what === 'cancel') await client.runs.cancel(thread_id, stopped.run_id)
    await client.runs.join(thread_id, next.run_id)
    const after_ms = Number(second.all()[0]!.at - node!.at) / 1e6
    t.ok(after_ms > NODE_MS - 1, `${what}: the next run started ${Math.round(after_ms)} ms after the node`)
    t.same(first.steps(), [1])
  }
})

t.test('the thread of a cancelled run has its state when a new host starts slowly', async t => {
  const slow = logs.log()
  rmSync(slow.file)
  const cluster = await startCluster({ app, env: { FAULTS_SLOW_START: slow.file } })
  t.teardown(() => cluster.stop())
  const client = lines.at(-1)!.connect(cluster.url)
  const { thread_id } = await client.threads.create()
  const stepLog = logs.log()
  const input = { log: stepLog.file, steps: 5, at: 3, harm: 'busy', ms: 60_000 }
  const run = await client.runs.create(thread_id, 'poison', { input, durability: 'sync' })
  await stepLog.begun(3)
  writeFileSync(slow.file, '')
  await client.runs.cancel(thread_id, run.run_id, true)
  t.match(await client.threads.get(thread_id), { status: 'interrupted', values: { done: [1, 2] } })
})

t.test('a run has a time limit', async t => {
  const cluster = await startCluster({ app, env: { BG_JOB_TIMEOUT_SECS: '1.5' } })
  t.teardown(() => cluster.stop())
  const client = lines.at(-1)!.connect(cluster.url)
  for (const harm of ['signal', 'wait', 'busy']) {
    const { thread_id } = await client.threads.create()
    const stepLog = logs.log()
    const input = { log: stepLog.file, steps: 4, at: 2, harm, ms: 60_000 }
    await t.rejects(client.runs.wait(thread_id, 'poison', { input, durability: 'sync' }), /RunTimeout/, harm)
    t.equal((await client.runs.get(thread_id, await firstRun(cluster.url, thread_id))).status, 'timeout')
    t.match(await client.threads.get(thread_id), {
      status: 'error',
      error: { error: 'RunTimeout' },
      values: { done: [1] },
    })
    t.match(await client.threads.getState(thread_id), { next: ['step'] })
    t.same(stepLog.steps(), [1, 2])
  }
})
