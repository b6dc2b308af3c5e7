/** Copying threads, replaying a history into a new one, pruning, and expired threads. */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { startCluster } from '../helpers/cluster.js'
import { sender } from '../helpers/http.js'
import { lines, linesOnStore } from '../helpers/sdk.js'
import { historyOf, type ThreadState } from '../helpers/threads.js'

type Storage = { [part: string]: { bytes: number; count: number; by_channel: { [channel: string]: object } } } & {
  thread_id: string
  total_bytes: number
}

t.setTimeout(180_000)

t.test('copy, supersteps, prune', async t => {
  const cluster = await startCluster({ app: 'test/apps/basic' })
  t.teardown(() => cluster.stop())
  const send = sender(cluster.url)

  for (const { name, connect } of linesOnStore) {
    await t.test(name, async t => {
      const client = connect(cluster.url)
      const { threads, runs } = client
      const history = historyOf(client)
      /** With the id of the thread replaced everywhere. */
      const renamed = <T>(value: T, from: string, to: string): T =>
        JSON.parse(JSON.stringify(value).replaceAll(from, to)) as T

      await t.test('a copy equals its source and is independent of it', async t => {
        const { thread_id } = await threads.create({ metadata: { mark: randomUUID() } })
        await runs.wait(thread_id, 'counter', { input: { steps: 3 }, metadata: { mine: `of ${thread_id}` } })
        await runs.wait(thread_id, 'counter', { input: { steps: 70 }, config: { recursion_limit: 100 } })
        const [source, states] = [await threads.get(thread_id), await history(thread_id)]
        t.ok(states.length > 60)
        const copy = await threads.copy(thread_id)
        t.not(copy.thread_id, thread_id)
        t.match(copy, { status: 'idle', metadata: source.metadata!, values: source.values!, interrupts: {} })
        t.same(await threads.get(copy.thread_id), copy)
        const copied = await history(copy.thread_id)
        t.same(copied, renamed(states, thread_id, copy.thread_id))
        t.same(copied[0]!.metadata.mine, undefined)
        t.same(copied.at(-1)!.metadata.mine, `of ${copy.thread_id}`, 'also within the metadata')
        t.same(
          await threads.getState(copy.thread_id),
          renamed(await threads.getState(thread_id), thread_id, copy.thread_id),
        )
        const old = states[5]!.checkpoint.checkpoint_id
        t.same(
          await threads.getState(copy.thread_id, old),
          renamed(await threads.getState(thread_id, old), thread_id, copy.thread_id),
        )
        t.match(await runs.wait(copy.thread_id, 'counter', { input: { steps: 71 } }), { steps: 71 })
        await threads.updateState(copy.thread_id, { values: { steps: 0 } })
        t.same(await history(thread_id), states, 'the source is as it was')
        t.same(await threads.get(thread_id), source)
        t.same(await runs.list(copy.thread_id).then(list => list.length), 1, 'runs are not copied')
        await threads.delete(thread_id)
        t.equal((await history(copy.thread_id)).length, states.length + 4, 'nor does it need the source')
        t.ok((await threads.search({ metadata: source.metadata as never })).length === 1, 'it can be searched for')
        await t.rejects(threads.copy(randomUUID()), /HTTP 404/)
      })

      await t.test('a copy of an empty, of an interrupted and of a failed thread', async t => {
        const { thread_id } = await threads.create()
        const empty = await threads.copy(thread_id)
        t.match(empty, { status: 'idle', values: null, metadata: {} })
        t.same(await history(empty.thread_id), [])

        await runs.wait(thread_id, 'nested', { input: {} })
        const source = await threads.get(thread_id)
        const copy = await threads.copy(thread_id)
        t.match(copy, { status: 'interrupted', interrupts: source.interrupts })
        const deep = (id: string) => threads.getState(id, undefined, { subgraphs: true })
        t.same(await deep(copy.thread_id), renamed(await deep(thread_id), thread_id, copy.thread_id))
        t.match(await runs.wait(copy.thread_id, 'nested', { command: { resume: 5 } }), { numbers: [1, 1, 2, 5] })
        t.same((await threads.get(thread_id)).status, 'interrupted')

        const { thread_id: failed } = await threads.create()
        await t.rejects(runs.wait(failed, 'fail', { input: {} }))
        t.match(await threads.copy(failed), { status: 'interrupted', values: { before: true } })
      })

      await t.test('a copy of a busy thread has the state before the run', async t => {
        const { thread_id } = await threads.create()
        await runs.wait(thread_id, 'counter', { input: { steps: 2 } })
        const before = (await history(thread_id)).length
        const run = await runs.create(thread_id, 'slow', { input: { ms: 60_000 } })
        while ((await runs.get(thread_id, run.run_id)).status !== 'running');
        const copy = await threads.copy(thread_id)
        t.equal(copy.status === 'busy', false)
        t.ok((await history(copy.thread_id)).length >= before)
        t.match(await runs.wait(copy.thread_id, 'echo', { input: { text: 'free' } }), { seen: 'free' })
        await threads.delete(thread_id)
      })

      await t.test('supersteps replay a history', async t => {
        const supersteps = [
          { updates: [{ values: { steps: 2 }, asNode: '__input__' }] },
          { updates: [{ values: { steps: 2 }, asNode: '__start__' }] },
          { updates: [{ values: { numbers: [1] }, asNode: 'count' }] },
          { updates: [{ values: { numbers: [2] }, asNode: 'count' }] },
        ]
        const metadata = { of: 'supersteps' }
        const made = await threads.create({ graphId: 'counter', metadata, supersteps } as never)
        t.same(made.metadata, { of: 'supersteps', graph_id: 'counter' })
        t.match(made, { status: 'idle', values: { steps: 2, numbers: [1, 2] } })
        const all = await history(made.thread_id)
        t.same(
          all.map(({ values, next }) => [values.numbers, next]),
          [
            [[1, 2], []],
            [[1], ['count']],
            [[], ['count']],
            [[], ['__start__']],
          ],
        )
        t.same(
          all.map(({ metadata }) => metadata.source),
          ['update', 'update', 'update', 'input'],
        )
        const real = await threads.create()
        await runs.wait(real.thread_id, 'counter', { input: { steps: 2 } })
        const wanted = (await history(real.thread_id)).map(({ values, next }) => ({ values, next }))
        t.same(
          all.map(({ values, next }) => ({ values, next })),
          wanted,
          'as a run would have left it',
        )
        t.match(await runs.wait(made.thread_id, 'counter', { input: { steps: 3 } }), { numbers: [1, 2, 3] })
        t.equal((await threads.search({ metadata: { of: 'supersteps' } })).length, 1)
        const same = { threadId: made.thread_id, graphId: 'counter', supersteps }
        await t.rejects(threads.create(same as never), /HTTP 409/)
        const again = await threads.create({ ...same, ifExists: 'do_nothing' } as never)
        t.match(again, { values: { numbers: [1, 2, 3] } }, 'unchanged')
        await threads.delete(made.thread_id)

        const forked = [...supersteps, { updates: [{ values: null, asNode: '__copy__' }] }] as never
        const fork = await threads.create({ graphId: 'counter', supersteps: forked } as never)
        t.equal((await history(fork.thread_id, { limit: 1 }))[0]!.metadata.source, 'fork')
        const both = [
          { updates: [{ command: { update: { numbers: [9] } }, values: { numbers: [8] }, asNode: 'count' }] },
        ]
        t.match(await threads.create({ graphId: 'counter', supersteps: both } as never), { values: { numbers: [9] } })
      })

      await t.test('supersteps that fail leave no thread', async t => {
        const threadId = randomUUID()
        const create = (more: object) => threads.create({ threadId, graphId: 'counter', ...more } as never)
        const step = (asNode: string) => ({ updates: [{ values: { numbers: [1] }, asNode }] })
        await t.rejects(create({ supersteps: [step('count'), step('nope')] }), /HTTP 422.*nope/)
        await t.rejects(threads.get(threadId), /HTTP 404/)
        await t.rejects(create({ supersteps: [step('count')], graphId: 'absent' }), /HTTP 404/)
        await t.rejects(create({ supersteps: [step('count')], graphId: undefined }), /HTTP 400.*graph/)
        await t.rejects(create({ supersteps: [{ updates: [{ values: {} }] }] }), /HTTP 422.*as_node/)
        await t.rejects(create({ supersteps: [{ updates: [] }] }), /HTTP 422/)
        await threads.create({ threadId })
        t.same(await history(threadId), [])
      })
    })
  }

  await t.test('prune keeps the newest of each namespace, or nothing', async t => {
    const client = lines[0]!.connect(cluster.url)
    const { threads, runs } = client
    const history = historyOf(client)
    const storageOf = async (id: string) => (await send('GET', `/threads/${id}/storage`)).body as Storage
    const { thread_id } = await threads.create()
    for (const steps of [20, 40])
      await runs.wait(thread_id, 'counter', { input: { steps }, config: { recursion_limit: 100 } })
    const [state, storage] = [await threads.getState(thread_id), await storageOf(thread_id)]
    t.equal(storage.thread_id, thread_id)
    const { checkpoints, channel_values, pending_writes } = storage
    t.equal(storage.total_bytes, checkpoints!.bytes + channel_values!.bytes + pending_writes!.bytes)
    t.equal(checkpoints!.count, (await history(thread_id)).length)
    t.ok(channel_values!.by_channel.numbers)
    const busy = await threads.create()
    const run = await runs.create(busy.thread_id, 'slow', { input: { ms: 60_000 } })
    const ids = [thread_id, thread_id.toUpperCase(), randomUUID(), busy.thread_id]
    t.same(await threads.prune(ids, { strategy: 'keep_latest' }), { pruned_count: 1 })
    t.match(await runs.get(busy.thread_id, run.run_id), { status: /pending|running/ }, 'a busy one is left alone')
    const left = await history(thread_id)
    t.equal(left.length, 1)
    t.same(await threads.getState(thread_id), state)
    t.same((await threads.get(thread_id)).values, (state as never as ThreadState).values)
    const less = await storageOf(thread_id)
    t.equal(less.checkpoints!.count, 1)
    t.ok(less.channel_values!.count <= 4, 'only what the newest refers to')
    t.ok(less.total_bytes * 5 < storage.total_bytes)
    t.match(await runs.wait(thread_id, 'counter', { input: { steps: 41 } }), { steps: 41 })
    t.same(await threads.prune([thread_id], { strategy: 'keep_latest' }), { pruned_count: 1 })

    const nested = await threads.create()
    await runs.wait(nested.thread_id, 'nested', { input: {} })
    const deep = () => threads.getState(nested.thread_id, undefined, { subgraphs: true })
    const before = await deep()
    t.same(await threads.prune([nested.thread_id], { strategy: 'keep_latest' }), { pruned_count: 1 })
    t.same(await deep(), before, 'the subgraph that waits is there')
    t.match(await runs.wait(nested.thread_id, 'nested', { command: { resume: 5 } }), { numbers: [1, 1, 2, 5] })

    t.same(await threads.prune([thread_id, busy.thread_id, nested.thread_id, randomUUID()]), { pruned_count: 3 })
    for (const id of [thread_id, busy.thread_id, nested.thread_id]) await t.rejects(threads.get(id), /HTTP 404/)
    t.match(await storageOf(thread_id), { detail: /not found/ })
    t.same((await send('POST', '/threads/prune', { thread_ids: [] })).body, { pruned_count: 0 })
    for (const body of [{}, { thread_ids: 'x' }, { thread_ids: ['x'] }, { thread_ids: [], strategy: 'x' }])
      t.match(
        await send('POST', '/threads/prune', body),
        { status: 422, body: { detail: String } },
        JSON.stringify(body),
      )
  })

  await t.test('a prune keeps the values that an incremental channel needs, and a copy has all of them', async t => {
    const { threads, runs } = lines[0]!.connect(cluster.url)
    const { thread_id } = await threads.create()
    await runs.wait(thread_id, 'delta', { input: { steps: 10 } })
    const values = { steps: 10, numbers: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] }
    const { thread_id: copy } = await threads.copy(thread_id)
    for (const id of [thread_id, copy]) {
      const before = (await threads.getHistory(id, { limit: 1_000 })).length
      await threads.prune([id], { strategy: 'keep_latest' })
      const after = (await threads.getHistory(id, { limit: 1_000 })).length
      t.ok(after < before, `${after} of ${before} checkpoints`)
      t.match(await threads.getState(id), { values })
      await threads.updateState(id, { values: { steps: 11 }, asNode: 'count' } as never)
      await threads.prune([id], { strategy: 'keep_latest' })
      t.match(await threads.getState(id), { values: { ...values, steps: 11 } })
      t.match(await runs.wait(id, 'delta', { input: null }), { numbers: [...values.numbers, 11] })
    }
  })

  await t.test('large values are copied, too', async t => {
    const { threads, runs } = lines[0]!.connect(cluster.url)
    const { thread_id } = await threads.create()
    const text = 'large '.repeat(700_000)
    await runs.wait(thread_id, 'echo', { input: { text } })
    const copy = await threads.copy(thread_id)
    t.ok((copy.values as { seen: string }).seen === text)
    const [state] = await threads.getHistory(copy.thread_id, { limit: 1 })
    t.ok((state!.values as { seen: string }).seen === text)
    for (const id of [thread_id, copy.thread_id]) await threads.delete(id)
  })
})

