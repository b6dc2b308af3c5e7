/** The item store as graphs get it: `config.store` and `getStore()` (docs/spec/items.md). */
import t from 'tap'
import { startCluster } from '../../helpers/cluster.js'
import { sender } from '../../helpers/http.js'

t.setTimeout(120_000)

t.test('graphs share the store with clients', async t => {
  const cluster = await startCluster({ app: 'test/apps/memory' })
  t.teardown(() => cluster.stop())
  const send = sender(cluster.url)
  const run = async (graph: string, steps: unknown[][], thread = '') => {
    const { status, body } = await send('POST', `${thread}/runs/wait`, { assistant_id: graph, input: { steps } })
    t.equal(status, 200)
    return (body as { found: unknown }).found
  }
  const get = async (namespace: string, key: string) =>
    (await send('GET', `/store/items?namespace=${namespace}&key=${key}`)).body as { value: object } | null

  for (const graph of ['memory', 'sub'])
    await t.test(`${graph}: every operation`, async t => {
      await send('PUT', '/store/items', { namespace: [graph, 'client'], key: 'given', value: { from: 'client' } })
      const found = await run(graph, [
        ['get', [graph, 'client'], 'given'],
        ['get', [graph], 'nothing'],
        ['put', [graph, 'a'], 'k1', { n: 1, text: 'ü' }],
        ['put', [graph, 'b'], 'k2', { n: 2 }],
        ['put', [graph, 'a'], 'k1', { n: 3 }],
        ['get', [graph, 'a'], 'k1'],
        ['search', [graph], { filter: { n: { $gte: 2 } }, limit: 5 }],
        ['listNamespaces', { prefix: [graph], maxDepth: 2 }],
        ['delete', [graph, 'b'], 'k2'],
        ['get', [graph, 'b'], 'k2'],
      ])
      const item = (namespace: string, key: string, value: object) => ({
        namespace: [graph, namespace],
        key,
        value,
        createdAt: true,
        updatedAt: true,
      })
      t.match(found, [
        item('client', 'given', { from: 'client' }),
        null,
        null,
        null,
        null,
        item('a', 'k1', { n: 3 }),
        [item('a', 'k1', { n: 3 }), item('b', 'k2', { n: 2 })],
        [
          [graph, 'a'],
          [graph, 'b'],
          [graph, 'client'],
        ],
        null,
        null,
      ])
      t.match(await get(`${graph}.a`, 'k1'), { value: { n: 3 } }, 'a client reads what the graph stored')
      t.equal(await get(`${graph}.b`, 'k2'), null)
    })

  await t.test('also in a run of a thread; a later run finds it', async t => {
    const { thread_id } = (await send('POST', '/threads', {})).body as { thread_id: string }
    await run('memory', [['put', ['thread'], 'k', { x: 1 }]], `/threads/${thread_id}`)
    t.match(await run('memory', [['get', ['thread'], 'k']]), [{ value: { x: 1 } }])
  })

  await t.test('a store that an object keeps serves the run that calls', async t => {
    const wait = async (graph: string, x: number) =>
      (await send('POST', '/runs/wait', { assistant_id: graph, input: { x } })).body
    t.match(await wait('kept', 0), { found: { x: 0 } })
    // At the same time: operations of one turn may be those of several runs.
    t.match(
      await Promise.all([1, 2, 3].map(x => wait('kept', x))),
      [1, 2, 3].map(x => ({ found: { x } })),
    )
    await wait('tooLate', 0)
    t.match(await wait('tooLate', 1), { found: 'A graph has its store during runs only.' }, 'its run has ended')
  })

  await t.test('values that JSON does not know are rendered as those of the state', async t => {
    await run('memory', [['message', ['odd'], 'k']])
    t.match(await get('odd', 'k'), { value: { message: { type: 'human', content: 'hi' }, big: '12' } })
  })

  await t.test('a refused operation is an error of its call, and the run continues', async t => {
    const found = await run('memory', [
      ['put', ['langgraph'], 'k', {}],
      ['put', ['a.b'], 'k', {}],
      ['search', ['a'], { filter: { n: { $regex: 'x' } } }],
      ['put', ['text'], 'k', 'no object'],
      ['get', ['fine'], 'k'],
      ['put', ['fine'], 'k'.repeat(1_000_000), {}],
      ['get', ['fine'], 'k'.repeat(4_001)],
    ])
    t.match(found, [
      /label "langgraph" is reserved/,
      /got "a\.b"/,
      /filter\.n: expected one of/,
      /must be an object/,
      null,
      /key: expected at most 4000 characters/,
      /key: expected at most 4000 characters/,
    ])
  })

  await t.test('many operations of one turn are answered in order', async t => {
    const { body } = await send('POST', '/runs/wait', { assistant_id: 'crowd', input: { x: 500 } })
    t.equal((body as { found: boolean }).found, true)
  })

  await t.test('default_ttl of langgraph.json applies to graphs and clients', async t => {
    await run('memory', [['put', ['lives'], 'graph', {}]])
    await send('PUT', '/store/items', { namespace: ['lives'], key: 'client', value: {} })
    await send('PUT', '/store/items', { namespace: ['lives'], key: 'forever', value: {}, ttl: null })
    const found = await send('POST', '/store/items/search', { namespace_prefix: ['lives'] })
    t.equal((found.body as { items: unknown[] }).items.length, 3)
  })
})
