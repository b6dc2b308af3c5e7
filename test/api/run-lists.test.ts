import type { Client } from '@langchain/langgraph-sdk'
import t from 'tap'
import { type Cluster, startCluster } from '../helpers/cluster.js'
import { lines, linesOnStore } from '../helpers/sdk.js'
import { readStream } from '../helpers/sse.js'
import { until } from '../helpers/until.js'

t.setTimeout(180_000)
const json = { 'content-type': 'application/json' }
const absent = '0198f2a5-0000-7000-8000-000000000000'
type Run = { run_id: string; thread_id: string; status: string; metadata: { [key: string]: unknown } }

let cluster: Cluster
t.before(async () => {
  cluster = await startCluster({ app: 'test/apps/basic' })
})
t.teardown(() => cluster.stop())

const call = async (method: string, path: string, body?: unknown, headers = {}) => {
  const response = await fetch(`${cluster.url}${path}`, {
    method,
    headers: { ...(body === undefined ? {} : json), ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  return { status: response.status, headers: response.headers, body: (text === '' ? null : JSON.parse(text)) as never }
}
const ids = (runs: { run_id: string }[]) => runs.map(({ run_id }) => run_id)
const running = (client: Client, thread_id: string, run_id: string) =>
  until(async () => (await client.runs.get(thread_id, run_id)).status === 'running')

t.test('through the SDK', async t => {
  for (const { name, connect } of linesOnStore) {
    await t.test(name, async t => {
      const client = connect(cluster.url)

      await t.test('list: newest first, limit, offset, status, select', async t => {
        const { thread_id } = await client.threads.create()
        t.same(await client.runs.list(thread_id), [])
        const made: string[] = []
        for (let i = 0; i < 12; i++) {
          const metadata = { n: i, even: i % 2 === 0 }
          const graph = i === 3 ? 'fail' : 'echo'
          made.unshift((await client.runs.create(thread_id, graph, { input: {}, metadata })).run_id)
        }
        await client.runs.join(thread_id, made[0]!)
        t.same(ids(await client.runs.list(thread_id)), made.slice(0, 10), 'ten of them')
        t.same(ids(await client.runs.list(thread_id, { limit: 5, offset: 9 })), made.slice(9))
        t.same(ids(await client.runs.list(thread_id, { limit: 2, offset: 3 })), made.slice(3, 5))
        t.same(ids(await client.runs.list(thread_id, { status: 'error' })), [made[8]])
        t.same(ids(await client.runs.list(thread_id, { status: 'success', limit: 100 })).length, 11)
        const [whole] = await client.runs.list(thread_id, { limit: 1 })
        t.same(whole, await client.runs.get(thread_id, made[0]!), 'the same run as by itself')
        const [one] = await client.runs.list(thread_id, { limit: 1, select: ['run_id', 'status'] })
        t.same(one, { run_id: made[0], status: 'success' })
        const filter = encodeURIComponent('{"even":true}')
        const even = await call('GET', `/threads/${thread_id}/runs?metadata=${filter}&limit=3&offset=1`)
        t.same(
          (even.body as Run[]).map(run => run.metadata.n),
          [8, 6, 4],
        )
        await t.rejects(client.runs.list(absent), /HTTP 404/)
      })

      await t.test('delete: with its checkpoints; the thread follows what remains', async t => {
        const { thread_id } = await client.threads.create()
        await client.runs.wait(thread_id, 'counter', { input: { steps: 2 } })
        const before = await client.threads.getState(thread_id)
        const stops = await client.runs.create(thread_id, 'nested', { input: {} })
        await client.runs.join(thread_id, stops.run_id)
        t.equal((await client.threads.get(thread_id)).status, 'interrupted')
        await client.runs.delete(thread_id, stops.run_id)
        await t.rejects(client.runs.get(thread_id, stops.run_id), /HTTP 404/)
        await t.rejects(client.runs.delete(thread_id, stops.run_id), /HTTP 404/)
        const thread = await client.threads.get(thread_id)
        t.match(thread, { status: 'idle', interrupts: {}, values: { numbers: [1, 2] } })
        t.equal((await client.threads.getState(thread_id)).checkpoint!.checkpoint_id, before.checkpoint!.checkpoint_id)
        const [first] = await client.runs.list(thread_id)
        await client.runs.wait(thread_id, 'counter', { input: { steps: 3 } })
        await client.runs.delete(thread_id, first!.run_id)
        t.match(
          await client.threads.get(thread_id),
          { values: { numbers: [1, 2, 3] } },
          'an older one changes no values',
        )
        const [last] = await client.runs.list(thread_id)
        await client.runs.delete(thread_id, last!.run_id)
        t.match(await client.threads.get(thread_id), { status: 'idle', values: null }, 'nothing remains')
        t.match(await client.threads.getState(thread_id), { values: {}, checkpoint: null })
        t.match(await client.runs.wait(thread_id, 'counter', { input: { steps: 1 } }), { numbers: [1] })
        await t.rejects(client.runs.delete((await client.threads.create()).thread_id, stops.run_id), /HTTP 404/)
      })

      await t.test('delete of an active run: 409, or with force', async t => {
        const { thread_id } = await client.threads.create()
        const first = await client.runs.create(thread_id, 'slow', { input: { ms: 30_000 } })
        const next = await client.runs.create(thread_id, 'slow', { input: { ms: 30_000 } })
        await running(client, thread_id, first.run_id)
        await t.rejects(client.runs.delete(thread_id, first.run_id), /HTTP 409/)
        await t.rejects(client.runs.delete(thread_id, next.run_id), /HTTP 409/)
        for (const { run_id } of [next, first]) {
          const { status, headers } = await call('DELETE', `/threads/${thread_id}/runs/${run_id}?force=1`)
          t.equal(status, 204)
          t.equal(headers.get('location'), null)
          await t.rejects(client.runs.get(thread_id, run_id), /HTTP 404/)
        }
        t.match(await client.threads.get(thread_id), { status: 'idle', values: null })
      })

      await t.test('a batch: order kept, all or none', async t => {
        const batch = await client.runs.createBatch([
          { assistantId: 'echo', input: { text: 'a' }, streamMode: 'values' },
          { assistantId: 'counter', input: { steps: 2 }, metadata: { mine: 1 } },
          { assistantId: 'fail', input: {} },
        ])
        const made = batch as unknown as Run[]
        t.same(
          made.map(run => run.metadata.graph_id),
          ['echo', 'counter', 'fail'],
        )
        t.equal(new Set(ids(made)).size, 3)
        t.equal(new Set(made.map(run => run.thread_id)).size, 3)
        t.equal(made[1]!.metadata.mine, 1)
        const ends: unknown[] = []
        for (const { run_id } of made) ends.push((await call('GET', `/runs/${run_id}/join`)).body)
        t.match(ends, [{ seen: 'a' }, { numbers: [1, 2] }, { __error__: { error: 'TooBadError' } }])
      })
    })
  }
})

t.test('queries and bodies that are refused', async t => {
  const client = lines[0]!.connect(cluster.url)
  const { thread_id } = await client.threads.create()
  for (const query of ['limit=0', 'limit=1001', 'limit=x', 'offset=-1', 'status=odd', 'select=secret', 'metadata=[]'])
    t.match(await call('GET', `/threads/${thread_id}/runs?${query}`), { status: 422 }, query)
  for (const query of ['limit=', 'select=["run_id","status"]', 'select=run_id&select=status', 'select=run_id,status'])
    t.match(await call('GET', `/threads/${thread_id}/runs?${query}`), { status: 200 }, query)
  t.match(await call('POST', '/runs/batch', []), { status: 422 })
  t.match(await call('POST', '/runs/batch', { assistant_id: 'echo' }), { status: 422 })
  const good = { assistant_id: 'echo', input: {}, metadata: { batch: 'none' } }
  t.match(await call('POST', '/runs/batch', [good, { input: {} }]), { status: 422, body: { detail: /\[1\]/ } })
  t.match(await call('POST', '/runs/batch', [good, { assistant_id: 'absent' }]), {
    status: 404,
    body: { detail: /^\[1\]: No assistant found/ },
  })
  t.match(await call('POST', '/runs/batch', [{ ...good, thread_id: absent, unknown: [1] }]), { status: 200 })
})

t.test('cancel of several runs', async t => {
  const client = lines[0]!.connect(cluster.url)
  const { thread_id } = await client.threads.create()
  const other = await client.threads.create()
  const make = (thread_id: string, options = {}) =>
    client.runs.create(thread_id, 'slow', { input: { ms: 60_000 }, ...options })
  const [first, second, third] = [await make(thread_id), await make(thread_id), await make(thread_id)]
  const beside = await make(other.thread_id)
  await running(client, thread_id, first.run_id)
  await running(client, other.thread_id, beside.run_id)
  const statusOf = async (thread_id: string, run_id: string) => (await client.runs.get(thread_id, run_id)).status

  for (const body of [{}, { thread_id }, { run_ids: [first.run_id] }, { status: 'odd' }, { status: 'all', thread_id }])
    t.match(await call('POST', '/runs/cancel', body), { status: 422 })
  t.match(await call('POST', '/runs/cancel', { thread_id, run_ids: [] }), { status: 422 })
  t.match(await call('POST', '/runs/cancel?action=odd', { status: 'all' }), { status: 422 })
  t.match(await call('POST', '/runs/cancel', { thread_id, run_ids: [beside.run_id] }), { status: 404 })
  t.equal(await statusOf(thread_id, second.run_id), 'pending')

  t.match(await call('POST', '/runs/cancel', { thread_id, run_ids: [second.run_id, absent] }), {
    status: 204,
    body: null,
  })
  t.equal(await statusOf(thread_id, second.run_id), 'interrupted')
  t.match(await call('POST', '/runs/cancel', { thread_id, run_ids: [second.run_id], status: null }), { status: 204 })
  t.match(await call('POST', '/runs/cancel?action=rollback', { status: 'pending' }), { status: 204 })
  t.equal((await call('GET', `/threads/${thread_id}/runs/${third.run_id}`)).status, 404)
  t.equal(await statusOf(thread_id, first.run_id), 'running', 'only those that waited')
  t.match(await call('POST', '/runs/cancel', { status: 'pending' }), { status: 404 })
  t.match(await call('POST', '/runs/cancel', { status: 'all' }), { status: 204 })
  for (const one of [first, beside])
    await until(async () => (await statusOf(one.thread_id, one.run_id)) === 'interrupted')
  await until(async () => (await client.threads.get(thread_id)).status !== 'busy')
  t.match(await call('POST', '/runs/cancel', { status: 'all' }), { status: 404 })
  if ('cancelMany' in client.runs) {
    const run = await make(thread_id)
    await (client.runs as { cancelMany(options: object): Promise<void> }).cancelMany({
      threadId: thread_id,
      runIds: [run.run_id],
    })
    await until(async () => (await statusOf(thread_id, run.run_id)) === 'interrupted')
  } else t.fail('the SDK has no cancelMany')
})

t.test('Idempotency-Key', async t => {
  const client = lines[0]!.connect(cluster.url)
  const { thread_id } = await client.threads.create()
  const key = () => ({ 'idempotency-key': crypto.randomUUID() })
  const body = { assistant_id: 'counter', input: { steps: 2 } }

  await t.test('the same request is one run', async t => {
    for (const path of [`/threads/${thread_id}/runs`, '/runs']) {
      const mine = key()
      const all = await Promise.all(Array.from({ length: 10 }, () => call('POST', path, body, mine)))
      const made = all.filter(({ status }) => status === 200).map(({ body }) => body as Run)
      t.ok(made.length > 0 && all.every(({ status }) => status === 200 || status === 409))
      t.equal(new Set(ids(made)).size, 1)
      const { run_id } = made[0]!
      t.match(await call('POST', path, body, mine), {
        status: 200,
        body: { run_id, thread_id: made[0]!.thread_id },
      })
      t.equal((await call('POST', path, body, mine)).headers.get('content-location')?.endsWith(run_id), true)
      t.match(await call('POST', path, { ...body, input: {} }, mine), {
        status: 422,
        body: { detail: /Idempotency-Key/ },
      })
      t.not(((await call('POST', path, body, key())).body as Run).run_id, run_id, 'another key is another run')
    }
    t.equal((await client.runs.list(thread_id)).length, 2)
  })

  await t.test('wait and stream return the existing run', async t => {
    const waits = key()
    const first = await call('POST', `/threads/${thread_id}/runs/wait`, body, waits)
    const second = await call('POST', `/threads/${thread_id}/runs/wait`, body, waits)
    t.same(second.body, first.body)
    t.equal(second.headers.get('content-location'), first.headers.get('content-location'))
    t.match(await call('POST', `/threads/${thread_id}/runs`, body, waits), { status: 422 }, 'asked for in another way')
    const streams = key()
    const url = `${cluster.url}/threads/${thread_id}/runs/stream`
    const cut = await readStream(url, { method: 'POST', body, headers: streams, stopAfter: 1 })
    const whole = await readStream(url, { method: 'POST', body, headers: streams })
    t.same(whole.frames[0], cut.frames[0], 'from the start')
    t.equal(whole.ended, true)
    t.equal((await client.runs.list(thread_id)).length, 4)
  })

  await t.test('a refused request leaves its key unused', async t => {
    const mine = key()
    t.match(await call('POST', '/runs', { ...body, assistant_id: 'absent' }, mine), { status: 404 })
    t.match(await call('POST', '/runs', body, mine), { status: 200 })
    const slow = await client.runs.create(thread_id, 'slow', { input: { ms: 60_000 } })
    const rejected = key()
    const picky = { ...body, multitask_strategy: 'reject' }
    t.match(await call('POST', `/threads/${thread_id}/runs`, picky, rejected), { status: 409 })
    await client.runs.cancel(thread_id, slow.run_id, true)
    t.match(await call('POST', `/threads/${thread_id}/runs`, picky, rejected), { status: 200 })
  })

  await t.test('a batch', async t => {
    const mine = key()
    const list = [body, { ...body, input: { steps: 1 } }]
    const first = await call('POST', '/runs/batch', list, mine)
    const again = await call('POST', '/runs/batch', list, mine)
    t.same(again.body, first.body)
    t.match(await call('POST', '/runs/batch', [body], mine), { status: 422 })
  })

  await t.test('a removed run is not created again', async t => {
    const mine = key()
    const { body: run } = await call('POST', `/threads/${thread_id}/runs`, body, mine)
    const { run_id } = run as Run
    await client.runs.join(thread_id, run_id)
    await client.runs.delete(thread_id, run_id)
    t.match(await call('POST', `/threads/${thread_id}/runs`, body, mine), { status: 200, body: { run_id } })
    t.equal((await call('GET', `/threads/${thread_id}/runs/${run_id}`)).status, 404)
    const waits = key()
    const done = await call('POST', `/threads/${thread_id}/runs/wait`, body, waits)
    await client.runs.delete(thread_id, done.headers.get('content-location')!.split('/').at(-1)!)
    t.match(await call('POST', `/threads/${thread_id}/runs/wait`, body, waits), {
      status: 409,
      body: { detail: /ended/ },
    })
  })
})
