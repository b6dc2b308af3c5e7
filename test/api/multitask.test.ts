import t from 'tap'
import { startCluster } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'
import { readStream } from '../helpers/sse.js'

type Values = { [name: string]: unknown }
const until = async (check: () => Promise<boolean>, ms = 10_000) => {
  const end = Date.now() + ms
  while (!(await check())) {
    if (Date.now() > end) throw new Error('waited in vain')
    await new Promise(done => setTimeout(done, 20))
  }
}

t.test('several runs on one thread', async t => {
  const cluster = await startCluster({ app: 'test/apps/basic' })
  t.teardown(() => cluster.stop())

  for (const { name, connect } of lines) {
    await t.test(name, async t => {
      const client = connect(cluster.url)
      const running = async (thread_id: string, run_id: string) =>
        until(async () => (await client.runs.get(thread_id, run_id)).status === 'running')

      await t.test('reject: 409, nothing changed', async t => {
        const { thread_id } = await client.threads.create()
        const first = await client.runs.create(thread_id, 'slow', { input: { ms: 400 } })
        await t.rejects(client.runs.create(thread_id, 'slow', { input: {}, multitaskStrategy: 'reject' }), /HTTP 409/)
        await client.runs.join(thread_id, first.run_id)
        t.match(await client.runs.wait(thread_id, 'echo', { input: { text: 'x' }, multitaskStrategy: 'reject' }), {
          seen: 'x',
        })
      })

      await t.test('interrupt: the first is interrupted, the second runs after it', async t => {
        const { thread_id } = await client.threads.create()
        const first = await client.runs.create(thread_id, 'slow', { input: { ms: 20_000 } })
        const waiting = await client.runs.create(thread_id, 'slow', { input: { ms: 20_000 } })
        await running(thread_id, first.run_id)
        t.match(await client.runs.wait(thread_id, 'echo', { input: { text: 'now' }, multitaskStrategy: 'interrupt' }), {
          seen: 'now',
        })
        t.equal((await client.runs.get(thread_id, first.run_id)).status, 'interrupted')
        t.equal((await client.runs.get(thread_id, waiting.run_id)).status, 'interrupted')
        t.equal((await client.threads.get(thread_id)).status, 'idle')
      })

      await t.test('rollback: the first and its checkpoints are gone', async t => {
        const { thread_id } = await client.threads.create()
        await client.runs.wait(thread_id, 'counter', { input: { steps: 2 } })
        const before = await client.threads.getState(thread_id)
        const first = await client.runs.create(thread_id, 'slow', { input: { ms: 20_000 }, durability: 'sync' })
        await running(thread_id, first.run_id)
        const second = await client.runs.create(thread_id, 'slow', { input: { ms: 1 }, multitaskStrategy: 'rollback' })
        await client.runs.join(thread_id, second.run_id)
        await t.rejects(client.runs.get(thread_id, first.run_id), /HTTP 404/)
        t.equal((await client.runs.get(thread_id, second.run_id)).status, 'success')
        const third = await client.runs.create(thread_id, 'slow', { input: { ms: 20_000 }, durability: 'sync' })
        await running(thread_id, third.run_id)
        await client.runs.cancel(thread_id, third.run_id, true, 'rollback')
        await t.rejects(client.runs.get(thread_id, third.run_id), /HTTP 404/)
        const after = await client.threads.getState(thread_id)
        t.match(after.values, { done: true })
        t.match((await client.threads.get(thread_id)).values, { done: true })
        t.ok(before.checkpoint!.checkpoint_id! < after.checkpoint!.checkpoint_id!)
      })

      await t.test('cancel: running, pending and ended', async t => {
        const { thread_id } = await client.threads.create()
        const run = await client.runs.create(thread_id, 'slow', { input: { ms: 20_000 } })
        const next = await client.runs.create(thread_id, 'slow', { input: { ms: 20_000 } })
        await running(thread_id, run.run_id)
        await client.runs.cancel(thread_id, next.run_id, true)
        t.equal((await client.runs.get(thread_id, next.run_id)).status, 'interrupted')
        await client.runs.cancel(thread_id, run.run_id, true)
        t.equal((await client.runs.get(thread_id, run.run_id)).status, 'interrupted')
        t.not((await client.threads.get(thread_id)).status, 'busy')
        await t.rejects(client.runs.cancel(thread_id, run.run_id), /HTTP 409/)
        await t.rejects(client.runs.cancel(thread_id, thread_id), /HTTP 404/)
      })

      await t.test('the answer of a cancel is whole at once', async t => {
        const { thread_id } = await client.threads.create()
        const run = await client.runs.create(thread_id, 'echo', { input: {}, afterSeconds: 3600 })
        const answer = await fetch(`${cluster.url}/threads/${thread_id}/runs/${run.run_id}/cancel`, { method: 'POST' })
        t.equal(answer.status, 202)
        t.equal(answer.headers.get('content-length'), '0')
        t.equal(await answer.text(), '')
      })

      await t.test('after_seconds: pending until due, cancellable, in order of due time', async t => {
        const { thread_id } = await client.threads.create()
        const late = await client.runs.create(thread_id, 'echo', { input: { text: 'late' }, afterSeconds: 0.8 })
        const early = await client.runs.create(thread_id, 'echo', { input: { text: 'early' }, afterSeconds: 0.3 })
        const never = await client.runs.create(thread_id, 'echo', { input: { text: 'never' }, afterSeconds: 3600 })
        t.equal(late.status, 'pending')
        t.equal((await client.threads.get(thread_id)).status, 'busy')
        t.match(await client.runs.join(thread_id, early.run_id), { seen: 'early' })
        t.match(await client.runs.join(thread_id, late.run_id), { seen: 'late' })
        await client.runs.cancel(thread_id, never.run_id, true)
        t.equal((await client.runs.get(thread_id, never.run_id)).status, 'interrupted')
        t.equal((await client.threads.get(thread_id)).status, 'idle')
      })
    })
  }

  await t.test('50 callers, each strategy: one at a time, in order, nothing left busy', async t => {
    const client = lines[0]!.connect(cluster.url)
    for (const strategy of ['enqueue', 'reject', 'interrupt', 'rollback'] as const) {
      const { thread_id } = await client.threads.create()
      const answers = await Promise.allSettled(
        Array.from({ length: 50 }, async () => {
          const response = await fetch(`${cluster.url}/threads/${thread_id}/runs`, {
            method: 'POST',
            headers: { 'content-type': 'application/json' },
            body: JSON.stringify({ assistant_id: 'slow', input: { ms: 5 }, multitask_strategy: strategy }),
          })
          return { status: response.status, run: (await response.json()) as { run_id: string } }
        }),
      )
      const statuses = answers.map(answer => (answer.status === 'fulfilled' ? answer.value.status : 0))
      t.ok(
        statuses.every(status => status === 200 || (strategy === 'reject' && status === 409)),
        `${strategy}: ${[...new Set(statuses)]}`,
      )
      await until(async () => (await client.threads.get(thread_id)).status === 'idle', 30_000)
      const runs = answers.flatMap(answer =>
        answer.status === 'fulfilled' && answer.value.status === 200 ? [answer.value.run.run_id] : [],
      )
      const ended = await Promise.all(
        runs.map(run_id =>
          client.runs.get(thread_id, run_id).then(
            run => run.status,
            () => 'gone',
          ),
        ),
      )
      const legal = {
        enqueue: ['success'],
        reject: ['success'],
        interrupt: ['success', 'interrupted'],
        rollback: ['success', 'gone'],
      }[strategy]
      t.ok(
        ended.every(status => legal.includes(status)),
        `${strategy}: ${[...new Set(ended)]}`,
      )
      t.ok(ended.includes('success'))
    }
  })

  await t.test('readers of a superseded run see its stream end', async t => {
    const client = lines[0]!.connect(cluster.url)
    const { thread_id } = await client.threads.create()
    const stream = readStream(`${cluster.url}/threads/${thread_id}/runs/stream`, {
      method: 'POST',
      body: { assistant_id: 'chunks', input: { count: 2_000, delay_ms: 10 }, stream_mode: 'custom' },
    })
    await new Promise(done => setTimeout(done, 300))
    await client.runs.wait(thread_id, 'echo', { input: {}, multitaskStrategy: 'interrupt' })
    const { frames, ended } = await stream
    t.ok(ended && frames.length < 1_500)
    t.notOk(frames.some(frame => frame.event === 'error'))
    t.same((await client.threads.get(thread_id)).status satisfies string, 'idle' as Values[string])
  })
})
