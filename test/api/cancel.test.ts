import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { startCluster, startRoles } from '../helpers/cluster.js'
import { lines, linesOnStore } from '../helpers/sdk.js'
import { readStream } from '../helpers/sse.js'
import { stepLogs } from '../helpers/steps.js'
import { firstRun } from '../helpers/threads.js'
import { until } from '../helpers/until.js'

t.setTimeout(240_000)
const app = 'test/apps/faults'
const logs = stepLogs()
t.teardown(() => logs.remove())

t.test('cancel stops the work, and answers when it has stopped', async t => {
  const cluster = await startCluster({ app })
  t.teardown(() => cluster.stop())

  for (const { name, connect } of linesOnStore) {
    const client = connect(cluster.url)
    const statusOf = async (thread_id: string, run_id: string) => (await client.runs.get(thread_id, run_id)).status

    await t.test(`before pick-up: ${name}`, async t => {
      const { thread_id } = await client.threads.create()
      const [first, second, later] = [logs.log(), logs.log(), logs.log()]
      const running = await client.runs.create(thread_id, 'slow', { input: { log: first.file, ms: 1_500 } })
      const queued = await client.runs.create(thread_id, 'slow', { input: { log: second.file } })
      const delayed = await client.runs.create(thread_id, 'slow', { input: { log: later.file }, afterSeconds: 1 })
      await client.runs.cancel(thread_id, queued.run_id, true)
      await client.runs.cancel(thread_id, delayed.run_id, true)
      t.same(
        [await statusOf(thread_id, queued.run_id), await statusOf(thread_id, delayed.run_id)],
        ['interrupted', 'interrupted'],
      )
      t.match(await client.runs.join(thread_id, running.run_id), { done: [1] }, 'the one before it continues')
      await sleep(1_200)
      t.same([second.steps(), later.steps()], [[], []], 'they never began')
      t.equal((await client.threads.get(thread_id)).status, 'idle')
      const other = await client.threads.create()
      const gone = await client.runs.create(other.thread_id, 'slow', { input: {}, afterSeconds: 3600 })
      await client.runs.cancel(other.thread_id, gone.run_id, true, 'rollback')
      await t.rejects(client.runs.get(other.thread_id, gone.run_id), /HTTP 404/)
      t.match(await client.threads.get(other.thread_id), { status: 'idle', values: null })
    })
  }

  // The effect of a cancel on the work depends on no client.
  const client = lines.at(-1)!.connect(cluster.url)
  const statusOf = async (thread_id: string, run_id: string) => (await client.runs.get(thread_id, run_id)).status

  for (const harm of ['signal', 'wait', 'busy']) {
    await t.test(`during a node (${harm})`, async t => {
      const { thread_id } = await client.threads.create()
      const stepLog = logs.log()
      const beside = logs.log()
      const neighbour = await client.threads.create()
      const other = await client.runs.create(neighbour.thread_id, 'steps', {
        input: { log: beside.file, steps: 200 },
        config: { recursion_limit: 1_000 },
      })
      await beside.begun(1)
      const input = { log: stepLog.file, steps: 5, at: 3, harm, ms: 60_000 }
      const stream = readStream(`${cluster.url}/threads/${thread_id}/runs/stream`, {
        method: 'POST',
        body: { assistant_id: 'poison', input, durability: 'sync' },
      })
      await stepLog.begun(3)
      const run_id = await firstRun(cluster.url, thread_id)
      await client.runs.cancel(thread_id, run_id, true)
      t.equal(await statusOf(thread_id, run_id), 'interrupted')
      const thread = await client.threads.get(thread_id)
      t.match(thread, { status: 'interrupted', values: { done: [1, 2] } }, 'the thread follows its last checkpoint')
      t.match(await client.threads.getState(thread_id), { next: ['step'], values: { done: [1, 2] } })
      const { frames, ended } = await stream
      t.ok(ended)
      t.notOk(frames.some(frame => frame.event === 'error'))
      t.same(stepLog.steps(), [1, 2, 3])
      t.match(await client.runs.join(neighbour.thread_id, other.run_id), { done: { length: 200 } })
      t.equal(await statusOf(neighbour.thread_id, other.run_id), 'success', 'who ran beside it is done')
      // From the remaining checkpoint, without the harmful node.
      const input2 = { at: 0, ms: 5 }
      t.match(await client.runs.wait(thread_id, 'poison', { input: input2 }), { done: { length: 5 } })
      t.match(await client.threads.get(thread_id), { status: 'idle' })
      t.same(stepLog.steps().slice(0, 3), [1, 2, 3])
    })
  }

  await t.test(`rollback in a busy loop`, async t => {
    const { thread_id } = await client.threads.create()
    await client.runs.wait(thread_id, 'poison', { input: { steps: 1 } })
    const before = await client.threads.getState(thread_id)
    const stepLog = logs.log()
    const input = { log: stepLog.file, steps: 5, at: 3, harm: 'busy', ms: 60_000 }
    const run = await client.runs.create(thread_id, 'poison', { input, durability: 'sync' })
    await stepLog.begun(2)
    await client.runs.cancel(thread_id, run.run_id, true, 'rollback')
    await t.rejects(client.runs.get(thread_id, run.run_id), /HTTP 404/)
    t.same(await client.threads.getState(thread_id), before)
    t.match(await client.threads.get(thread_id), { status: 'idle', values: { done: [1] } })
  })

  await t.test('without wait: 202 at once, the rest follows', async t => {
    const { thread_id } = await client.threads.create()
    const stepLog = logs.log()
    const run = await client.runs.create(thread_id, 'poison', { input: { log: stepLog.file, at: 1, harm: 'wait' } })
    await stepLog.begun(1)
    const answer = await fetch(`${cluster.url}/threads/${thread_id}/runs/${run.run_id}/cancel?wait=0`, {
      method: 'POST',
    })
    t.equal(answer.status, 202)
    // In MongoDB the run ends one write before its thread is released.
    await until(async () => (await client.threads.get(thread_id)).status !== 'busy')
    t.match(await client.threads.get(thread_id), { status: 'interrupted', values: {} })
    t.match(await client.runs.get(thread_id, run.run_id), { status: 'interrupted' })
  })
})

t.test('cancel while a run waits for its next worker', async t => {
  const roles = await startRoles({ app, graphs: 2 })
  t.teardown(() => roles.stop())
  const client = lines[0]!.connect(roles.urls[0]!)
  const { thread_id } = await client.threads.create()
  const stepLog = logs.log()
  const run = await client.runs.create(thread_id, 'poison', {
    input: { log: stepLog.file, steps: 4, at: 3, harm: 'wait' },
    durability: 'sync',
  })
  const [, , third] = await stepLog.begun(3)
  roles.graphs.find(({ pid }) => pid === parentOf(third!.pid))!.kill('SIGKILL')
  await client.runs.cancel(thread_id, run.run_id, true)
  t.equal((await client.runs.get(thread_id, run.run_id)).status, 'interrupted')
  t.match(await client.threads.get(thread_id), { status: 'interrupted', values: { done: [1, 2] } })
  t.same(stepLog.steps(), [1, 2, 3], 'it did not begin again')
})

const parentOf = (pid: number) => Number(/^PPid:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1])
