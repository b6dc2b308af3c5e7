/** The item store over HTTP and through the official SDKs (docs/spec/items.md). */
import t, { type Test } from 'tap'
import { basicServer } from '../../helpers/cluster.js'
import { type Send, sender } from '../../helpers/http.js'
import { lines } from '../../helpers/sdk.js'

t.setTimeout(120_000)

t.test('the item store', async t => {
  const cluster = await basicServer()
  t.teardown(() => cluster.stop())
  const send = sender(cluster.url)

  for (const { name, connect } of lines)
    await t.test(name, async t => {
      const { store } = connect(cluster.url)
      const root = name.replaceAll('.', '-')
      await store.putItem([root, 'users', 'ada'], 'profile', { language: 'en', age: 36 })
      const item = await store.getItem([root, 'users', 'ada'], 'profile')
      t.match(item, { namespace: [root, 'users', 'ada'], key: 'profile', value: { language: 'en', age: 36 } })
      t.ok(item?.createdAt && item.updatedAt)
      await store.putItem([root, 'users', 'ada'], 'profile', { language: 'fr' })
      const replaced = await store.getItem([root, 'users', 'ada'], 'profile')
      t.same(replaced?.value, { language: 'fr' }, 'replaced, not merged')
      t.equal(replaced?.createdAt, item?.createdAt)
      t.ok(replaced!.updatedAt > item!.updatedAt, 'updated_at grows also within a millisecond')
      await store.putItem([root, 'users', 'bob'], 'profile', { language: 'de', age: 41 })
      const { items } = await store.searchItems([root, 'users'], { filter: { age: { $gt: 40 } } })
      t.same(
        items.map(({ namespace }) => namespace.at(-1)),
        ['bob'],
      )
      const { namespaces } = await store.listNamespaces({ prefix: [root], maxDepth: 2 })
      t.same(namespaces, [[root, 'users']])
      await store.deleteItem([root, 'users', 'ada'], 'profile')
      t.equal(await store.getItem([root, 'users', 'ada'], 'profile'), null)
    })

  await t.test('statuses and bodies of each route', t => routes(t, send))
  await t.test('searches: prefix, order, filter, offset and limit', t => searches(t, send))
  await t.test('namespaces: prefix, suffix, wildcards, depth and order', t => namespaces(t, send))
  await t.test('items expire, a read starts their time anew unless it says otherwise', t => expiry(t, send))
  await t.test('a refusal names the member', t => refusals(t, send))
})

