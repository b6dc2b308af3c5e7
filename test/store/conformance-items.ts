/** The promises of every store about items (store/port.ts ItemRow). */
import { randomUUID } from 'node:crypto'
import type { Test } from 'tap'
import { itemConditions } from '../../schemas/items/keys.js'
import type { JsonObject } from '../../schemas/json.js'
import type { Store } from '../../store/port.js'
import type { ItemRow } from '../../store/rows/items.js'

const NOW = 1_700_000_000_000

export function itemConformance(t: Test, store: Store): void {
  /** Each test has its own application, so that none sees the items of another. */
  const maker = () => {
    const app = randomUUID()
    const put = async (namespace: string[], key: string, set: Partial<ItemRow> = {}) => {
      const row: ItemRow = {
        app,
        namespace,
        key,
        value: '{"x":1}',
        created_at: NOW,
        updated_at: NOW,
        ttl: null,
        expires_at: null,
        ...set,
      }
      const failed = await store.apply([{ step: 'items.put', row }])
      if (failed !== -1) throw new Error('the item was not stored')
      return row
    }
    const list = async (prefix: string[], more: { now?: number; limit?: number } = {}) =>
      (await store.items.list({ app, prefix, now: NOW, limit: 100, ...more })).map(
        ({ namespace, key }) => `${namespace.join('/')}:${key}`,
      )
    return { app, put, list }
  }

  t.test('an item comes back as it was', async t => {
    const { app, put } = maker()
    const value = JSON.stringify({ $set: { 'a.b': '\u0000' }, text: '"odd" $x \ud800' })
    const row = await put(['a', '%_', '__proto__'], '"k" $1', { value, ttl: 0.5, expires_at: NOW + 30_000 })
    t.same(await store.items.get(app, row, NOW), row)
    t.equal(await store.items.get(randomUUID(), row, NOW), null, 'of another application')
    t.equal(await store.items.get(app, { namespace: ['a'], key: row.key }, NOW), null)
    t.equal(await store.items.get(app, row, NOW + 30_000), null, 'expired')
    const large = JSON.stringify({ text: 'x'.repeat(9_000_000) })
    await put(['large'], 'k', { value: large })
    t.equal((await store.items.get(app, { namespace: ['large'], key: 'k' }, NOW))?.value.length, large.length)
    await put(['large'], 'k')
    t.equal((await store.items.get(app, { namespace: ['large'], key: 'k' }, NOW))?.value, '{"x":1}')
  })

  t.test('a write under a condition meets the item that its caller has seen', async t => {
    const { app, put } = maker()
    const row = await put(['a'], 'k')
    const next = { ...row, value: '{"x":2}', updated_at: NOW + 10 }
    const replace = (replaces: number | null, more: Partial<ItemRow> = {}) =>
      store.apply([{ step: 'items.replace', row: { ...next, ...more }, replaces }])
    const take = (key: string, updated_at: number) =>
      store.apply([{ step: 'items.take', app, namespace: ['a'], key, updated_at }])
    const stored = async (key: string) => (await store.items.get(app, { namespace: ['a'], key }, NOW))?.value
    t.equal(await replace(null), 0, 'one is stored')
    t.equal(await replace(NOW - 1), 0, 'another one is stored')
    t.equal(await stored('k'), '{"x":1}')
    t.equal(await replace(NOW), -1)
    t.equal(await stored('k'), '{"x":2}')
    t.equal(await replace(null, { key: 'new' }), -1)
    t.equal(await stored('new'), '{"x":2}')
    await put(['a'], 'old', { ttl: 1, expires_at: NOW + 5 })
    t.equal(await replace(null, { key: 'old' }), -1, 'an expired one is none')
    t.equal(await stored('old'), '{"x":2}')
    t.equal(await take('k', NOW), 0)
    t.equal(await take('absent', NOW), 0)
    t.equal(await take('k', NOW + 10), -1)
    t.equal(await stored('k'), undefined)
  })

  t.test('a put replaces the value, keeps created_at and moves updated_at forward', async t => {
    const { app, put } = maker()
    const row = await put(['a'], 'k', { ttl: 1, expires_at: NOW + 60_000 })
    await put(['a'], 'k', { value: '{}', created_at: NOW - 5, updated_at: NOW - 5 })
    t.match(await store.items.get(app, row, NOW), {
      value: '{}',
      created_at: NOW,
      updated_at: NOW + 1,
      ttl: null,
      expires_at: null,
    })
    await put(['a'], 'k', { expires_at: NOW + 10 })
    await put(['a'], 'k', { created_at: NOW + 20, updated_at: NOW + 20 })
    t.match(await store.items.get(app, row, NOW + 20), { created_at: NOW + 20 }, 'an expired item is a new one')
    await Promise.all(Array.from({ length: 20 }, (_, i) => put(['race'], 'k', { value: `{"i":${i}}` })))
    const raced = await store.items.get(app, { namespace: ['race'], key: 'k' }, NOW)
    t.equal(raced?.updated_at, NOW + 19, 'each of 20 writers at once moved it by one')
  })

  t.test('a prefix is whole labels, taken literally', async t => {
    const { app, put, list } = maker()
    const other = maker()
    await other.put(['a'], 'foreign')
    let at = NOW
    for (const namespace of [['a'], ['a', 'b'], ['ab'], ['a%'], ['a_'], ['a', 'b', 'c'], ['A']])
      await put(namespace, 'k', { updated_at: at++ })
    t.same(await list(['a']), ['a/b/c:k', 'a/b:k', 'a:k'], 'most recently written first')
    t.same(await list(['a', 'b']), ['a/b/c:k', 'a/b:k'])
    t.same(await list(['a%']), ['a%:k'])
    t.same(await list(['b']), [])
    t.equal((await list([])).length, 7)
    t.same(
      (await store.items.namespaces({ app, prefix: ['a'], now: NOW, limit: 100 })).map(labels => labels.join('/')),
      ['a', 'a/b', 'a/b/c'],
    )
  })

  t.test('lists are paged without gaps, equal times included', async t => {
    const { app, put } = maker()
    for (let i = 0; i < 25; i++) await put([`n${i % 3}`], `k${i}`, { updated_at: NOW + Math.floor(i / 10) })
    const all = await store.items.list({ app, prefix: [], now: NOW, limit: 100 })
    t.equal(all.length, 25)
    const paged: ItemRow[] = []
    for (;;) {
      const after = paged.at(-1)
      const page = await store.items.list({ app, prefix: [], now: NOW, limit: 4, ...(after ? { after } : {}) })
      if (page.length === 0) break
      paged.push(...page)
    }
    t.same(paged, all)
    const names: string[][] = []
    for (;;) {
      const after = names.at(-1)
      const page = await store.items.namespaces({ app, prefix: [], now: NOW, limit: 2, ...(after ? { after } : {}) })
      if (page.length === 0) break
      names.push(...page)
    }
    t.same(names, [['n0'], ['n1'], ['n2']])
  })

  t.test('what has expired is not found, not listed, and removed once', async t => {
    const { app, put, list } = maker()
    const row = await put(['a'], 'short', { ttl: 1, expires_at: NOW + 100 })
    await put(['a'], 'long')
    await put(['b'], 'short', { expires_at: NOW + 100 })
    const later = NOW + 100
    t.same(await list(['a'], { now: later }), ['a:long'])
    t.same(await store.items.namespaces({ app, prefix: [], now: later, limit: 9 }), [['a']])
    const mine = async () => (await store.items.expired(later, 10_000)).filter(one => one.app === app)
    t.equal((await mine()).length, 2)
    const touched = { ...row, expires_at: NOW + 500 }
    await store.apply([{ step: 'items.touch', app, items: [{ ...touched, updated_at: row.updated_at + 1 }] }])
    t.equal((await mine()).length, 2, 'it was written since it was read')
    await store.apply([{ step: 'items.touch', app, items: [touched] }])
    t.same(await mine(), [{ app, namespace: ['b'], key: 'short' }])
    t.equal((await store.items.get(app, row, later))?.updated_at, row.updated_at, 'a touch is no write')
    const remove = (namespace: string[], expired_at?: number) =>
      store.apply([{ step: 'items.remove', app, namespace, key: 'short', ...(expired_at ? { expired_at } : {}) }])
    await remove(['a'], later)
    t.ok(await store.items.get(app, row, later), 'it expires later now')
    await remove(['a'])
    await remove(['a'])
    await remove(['b'], later)
    t.equal((await mine()).length, 0)
    t.same(await list([], { now: later }), ['a:long'])
  })

  t.test('vectors are stored with their item, and go with it', async t => {
    const { app, put } = maker()
    const vector = (...numbers: number[]) => new Uint8Array(new Float32Array(numbers).buffer)
    const index = async (namespace: string[], key: string, vectors: Uint8Array, updated_at = NOW) => {
      const row = await put(namespace, key, { updated_at })
      await store.apply([{ step: 'items.put', row: { ...row, updated_at: updated_at + 1 }, vectors }])
    }
    const indexed = async (updated_at = 0, limit = 100) => {
      const after = { updated_at, namespace: [], key: '' }
      return (await store.items.indexed(app, after, limit)).map(({ key, updated_at }) => [key, updated_at - NOW])
    }
    const large = new Uint8Array(1024 * 1024).fill(1)
    await index(['a'], 'one', vector(1, -2.5, 3))
    await index(['a', 'b'], 'two', large, NOW + 10)
    await index(['a'], 'more', vector(0), NOW + 10)
    await put(['a'], 'plain', { updated_at: NOW + 20 })
    t.same(
      await indexed(),
      [
        ['one', 1],
        ['two', 11],
        ['more', 11],
      ].sort(([a, x], [b, y]) => Number(x) - Number(y) || (a === 'more' ? -1 : b === 'more' ? 1 : 0)),
    )
    t.same(await indexed(NOW + 2, 1), [['more', 11]])
    const first = (await store.items.indexed(app, { updated_at: 0, namespace: [], key: '' }, 2)).at(-1)!
    t.same(
      (await store.items.indexed(app, first, 100)).map(({ key }) => key),
      ['two'],
      'the page behind a row',
    )
    const keys = [
      { namespace: ['a'], key: 'one' },
      { namespace: ['a', 'b'], key: 'two' },
      { namespace: ['a'], key: 'plain' },
      { namespace: ['none'], key: 'one' },
    ]
    const vectors = async () =>
      (await store.items.vectors(app, keys)).map(({ key, vectors }) => [key, vectors.length]).sort()
    t.same(await vectors(), [
      ['one', 12],
      ['two', 1024 * 1024],
    ])
    const [one] = await store.items.vectors(app, keys.slice(0, 1))
    t.same([...new Float32Array(new Uint8Array(one!.vectors).buffer)], [1, -2.5, 3])
    t.same((await store.items.many(app, keys, NOW)).map(({ key }) => key).sort(), ['one', 'plain', 'two'])
    t.same(await store.items.many(randomUUID(), keys, NOW), [])
    await put(['a'], 'one', { updated_at: NOW + 30 })
    await store.apply([{ step: 'items.remove', app, namespace: ['a', 'b'], key: 'two' }])
    t.same(await vectors(), [], 'replaced without vectors, and removed')
    t.same(await indexed(), [['more', 11]])
    await put(['a'], 'one', { expires_at: NOW + 100 })
    t.same(
      (await store.items.many(app, keys, NOW + 100)).map(({ key }) => key),
      ['plain'],
      'expired',
    )
  })

  t.test('vectors that are copied for a search by the database', async t => {
    if (store.nearest === undefined) return t.comment('this store has no such search')
    const { nearest } = store
    const { app, put } = maker()
    const vectors = new Uint8Array(new Float32Array([1, 0, 0, 1]).buffer)
    const index = async (key: string) => {
      const row = await put(['a'], key)
      await store.apply([{ step: 'items.put', row: { ...row, updated_at: NOW + 1 }, vectors }])
    }
    for (let i = 0; i < 65; i++) await index(`k${i}`)
    const first = await nearest.copy(randomUUID(), 2).catch((error: Error) => error.message)
    // test/store/postgres-vectors.test.ts has a server with it.
    if (first === 'this database has no index for vectors of 2 numbers') return t.comment(first)
    t.equal(first, false, 'an application without vectors')
    t.equal(await nearest.copy(app, 2), true, 'there is more')
    t.equal(await nearest.copy(app, 2), false)
    t.equal(await nearest.copy(app, 2), false, 'each once')
    for (let i = 0; i < 70; i++) await index(`k${i % 65}`)
    t.equal(await nearest.copy(app, 2), true, 'those that were written since')
    t.equal(await nearest.copy(app, 2), false)
    await nearest.drop(app, [{ namespace: ['a'], key: 'k0', updated_at: NOW }])
    await store.apply([{ step: 'items.remove', app, namespace: ['a'], key: 'k1' }])
    t.equal(await nearest.copy(app, 4), true, 'vectors of another size')
    t.type(await nearest.mark(2), 'string')
    t.match(await nearest.prepare(10_000), 'none', 'more numbers than a vector of an index may have')
    t.match(await nearest.prepare(2), /^(none|building|ready)$/)
  })

  t.test('items are found by the keys of their value', async t => {
    const { app, put } = maker()
    const find = async (filter: JsonObject, prefix: string[] = []) =>
      (await store.items.list({ app, prefix, now: NOW, limit: 100, conditions: itemConditions(filter) }))
        .map(({ key }) => key)
        .sort()
    await put(['a'], 'one', { value: '{"tag":"x","n":1,"deep":{"n":9},"$odd":null}' })
    await put(['a', 'b'], 'two', { value: '{"tag":"x","n":2}' })
    await put(['c'], 'three', { value: '{"tag":"y","n":1}' })
    const many = Object.fromEntries(Array.from({ length: 70 }, (_, i) => [`m${i}`, i]))
    await put(['c'], 'many', { value: JSON.stringify(many) })
    t.same(await find({ tag: 'x' }), ['many', 'one', 'two'], 'one with too many keys matches every filter')
    t.same(await find({ tag: 'x' }, ['a']), ['one', 'two'])
    t.same(await find({ tag: 'x', n: 2 }, ['a']), ['two'])
    t.same(await find({ $odd: null }, ['a']), ['one'])
    t.same(await find({ n: '1' }, ['a']), [])
    t.same(await find({ n: { $gt: 1 } }, ['a']), ['one', 'two'], 'a range holds its bound; the filter decides')
    t.same(await find({ n: { $gt: 1.5 } }, ['a']), ['two'])
    t.same(await find({ n: { $gte: -1e300, $lt: 1.5 } }), ['many', 'one', 'three'])
    t.same(await find({ n: { $gt: 2.5, $lt: 9 } }, ['a']), [])
    t.same(await find({ n: { $in: [2, 3, 'x'] } }, ['a']), ['two'])
    t.same(await find({ n: { $in: [] } }, ['a']), [])
    t.same(await find({ tag: { $lte: 'x' } }, ['a']), ['one', 'two'])
    t.same(await find({ tag: { $gt: 'x', $lt: 'z' } }, ['c']), ['many', 'three'])
    await put(['a'], 'one', { value: '{"tag":"z"}' })
    t.same(await find({ tag: 'x' }, ['a']), ['two'], 'replaced')
    t.same(await find({ tag: 'z' }, ['a']), ['one'])
    await store.apply([{ step: 'items.remove', app, namespace: ['a'], key: 'one' }])
    t.same(await find({ tag: 'z' }, ['a']), [])
  })

  t.test('a page of many items is in order, whichever way it is found', async t => {
    const { app, put } = maker()
    const rows = Array.from({ length: 2_100 }, (_, i) => ({ key: `k${i}`, at: NOW + ((i * 7_919) % 2_003), n: i % 3 }))
    for (let at = 0; at < rows.length; at += 100)
      await Promise.all(
        rows
          .slice(at, at + 100)
          .map(({ key, at, n }) => put([n === 0 ? 'a' : 'b'], key, { updated_at: at, value: `{"n":${n},"all":1}` })),
      )
    for (const [prefix, filter] of [
      [[], { all: 1 }],
      [['b'], { all: 1 }],
      [['a'], { n: 0 }],
      [['b'], { n: 1 }],
    ] as const) {
      const found: { updated_at: number; key: string }[] = []
      for (;;) {
        const after = found.at(-1) as ItemRow | undefined
        const query = {
          app,
          prefix,
          now: NOW,
          limit: 500,
          conditions: itemConditions(filter),
          ...(after ? { after } : {}),
        }
        const page = await store.items.list(query)
        found.push(...page)
        if (page.length < 500) break
      }
      const wanted = rows.filter(
        ({ n }) =>
          (prefix[0] === undefined || (prefix[0] === 'a') === (n === 0)) && (!('n' in filter) || filter.n === n),
      )
      t.equal(new Set(found.map(({ key }) => key)).size, wanted.length)
      t.same(
        found.map(({ updated_at }) => updated_at),
        found.map(({ updated_at }) => updated_at).sort((a, b) => b - a),
      )
    }
  })
}
