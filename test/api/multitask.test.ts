import t from 'tap'
import { basicServer, startCluster } from '../helpers/cluster.js'
import { lines, linesOnStore } from '../helpers/sdk.js'
import { readStream } from '../helpers/sse.js'
import { stepLogs } from '../helpers/steps.js'
import { until } from '../helpers/until.js'

t.setTimeout(280_000)
const CALLERS = 50

type Values = { [name: string]: unknown }
t.test('several runs on one thread', async t => {
  const cluster = await basicServer()
  t.teardown(() => cluster.stop())

  for (const { name, connect } of linesOnStore) {
    await t.test(name, async t => {
      const client = connect(cluster.url)
      const running = async (thread_id: string, run_id: string) =>
        until(async () => (await client.runs.get(thread_id, run_id)).status === 'running')

      await t.test('reject: 409, nothing changed', async t => {
        const { thread_id } = await client.threads.create()
        const first = await client.runs.create(thread_id, 'slow', { input: { ms: 2_000 } })
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

      await t.test('rollback: the first run and its checkpoints are removed', async t => {
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

      await t.test('the answer of a cancel is complete at once', async t => {
        const { thread_id } = await client.threads.create()
        const run = await client.runs.create(thread_id, 'echo', { input: {}, afterSeconds: 3600 })
        const answer = await fetch(`${cluster.url}/threads/${thread_id}/runs/${run.run_id}/cancel`, { method: 'POST' })
        t.equal(answer.status, 202)
        t.equal(answer.headers.get('content-length'), '0')
        t.equal(await answer.text(), '')
      })

      await t.test('after_seconds: pending until due, can be cancelled, in the order of due times', async t => {
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

t.test('50 callers at once on one thread', async t => {
  const cluster = await startCluster({ app: 'test/apps/faults' })
  const logs = stepLogs()
  t.teardown(async () => {
    await cluster.stop()
    logs.remove()
  })
  const client = lines[0]!.connect(cluster.url)
  const legal = {
    enqueue: ['success'],
    reject: ['success'],
    interrupt: ['success', 'interrupted'],
    rollback: ['success', 'gone'],
  }

  for (const mode of ['', '/stream', '/wait'])
    for (const strategy of ['enqueue', 'reject', 'interrupt', 'rollback'] as const)
      await t.test(`${strategy}, POST …/runs${mode}`, async t => {
        const { thread_id } = await client.threads.create()
        const stepLog = logs.log()
        const accepted: Accepted[] = []
        const bodies: Promise<unknown>[] = []
        const one = async (n: number) => {
          const sent = performance.now()
          const response = await fetch(`${cluster.url}/threads/${thread_id}/runs${mode}`, {
            method: 'POST',
            headers: { 'content-type': 'application/json' },
            body: JSON.stringify({
              assistant_id: 'span',
              input: { log: stepLog.file, n, ms: strategy === 'interrupt' || strategy === 'rollback' ? 20 : 2 },
              multitask_strategy: strategy,
            }),
          })
          const run_id = response.headers.get('content-location')?.split('/').at(-1) ?? ''
          accepted.push({ n, run_id, status: response.status, sent, answered: performance.now() })
          bodies.push(response.text())
        }
        const caller = async (i: number) => {
          await one(2 * i + 1)
          await one(2 * i + 2)
        }
        await Promise.all(Array.from({ length: CALLERS }, (_, i) => caller(i)))
        await Promise.all(bodies)
        await until(async () => (await client.threads.get(thread_id)).status === 'idle', 60_000)

        const statuses = new Set(accepted.map(({ status }) => status))
        t.ok(
          [...statuses].every(status => status === 200 || (strategy === 'reject' && status === 409)),
          `answers: ${[...statuses]}`,
        )
        const mine = accepted.filter(({ status }) => status === 200)
        const ended = await Promise.all(
          mine.map(({ run_id }) =>
            client.runs.get(thread_id, run_id).then(
              run => run.status as string,
              () => 'gone',
            ),
          ),
        )
        t.same(
          ended.filter(status => !legal[strategy].includes(status)),
          [],
          `ends: ${[...new Set(ended)]}`,
        )
        const order = stepLog.steps()
        t.ok(
          order.every((n, i) => (i % 2 === 0 ? n > 0 : n === -order[i - 1]!)),
          'never two at once',
        )
        const starts = order.filter(n => n > 0)
        t.equal(new Set(starts).size, starts.length, 'none twice')
        if (strategy === 'enqueue') t.equal(starts.length, 2 * CALLERS)
        if (strategy === 'reject') t.equal(starts.length, mine.length, 'a refused one never runs')
        t.same(outOfOrder(starts, mine), [], 'in the order of acceptance')
        t.equal(ended[mine.findIndex(({ n }) => n === starts.at(-1))], 'success', 'the last one ran to its end')
        t.match(await client.threads.get(thread_id), { values: { last: starts.at(-1) } })
        t.match(await client.runs.wait(thread_id, 'span', { input: { n: 1000 } }), { last: 1000 }, 'and it continues')
      })
})

interface Accepted {
  n: number
  run_id: string
  status: number
  sent: number
  answered: number
}

/** Pairs that started in the wrong order: one was answered before the other was sent. */
function outOfOrder(starts: number[], accepted: Accepted[]): [number, number][] {
  const at = new Map(starts.map((n, i) => [n, i]))
  const ran = accepted.filter(({ n }) => at.has(n))
  return ran.flatMap(a =>
    ran.flatMap((b): [number, number][] => (a.answered < b.sent && at.get(a.n)! > at.get(b.n)! ? [[a.n, b.n]] : [])),
  )
}