async function routes(t: Test, send: Send) {
  const item = { namespace: ['routes'], key: 'k/1 %', value: { a: [1, null, { b: 'ü' }] } }
  t.match(await send('PUT', '/store/items', item), { status: 204, body: undefined })
  const read = `/store/items?namespace=routes&key=${encodeURIComponent(item.key)}`
  const got = await send('GET', read)
  t.match(got, { status: 200, body: item })
  t.match((got.body as { created_at: string }).created_at, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
  t.match(await send('GET', '/store/items?namespace=routes&key=other'), { status: 200, body: null })
  await send('PUT', '/store/items', { ...item, namespace: ['routes', 'deep'] })
  const dotted = await send('GET', `/store/items?namespace=routes.deep&key=${encodeURIComponent(item.key)}`)
  const repeated = await send('GET', `/store/items?namespace=routes&namespace=deep&key=${encodeURIComponent(item.key)}`)
  t.match(dotted.body, { namespace: ['routes', 'deep'] })
  t.same(repeated.body, dotted.body)
  t.equal((await send('DELETE', '/store/items', { namespace: ['routes'], key: item.key })).status, 204)
  t.equal((await send('DELETE', '/store/items', { namespace: ['routes'], key: item.key })).status, 204, 'again')
  t.match(await send('GET', read), { status: 200, body: null })
}

async function searches(t: Test, send: Send) {
  for (let i = 0; i < 12; i++)
    await send('PUT', '/store/items', {
      namespace: ['s', i % 2 === 0 ? 'even' : 'odd'],
      key: `k${i}`,
      value: { i, kind: i % 3 === 0 ? 'fizz' : 'none', nested: { i } },
    })
  await send('PUT', '/store/items', { namespace: ['sx'], key: 'other', value: { i: 99 } })
  const keys = async (body: object) =>
    ((await send('POST', '/store/items/search', body)).body as { items: { key: string }[] }).items.map(one => one.key)
  t.same(await keys({ namespace_prefix: ['s'], limit: 3 }), ['k11', 'k10', 'k9'], 'most recently written first')
  t.equal((await keys({ namespace_prefix: ['s'] })).length, 10, '10 by default')
  t.same(await keys({ namespace_prefix: ['s', 'odd'], limit: 2, offset: 2 }), ['k7', 'k5'])
  t.same(await keys({ namespace_prefix: ['s'], filter: { kind: 'fizz' }, limit: 2, offset: 1 }), ['k6', 'k3'])
  t.same(await keys({ namespace_prefix: ['s'], filter: { nested: { i: 4 } } }), ['k4'])
  const wide = Object.fromEntries(Array.from({ length: 3_000 }, (_, i) => [`member ${i}`, i]))
  await send('PUT', '/store/items', { namespace: ['wide'], key: 'wide', value: wide })
  t.same(await keys({ namespace_prefix: ['wide'], filter: wide }), ['wide'], 'a filter of many members')
  t.same(await keys({ namespace_prefix: ['wide'], filter: { ...wide, 'member 2999': 0 } }), [], 'each of them counts')
  t.same(await keys({ namespace_prefix: ['s'], filter: { i: { $gte: 10 } }, query: 'ignored without an index' }), [
    'k11',
    'k10',
  ])
  t.same(await keys({ namespace_prefix: ['nobody'] }), [])
  t.equal((await keys({ limit: 1000 })).filter(key => key === 'other').length, 1, 'no prefix: all items')
  await send('PUT', '/store/items', { namespace: ['s', 'even'], key: 'k0', value: { i: 0 } })
  t.same(await keys({ namespace_prefix: ['s'], limit: 1 }), ['k0'], 'a write brings it to the front')
}

async function namespaces(t: Test, send: Send) {
  for (const path of ['n.b.v1', 'n.a.v2', 'n.a.v1', 'n.a.v1.deep', 'n.a!.v1'])
    await send('PUT', '/store/items', { namespace: path.split('.'), key: 'k', value: {} })
  const list = async (body: object) =>
    ((await send('POST', '/store/namespaces', body)).body as { namespaces: string[][] }).namespaces.map(labels =>
      labels.join('.'),
    )
  t.same(await list({ prefix: ['n'] }), ['n.a.v1', 'n.a.v1.deep', 'n.a.v2', 'n.a!.v1', 'n.b.v1'], 'label by label')
  t.same(await list({ prefix: ['n', '*', 'v1'] }), ['n.a.v1', 'n.a.v1.deep', 'n.a!.v1', 'n.b.v1'])
  t.same(await list({ prefix: ['n'], suffix: ['v1'] }), ['n.a.v1', 'n.a!.v1', 'n.b.v1'])
  t.same(await list({ prefix: ['n'], suffix: ['a', '*'] }), ['n.a.v1', 'n.a.v2'])
  t.same(await list({ prefix: ['n'], max_depth: 2 }), ['n.a', 'n.a!', 'n.b'])
  t.same(await list({ prefix: ['n'], limit: 2, offset: 1 }), ['n.a.v1.deep', 'n.a.v2'])
  t.same(await list({ prefix: ['n'], suffix: ['n', 'a', 'v1', 'deep', 'more'] }), [])
  await send('DELETE', '/store/items', { namespace: ['n', 'b', 'v1'], key: 'k' })
  t.notOk((await list({ prefix: ['n'] })).includes('n.b.v1'), 'an empty namespace is not listed')
}

async function expiry(t: Test, send: Send) {
  const put = (key: string, ttl: number | null | undefined) =>
    send('PUT', '/store/items', { namespace: ['ttl'], key, value: {}, ttl })
  const keys = async (refresh_ttl: boolean) =>
    (
      (await send('POST', '/store/items/search', { namespace_prefix: ['ttl'], refresh_ttl })).body as {
        items: { key: string }[]
      }
    ).items.map(({ key }) => key)
  // 0.03 minutes = 1.8 s.
  await put('read', 0.03)
  await put('unread', 0.03)
  await put('forever', null)
  const until = Date.now() + 5_000
  let left = await keys(false)
  t.equal(left.length, 3)
  while (left.length > 2 && Date.now() < until) {
    await send('GET', '/store/items?namespace=ttl&key=read')
    await new Promise(done => setTimeout(done, 200))
    left = await keys(false)
  }
  t.same(left, ['forever', 'read'])
  t.equal((await send('GET', '/store/items?namespace=ttl&key=unread')).body, null)
  while (left.length > 1 && Date.now() < until + 5_000) {
    await send('GET', '/store/items?namespace=ttl&key=read&refresh_ttl=false')
    await new Promise(done => setTimeout(done, 200))
    left = await keys(false)
  }
  t.same(left, ['forever'], 'reads without a refresh do not prolong it')
}

async function refusals(t: Test, send: Send) {
  const item = { namespace: ['a'], key: 'k', value: {} }
  const rows: [method: string, path: string, body: unknown, detail: RegExp][] = [
    ['PUT', '/store/items', { ...item, namespace: [] }, /^namespace: expected at least one label/],
    ['PUT', '/store/items', { ...item, namespace: ['a.b'] }, /^namespace: expected labels .* got "a\.b"/],
    ['PUT', '/store/items', { ...item, namespace: [''] }, /^namespace: expected labels/],
    ['PUT', '/store/items', { ...item, namespace: ['langgraph', 'x'] }, /reserved/],
    ['PUT', '/store/items', { ...item, namespace: 'a' }, /namespace/],
    ['PUT', '/store/items', { ...item, namespace: [1] }, /namespace/],
    ['PUT', '/store/items', { ...item, key: '' }, /key/],
    ['PUT', '/store/items', { ...item, key: 'k'.repeat(4_001) }, /^key: expected at most 4000 characters, got 4001/],
    ['GET', `/store/items?namespace=a&key=${'k'.repeat(4_001)}`, undefined, /^key: expected at most 4000/],
    ['DELETE', '/store/items', { ...item, key: 'k'.repeat(1_000_000) }, /^key: expected at most 4000/],
    ['PUT', '/store/items', { ...item, value: [1] }, /value/],
    ['PUT', '/store/items', { ...item, value: null }, /value/],
    ['PUT', '/store/items', { ...item, ttl: 0 }, /ttl/],
    ['PUT', '/store/items', { ...item, ttl: '5' }, /ttl/],
    ['PUT', '/store/items', { ...item, index: true }, /index/],
    ['GET', '/store/items?namespace=a', undefined, /^key: expected/],
    ['GET', '/store/items?key=k', undefined, /^namespace: expected at least one label/],
    ['GET', '/store/items?namespace=a..b&key=k', undefined, /^namespace: expected labels/],
    ['GET', '/store/items?namespace=a&key=k&refresh_ttl=maybe', undefined, /^refresh_ttl: expected true or false/],
    ['DELETE', '/store/items', { key: 'k' }, /^namespace: expected at least one label/],
    ['DELETE', '/store/items', { namespace: ['a'] }, /key/],
    ['POST', '/store/items/search', { filter: { a: { $where: 1 } } }, /^filter\.a: expected one of/],
    ['POST', '/store/items/search', { limit: 0 }, /limit/],
    ['POST', '/store/items/search', { limit: 1001 }, /limit/],
    ['POST', '/store/items/search', { offset: -1 }, /offset/],
    ['POST', '/store/items/search', { namespace_prefix: ['a.b'] }, /^namespace_prefix: expected labels/],
    ['POST', '/store/namespaces', { max_depth: 0 }, /max_depth/],
    ['POST', '/store/namespaces', { prefix: [''] }, /^prefix: expected labels/],
  ]
  for (const [method, path, body, detail] of rows)
    t.match(
      await send(method, path, body),
      { status: 422, body: { detail } },
      `${method} ${path} ${JSON.stringify(body)}`,
    )
}