t.test('expired threads', async t => {
  const cluster = await startCluster({ app: 'test/apps/ttl' })
  t.teardown(() => cluster.stop())
  const { threads, runs } = lines[0]!.connect(cluster.url)
  const gone = async (id: string) => {
    for (;;) {
      const found = await threads.get(id).catch(() => null)
      if (found === null) return
      await sleep(100)
    }
  }
  const byDefault = await threads.create()
  const plain = await threads.get(byDefault.thread_id, { include: ['ttl'] } as never)
  t.match(plain, { ttl: { strategy: 'delete', ttl_minutes: 0.05, expires_at: String } })
  const kept = await threads.create({ ttl: { ttl: 0.05, strategy: 'keep_latest' } } as never)
  const long = await threads.create({ ttl: 60 } as never)
  await runs.wait(kept.thread_id, 'counter', { input: { steps: 4 } })
  const made = await runs.wait(null, 'counter', { input: { steps: 2 }, onCompletion: 'keep' } as never)
  t.match(made, { numbers: [1, 2] })
  const busy = await threads.create()
  const run = await runs.create(busy.thread_id, 'slow', { input: { ms: 12_000 } })
  const ids = (await threads.search({ limit: 100 })).map(({ thread_id }) => thread_id)
  t.equal(ids.length, 5)
  const [stateless] = ids.filter(id => ![byDefault, kept, long, busy].some(({ thread_id }) => thread_id === id)) as [
    string,
  ]
  await Promise.all([gone(byDefault.thread_id), gone(stateless)])
  t.match(await threads.get(long.thread_id), { status: 'idle' })
  for (;;) {
    const left = (await threads.getHistory(kept.thread_id, { limit: 100 })) as never as ThreadState[]
    t.same(left[0]!.values, { steps: 4, numbers: [1, 2, 3, 4] })
    if (left.length === 1) break
    await sleep(500)
  }
  const states = await runs.join(busy.thread_id, run.run_id)
  t.match(states, { done: true }, 'a busy thread waits for its run')
  await gone(busy.thread_id)
  t.equal(await threads.count(), 2)
})
