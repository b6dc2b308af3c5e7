import { randomUUID } from 'node:crypto'
import t from 'tap'
import { basicServer } from '../helpers/cluster.js'
import { sender } from '../helpers/http.js'
import { linesOnStore } from '../helpers/sdk.js'
import { historyOf, type ThreadState } from '../helpers/threads.js'
import { until } from '../helpers/until.js'

t.test('the state of threads', async t => {
  const cluster = await basicServer()
  t.teardown(() => cluster.stop())
  const send = sender(cluster.url)

  for (const { name, connect } of linesOnStore) {
    await t.test(name, async t => {
      const client = connect(cluster.url)
      const { threads, runs } = client
      const history = historyOf(client)
      const counted = async (steps: number) => {
        const { thread_id } = await threads.create()
        await runs.wait(thread_id, 'counter', { input: { steps }, metadata: { kind: `by ${steps}` } })
        return thread_id
      }

      await t.test('an empty thread', async t => {
        const { thread_id } = await threads.create()
        const empty = { values: {}, next: [], tasks: [], metadata: {}, interrupts: [] }
        const none = { checkpoint: null, parent_checkpoint: null, created_at: null }
        t.same(await threads.getState(thread_id), { ...empty, ...none })
        t.same(await threads.getHistory(thread_id), [])
        await t.rejects(threads.getState(thread_id, randomUUID()), /HTTP 404/)
        await t.rejects(threads.updateState(thread_id, { values: { a: 1 } }), /HTTP 400.*graph/)
        await t.rejects(threads.getState(randomUUID()), /HTTP 404/)
        await t.rejects(threads.getHistory(randomUUID()), /HTTP 404/)
        await t.rejects(threads.updateState(randomUUID(), { values: {} }), /HTTP 404/)
      })

      await t.test('only the selected fields', async t => {
        const id = await counted(2)
        const keys = ['values.numbers', 'next']
        const state = { values: { numbers: [1, 2] }, next: [] }
        const query = `select=${encodeURIComponent(JSON.stringify(keys))}`
        t.same((await send('GET', `/threads/${id}/state?${query}`)).body, state)
        t.same((await send('GET', `/threads/${id}/history?limit=1&${query}`)).body, [state])
        t.same((await send('POST', `/threads/${id}/history`, { limit: 1, select: keys })).body, [state])
        const { checkpoint } = await threads.getState(id)
        t.same((await send('POST', `/threads/${id}/state/checkpoint`, { checkpoint, select: ['next'] })).body, {
          next: [],
        })
        const all = await threads.getState(id)
        t.same((await send('GET', `/threads/${id}/state?select=values,values.numbers`)).body, { values: all.values })
        for (const wrong of ['nothing', 'values.'])
          t.match(await send('GET', `/threads/${id}/state?select=${wrong}`), {
            status: 422,
            body: { detail: /values\.<key>/ },
          })
      })

      await t.test('history: newest first, from the input on', async t => {
        const id = await counted(3)
        const all = await history(id)
        t.same(
          all.map(({ values }) => values.numbers),
          [[1, 2, 3], [1, 2], [1], [], []],
        )
        t.same(
          all.map(({ metadata }) => [metadata.source, metadata.step]),
          [
            ['loop', 3],
            ['loop', 2],
            ['loop', 1],
            ['loop', 0],
            ['input', -1],
          ],
        )
        for (const [i, state] of all.entries()) {
          t.equal(state.parent_checkpoint?.checkpoint_id, all[i + 1]?.checkpoint.checkpoint_id)
          t.equal(state.checkpoint.thread_id, id)
        }
        t.same(await threads.getState(id), all[0], 'the newest is the state')
        t.same(await history(id, { limit: 2 }), all.slice(0, 2))
        const second = all[1]!.checkpoint
        for (const before of [second.checkpoint_id, second, { configurable: second }])
          t.same(await history(id, { before }), all.slice(2), 'before, in each of its forms')
        t.same(await history(id, { before: { configurable: second }, limit: 1 }), all.slice(2, 3))
        t.same(await history(id, { before: randomUUID() }), [])
        t.same(await history(id, { metadata: { source: 'loop', step: 2 } }), [all[1]])
        t.same(await history(id, { metadata: { kind: 'by 3' } }), all, 'the metadata of the run')
        t.same(await history(id, { metadata: { kind: 'by 4' } }), [])
        t.same(await history(id, { metadata: { parents: {} }, limit: 1 }), all.slice(0, 1))
        t.same(await history(id, { checkpoint: { checkpoint_id: second.checkpoint_id } }), [all[1]])
        for (const path of ['?limit=2', `?limit=2&before=${second.checkpoint_id}`]) {
          const { body } = await send('GET', `/threads/${id}/history${path}`)
          t.same(body, path.includes('before') ? all.slice(2, 4) : all.slice(0, 2))
        }
        const at = (await threads.getState(id, second.checkpoint_id)) as never as ThreadState
        t.same(at.values, { steps: 3, numbers: [1, 2] })
        t.same(at.next, ['count'])
        t.same(at.checkpoint, { ...second })
        t.same(await threads.getState(id, second as never), at, 'by checkpoint')
        t.same(await threads.getState(id, { checkpoint_id: second.checkpoint_id } as never, { subgraphs: true }), at)
      })

      await t.test('an update is a checkpoint after the newest', async t => {
        const id = await counted(2)
        const before = await threads.get(id)
        const [last] = await history(id, { limit: 1 })
        const made = (await threads.updateState(id, { values: { numbers: [7] } })) as never as ThreadState
        t.same(Object.keys(made.checkpoint).sort(), ['checkpoint_id', 'checkpoint_map', 'checkpoint_ns', 'thread_id'])
        const [state] = await history(id, { limit: 1 })
        t.match(state, {
          values: { steps: 2, numbers: [1, 2, 7] },
          next: [],
          checkpoint: { thread_id: id, checkpoint_id: made.checkpoint.checkpoint_id },
          parent_checkpoint: { checkpoint_id: last!.checkpoint.checkpoint_id },
          metadata: { source: 'update', step: 3, graph_id: 'counter', thread_id: id },
        })
        const thread = await threads.get(id)
        t.same(thread.values, state!.values)
        t.ok(
          (thread as never as { state_updated_at: string }).state_updated_at >
            (before as never as { state_updated_at: string }).state_updated_at,
        )
        t.same(await threads.getState(id), state)
        t.match(
          await runs.wait(id, 'counter', { input: { steps: 5 } }),
          { numbers: [1, 2, 7, 4, 5] },
          'runs go on from it',
        )
      })

      await t.test('as a node: its successors are next, and the thread is interrupted', async t => {
        const id = await counted(2)
        await threads.updateState(id, { values: { steps: 4 }, asNode: 'count' } as never)
        t.match(await threads.getState(id), { values: { steps: 4, numbers: [1, 2] }, next: ['count'] })
        t.equal((await threads.get(id)).status, 'interrupted')
        t.match(await runs.wait(id, 'counter', { input: null }), { numbers: [1, 2, 3, 4] })
        t.equal((await threads.get(id)).status, 'idle')
        await t.rejects(threads.updateState(id, { values: {}, asNode: 'nope' } as never), /HTTP 422.*nope/)
      })

      await t.test('null and lists of values', async t => {
        const id = await counted(1)
        await threads.updateState(id, { values: [{ numbers: [8] }, { steps: 6, numbers: [9] }] } as never)
        t.match(await threads.getState(id), { values: { steps: 6, numbers: [1, 8, 9] } })
        await threads.updateState(id, { values: null } as never)
        t.match(await threads.getState(id), {
          values: { steps: 6, numbers: [1, 8, 9] },
          metadata: { source: 'update' },
        })
        await threads.updateState(id, { values: { steps: 9 }, asNode: 'count' } as never)
        await threads.updateState(id, { values: null, asNode: '__end__' } as never)
        t.match(await threads.getState(id), { values: { steps: 9, numbers: [1, 8, 9] }, next: [] })
        t.equal((await threads.get(id)).status, 'idle')
      })

      await t.test('an update of an old checkpoint forks', async t => {
        const id = await counted(4)
        const all = await history(id)
        const old = all.find(({ values }) => values.numbers?.length === 2)!
        const { checkpoint_id } = old.checkpoint
        await threads.updateState(id, { values: { steps: 3 }, checkpointId: checkpoint_id, asNode: 'count' } as never)
        t.match(await threads.getState(id), { values: { steps: 3, numbers: [1, 2] }, next: ['count'] })
        t.match(await runs.wait(id, 'counter', { input: null }), { numbers: [1, 2, 3] })
        await threads.updateState(id, { values: { numbers: [0] }, checkpoint: old.checkpoint } as never)
        const [newest, ...rest] = await history(id)
        t.match(newest, { values: { numbers: [1, 2, 0] }, parent_checkpoint: { checkpoint_id } })
        t.same(rest.slice(-all.length), all, 'what was there stays as it was')
        await t.rejects(threads.updateState(id, { values: {}, checkpointId: randomUUID() } as never), /HTTP 404/)
      })

      await t.test('an answer to an interrupt, and its end', async t => {
        const { thread_id } = await threads.create()
        await runs.wait(thread_id, 'ask', { input: { question: 'who?' } })
        t.match(await threads.get(thread_id), { status: 'interrupted' })
        await threads.updateState(thread_id, { values: { answer: 'me' }, asNode: 'node' } as never)
        t.match(await threads.get(thread_id), { status: 'idle', interrupts: {}, values: { answer: 'me' } })
      })

      await t.test('subgraphs: their state, their history, their update', async t => {
        const { thread_id } = await threads.create()
        await runs.wait(thread_id, 'nested', { input: {} })
        const flat = (await threads.getState(thread_id)) as never as ThreadState
        const place = flat.tasks[0]!.checkpoint as { checkpoint_ns: string }
        t.match(place.checkpoint_ns, /^sub:/)
        const deep = (await threads.getState(thread_id, undefined, { subgraphs: true })) as never as ThreadState
        const inner = deep.tasks[0]!.state!
        t.match(inner, {
          values: { numbers: [1, 2] },
          next: ['asking'],
          checkpoint: { checkpoint_ns: place.checkpoint_ns },
        })
        t.equal(deep.tasks[0]!.checkpoint, null)
        const { checkpoint_ns } = place
        const there = (await threads.getState(thread_id, { checkpoint_ns } as never)) as never as ThreadState
        t.match(there, { values: { numbers: [1, 2] }, next: ['asking'] })
        const within = await history(thread_id, { checkpoint: { checkpoint_ns } })
        t.ok(within.length >= 2)
        t.ok(within.every(({ checkpoint }) => checkpoint.checkpoint_ns === checkpoint_ns))
        t.ok((await history(thread_id)).every(({ checkpoint }) => checkpoint.checkpoint_ns === ''))
        await threads.updateState(thread_id, { values: { numbers: [5] }, checkpoint: { checkpoint_ns } } as never)
        const after = (await threads.getState(thread_id, { checkpoint_ns } as never)) as never as ThreadState
        t.same(after.values.numbers, [1, 2, 5])
        const head = (await threads.getState(thread_id)) as never as ThreadState
        t.equal(head.checkpoint.checkpoint_id, flat.checkpoint.checkpoint_id, 'the head stays')
      })

      await t.test('while a run executes, the state is that of its newest checkpoint', async t => {
        const { thread_id } = await threads.create()
        await runs.wait(thread_id, 'slow', { input: { ms: 1 } })
        const run = await runs.create(thread_id, 'slow', { input: { ms: 60_000 }, durability: 'sync' } as never)
        const newest = () => history(thread_id, { limit: 1 }).then(([state]) => state!)
        await until(async () => {
          const { metadata, next } = await newest()
          return metadata.run_id === run.run_id && next[0] === 'node'
        })
        const state = (await threads.getState(thread_id)) as never as ThreadState
        t.match(state, { values: { ms: 60_000 }, next: ['node'] })
        t.same(state, await newest())
        t.same(await threads.getState(thread_id, undefined, { subgraphs: true }), state)
        t.equal((await threads.get(thread_id)).status, 'busy')
        await runs.cancel(thread_id, run.run_id, true)
        t.same(((await threads.getState(thread_id)) as never as ThreadState).next, ['node'])
      })

      await t.test('a busy thread refuses state updates', async t => {
        const id = await counted(1)
        const run = await runs.create(id, 'slow', { input: { ms: 30_000 }, afterSeconds: 3_600 } as never)
        await t.rejects(threads.updateState(id, { values: { steps: 1 } }), /HTTP 409.*busy/)
        await runs.cancel(id, run.run_id, true)
        t.match(await runs.get(id, run.run_id), { status: 'interrupted' })
        t.match(await threads.get(id), { status: 'idle' })
        await runs.wait(id, 'counter', { input: { steps: 2 } })
        await threads.updateState(id, { values: { steps: 1 } })
        t.match(await threads.get(id), { values: { steps: 1 } })
      })

      await t.test('concurrent updates: each is a checkpoint, none is lost', async t => {
        const id = await counted(1)
        await Promise.all([2, 3, 4, 5].map(n => threads.updateState(id, { values: { numbers: [n] } })))
        const { values } = (await threads.getState(id)) as never as ThreadState
        t.same(values.numbers!.toSorted(), [1, 2, 3, 4, 5])
        t.equal((await history(id, { metadata: { source: 'update' } })).length, 4)
      })

      await t.test('a long history', async t => {
        const id = await counted(0)
        await runs.wait(id, 'counter', { input: { steps: 70 }, config: { recursion_limit: 100 } })
        const all = await history(id)
        t.ok(all.length > 60, `${all.length} checkpoints`)
        t.equal(all[0]!.values.numbers!.length, 70)
        t.same((await history(id, { limit: undefined })).length, 10)
        const paged: ThreadState[] = []
        for (;;) {
          const before = paged.at(-1)?.checkpoint
          const page = await history(id, { limit: 25, ...(before === undefined ? {} : { before }) })
          paged.push(...page)
          if (page.length < 25) break
        }
        t.same(paged, all)
        t.equal((await history(id, { metadata: { source: 'input' } })).length, 2, 'a filter looks through all of it')
      })

      await t.test('patchState writes metadata', async t => {
        const { thread_id } = await threads.create({ metadata: { a: 1 } })
        await threads.patchState(thread_id, { b: 2 } as never)
        t.same((await threads.get(thread_id)).metadata, { a: 1, b: 2 })
      })
    })
  }

  await t.test('wrong input is refused', async t => {
    const { body } = await send('POST', '/threads', { metadata: { graph_id: 'counter' } })
    const path = `/threads/${(body as { thread_id: string }).thread_id}`
    const wrong: [method: string, path: string, bodies: unknown[]][] = [
      ['POST', '/state', [{ values: 1 }, { values: 'x' }, { values: {}, as_node: 1 }, { values: {}, checkpoint: 'x' }]],
      [
        'POST',
        '/state',
        [
          { values: {}, checkpoint_id: 1 },
          { values: {}, checkpoint: { checkpoint_id: 1 } },
        ],
      ],
      ['POST', '/state/checkpoint', [{}, { checkpoint: 'x' }, { checkpoint: {}, subgraphs: 1 }, { checkpoint: null }]],
      ['POST', '/history', [{ limit: 0 }, { limit: 1001 }, { limit: '5' }, { before: 1 }, { metadata: [] }]],
      ['POST', '/history', [{ checkpoint: 'x' }, { before: { checkpoint_id: 1 } }, { before: { configurable: 'x' } }]],
      ['PATCH', '/state', [{}, { metadata: 1 }]],
    ]
    for (const [method, at, bodies] of wrong)
      for (const given of bodies)
        t.match(
          await send(method, path + at, given),
          { status: 422, body: { detail: String } },
          `${method} ${at} ${JSON.stringify(given)}`,
        )
    for (const query of ['limit=0', 'limit=1001', 'limit=x', 'limit=1.5'])
      t.match(await send('GET', `${path}/history?${query}`), { status: 422 }, query)
    t.match(await send('GET', `${path}/state/${randomUUID()}`), { status: 404 })
    t.match(await send('POST', `${path}/state/checkpoint`, { checkpoint: { checkpoint_id: 'none' } }), { status: 404 })
    t.match(await send('POST', `${path}/state/checkpoint`, { checkpoint: {} }), {
      status: 200,
      body: { checkpoint: null },
    })
    t.match(await send('POST', `${path}/history`, {}), { status: 200, body: [] })
    t.match(
      await send('POST', `${path}/state`, { values: { steps: 1 }, as_node: 'count' }),
      { status: 200 },
      'a thread that never ran',
    )
    t.match(await send('GET', `${path}/state?subgraphs=false`), { status: 200, body: { values: { steps: 1 } } })
    t.match(await send('POST', `${path}/state/checkpoint`, { checkpoint: {}, subgraphs: 'true' }), { status: 200 })
    const { body: other } = await send('POST', '/threads', { metadata: { graph_id: 'no such graph' } })
    const at = `/threads/${(other as { thread_id: string }).thread_id}/state`
    t.match(await send('POST', at, { values: {} }), { status: 404, body: { detail: /no such graph/ } })
  })
})
