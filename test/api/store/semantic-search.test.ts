/** Semantic search of the item store (docs/spec/items.md#semantic-search), over HTTP and as graphs get it. */
import { InMemoryStore } from '@langchain/langgraph-checkpoint'
import t from 'tap'
import { startCluster } from '../../helpers/cluster.js'
import { sender } from '../../helpers/http.js'
import { lines } from '../../helpers/sdk.js'

t.setTimeout(120_000)

interface Found {
  key: string
  score?: number | null
}

t.test('items are found by meaning', async t => {
  const cluster = await startCluster({ app: 'test/apps/vectors' })
  t.teardown(() => cluster.stop())
  const send = sender(cluster.url)
  const put = (namespace: string[], key: string, value: object, more: object = {}) =>
    send('PUT', '/store/items', { namespace, key, value, ...more })
  const search = async (namespace: string, query: string, more: object = {}) => {
    const { status, body } = await send('POST', '/store/items/search', {
      namespace_prefix: [namespace],
      query,
      ...more,
    })
    if (status !== 200) throw new Error(JSON.stringify(body))
    return (body as { items: Found[] }).items.map(({ key, score }) => [
      key,
      score == null ? score : Math.round(score * 100),
    ])
  }

  await t.test('the best text of an item counts; items without vectors come last', async t => {
    t.equal((await put(['docs'], 'a', { text: 'aaa' })).status, 204)
    await put(['docs', 'more'], 'ab', { text: 'ab', parts: [{ text: 'ccc' }] })
    await put(['docs'], 'none', { text: 'aaa' }, { index: false })
    await put(['docs'], 'nothing to index', { other: 'aaa' })
    await put(['docs'], 'own path', { other: 'b' }, { index: ['other'] })
    t.same(await search('docs', 'a'), [
      ['a', 100],
      ['ab', 71],
      ['own path', 0],
      ['nothing to index', null],
      ['none', null],
    ])
    t.same((await search('docs', 'ccc'))[0], ['ab', 100], 'the text of a part')
    t.same(await search('docs', 'a', { limit: 2, offset: 1 }), [
      ['ab', 71],
      ['own path', 0],
    ])
    t.same(await search('docs', ''), [
      ['own path', undefined],
      ['nothing to index', undefined],
      ['none', undefined],
      ['ab', undefined],
      ['a', undefined],
    ])
  })

  await t.test('filter and prefix decide before offset and limit', async t => {
    for (let i = 0; i < 300; i++)
      await put(['many', `${i % 2}`], `k${i}`, { text: 'a'.repeat(300 - i) + 'b'.repeat(i), i })
    const found = await search('many', 'a', { filter: { i: { $gte: 290 } }, limit: 3, offset: 1 })
    t.same(
      found.map(([key]) => key),
      ['k291', 'k292', 'k293'],
    )
    const { body } = await send('POST', '/store/items/search', {
      namespace_prefix: ['many', '1'],
      query: 'b',
      limit: 2,
    })
    t.same(
      (body as { items: Found[] }).items.map(({ key }) => key),
      ['k299', 'k297'],
    )
  })

  await t.test('a put drops stale vectors, a delete all of them', async t => {
    await put(['stale'], 'k', { text: 'aaa' })
    t.same(await search('stale', 'a'), [['k', 100]])
    await put(['stale'], 'k', { text: 'b' })
    t.same(await search('stale', 'a'), [['k', 0]])
    await put(['stale'], 'k', { text: 'a' }, { index: false })
    t.same(await search('stale', 'a'), [['k', null]])
    await put(['stale'], 'k', { text: 'a' })
    await send('DELETE', '/store/items', { namespace: ['stale'], key: 'k' })
    t.same(await search('stale', 'a'), [])
  })

  await t.test('a text that cannot be embedded refuses the put, and the search, with one sentence', async t => {
    await put(['bad'], 'k', { text: 'a' })
    t.match(await put(['bad'], 'k', { text: 'throw' }), { status: 422, body: { detail: /the model is away/ } })
    t.match(
      (await send('GET', '/store/items?namespace=bad&key=k')).body,
      { value: { text: 'a' } },
      'nothing was written',
    )
    t.match(await send('POST', '/store/items/search', { query: 'throw' }), { status: 422, body: { detail: /is away/ } })
    t.match(await put(['bad'], 'k', { text: 'a' }, { index: ['a['] }), {
      status: 422,
      body: { detail: /^index: expected/ },
    })
    t.match(
      await put(['bad'], 'k', { text: Array(50_000).fill('a') }, { index: ['text[*]'] }),
      { status: 204 },
      'one text',
    )
    const texts = Array.from({ length: 99_000 }, (_, i) => `${i}`)
    t.match(await put(['bad'], 'k', { texts }, { index: ['texts[*]'] }), {
      status: 422,
      body: { detail: /may have 87381/ },
    })
  })

  for (const { name, connect } of lines)
    await t.test(name, async t => {
      const { store } = connect(cluster.url)
      await store.putItem([name.replaceAll('.', '-')], 'k', { text: 'ab' }, { index: ['text'] })
      const { items } = await store.searchItems([name.replaceAll('.', '-')], { query: 'a' })
      t.match(items, [{ key: 'k', score: Number }])
    })

  await t.test('the store of a graph answers as the InMemoryStore of the library', async t => {
    const embed = (text: string) => ['a', 'b', 'c'].map(letter => text.split(letter).length - 1)
    const reference = new InMemoryStore({
      index: {
        dims: 3,
        embeddings: {
          embedDocuments: async (texts: string[]) => texts.map(embed),
          embedQuery: async (text: string) => embed(text),
        } as never,
        fields: ['text', 'parts[*].text'],
      },
    })
    const ns = (...labels: string[]) => ['ref', ...labels]
    const steps: [keyof InMemoryStore & string, ...unknown[]][] = [
      ['put', ns('a'), 'k1', { text: 'aaa', n: 1, tag: 'x' }],
      ['put', ns('a', 'b'), 'k2', { text: 'aab', n: 2, tag: 'y' }],
      ['put', ns('a'), 'k3', { text: 'abb', n: 3, tag: 'x', parts: [{ text: 'c' }, { text: 'cc' }] }],
      ['put', ns('c'), 'k4', { text: 'bbb', n: 4 }, false],
      ['put', ns('c'), 'k5', { text: 'zzz', other: 'acc' }, ['other']],
      ['get', ns('a'), 'k1'],
      ['get', ns('a'), 'k9'],
      ['put', ns('a'), 'k1', { text: 'aac', n: 5 }],
      ['get', ns('a'), 'k1'],
      ['search', ns('a'), { query: 'a' }],
      ['search', ns(), { query: 'acc', limit: 2 }],
      ['search', ns(), { query: 'aab', filter: { n: { $gte: 2 } }, limit: 3 }],
      ['search', ns('a'), { query: 'bb', offset: 1, limit: 1 }],
      ['search', ns('a'), { filter: { tag: 'x' } }],
      ['search', ns(), { filter: { n: { $gt: 1, $lt: 4 } }, query: 'b' }],
      ['search', ns(), { filter: { n: { $ne: 2 }, tag: { $in: ['x'] } } }],
      ['search', ns('none'), { query: 'a' }],
      ['listNamespaces', { prefix: ns() }],
      ['listNamespaces', { prefix: ns(), maxDepth: 2 }],
      ['listNamespaces', { prefix: ['ref', '*', 'b'] }],
      ['listNamespaces', { suffix: ['b'], prefix: ns() }],
      ['delete', ns('a'), 'k1'],
      ['delete', ns('a'), 'never there'],
      ['get', ns('a'), 'k1'],
      ['search', ns('a'), { query: 'aac' }],
    ]
    const body = { assistant_id: 'memory', input: { steps } }
    const found = ((await send('POST', '/runs/wait', body)).body as { found: unknown[] }).found
    for (const [i, [method, ...args]] of steps.entries()) {
      const expected = await (reference[method] as (...args: unknown[]) => Promise<unknown>).apply(reference, args)
      t.same(plain(found[i]), plain(expected), `${i} ${method} ${JSON.stringify(args)}`)
    }
  })
})

/** The answers of both stores: without times, whose forms differ, and with scores of a few digits. */
function plain(answer: unknown): unknown {
  if (Array.isArray(answer)) return answer.map(plain)
  if (typeof answer !== 'object' || answer === null) return answer ?? null
  const { key, namespace, value, score } = answer as Found & { namespace: string[]; value: object }
  return { key, namespace, value, score: score == null ? null : Math.round(score * 1_000) }
}
