/** Semantic search by the database, for applications with more vectors than a worker ranks, against exact ranking. */
import { setTimeout as sleep } from 'node:timers/promises'
import { MongoClient } from 'mongodb'
import t, { type Test } from 'tap'
import { openMongo } from '../../store/mongo.js'
import type { ItemRow } from '../../store/rows/items.js'
import { openRankings, type Rankings } from '../../workers/resources/vectors/ranking.js'
import { startMongo, switchSearch } from '../helpers/stores/mongo-server.js'

t.setTimeout(300_000)
const mongo = await startMongo()
t.teardown(() => mongo.stop())
const FEW = { vectors: 3, bytes: 1e9 }

/** A store in a database that has vector search, unless `search` is false. */
async function place(t: Test, { search = true } = {}) {
  const url = mongo.url()
  const searches: Command[] = []
  const onCommand = (_: string, command: object) => {
    if ('pipeline' in command) searches.push(command as Command)
  }
  const store = await openMongo({ url, onCommand })
  const client = await new MongoClient(url).connect()
  const all: Rankings[] = []
  t.teardown(async () => {
    for (const rankings of all) await rankings.close()
    await client.close()
    await store.close()
  })
  const open = (limits?: typeof FEW) => {
    const rankings = openRankings(store, limits)
    all.push(rankings)
    return rankings
  }
  const isHere = !search || (await switchSearch(url))
  const put = async (key: string, vectors: number[][], set: Partial<ItemRow> = {}) => {
    const now = Date.now()
    const row = { app: 'app', namespace: ['a'], key, value: '{}', created_at: now, updated_at: now }
    const bytes = new Uint8Array(new Float32Array(vectors.flat()).buffer)
    await store.apply([{ step: 'items.put', row: { ...row, ttl: null, expires_at: null, ...set }, vectors: bytes }])
  }
  const remove = (key: string) => store.apply([{ step: 'items.remove', app: 'app', namespace: ['a'], key }])
  const copies = () =>
    client
      .db()
      .collection('item_vectors')
      .countDocuments({ of: { $ne: 'mark' } })
  return { url, store, open, put, remove, copies, db: client.db(), isHere, searches }
}

interface Command {
  pipeline: object[]
  readConcern?: { level: string }
}

const NO_SWITCH = 'this server is not the one whose vector search can be switched'

async function find(rankings: Rankings, query: number[], prefix: string[] = []) {
  const found: { key: string; score: number }[] = []
  for await (const { row, score } of rankings.search('app', new Float32Array(query), prefix))
    found.push({ key: row.key, score })
  return found
}

/** Like `find`; asks again while the copies are being made. */
async function found(rankings: Rankings, query: number[], prefix: string[] = []) {
  for (;;)
    try {
      return await find(rankings, query, prefix)
    } catch (error) {
      if ((error as { code?: string }).code !== 'unavailable') throw error
      await sleep(20)
    }
}

const keys = (items: { key: string }[]) => items.map(({ key }) => key)
const vectorOf = (i: number) => [Math.sin(i), Math.cos(i * 7), Math.sin(i * 3) / 2, Math.cos(i * 11)]

t.test('beyond the limit an application is found in the order of exact ranking', async t => {
  const { open, put, isHere, copies, searches } = await place(t)
  if (!isHere) return t.comment(NO_SWITCH)
  const namespaces = [['a'], ['a', 'b'], ['ab'], ['c', 'b']]
  const several = Array.from({ length: 160 }, (_, i) =>
    Array.from({ length: 1 + (i % 9) }, (_, j) => vectorOf(i + 1_000 * j)),
  )
  for (let at = 0; at < several.length; at += 50)
    await Promise.all(
      several
        .slice(at, at + 50)
        .map((vectors, i) => put(`k${at + i}`, vectors, { namespace: namespaces[(at + i) % 4]! })),
    )
  await put('no direction', [[0, 0, 0, 0]])
  const [exact, nearest] = [open(), open(FEW)]
  for (const [query, prefix] of [
    [[0.3, -1, 0.5, 0.1], []],
    [[-1, 0.2, 0, 0], ['a']],
    [
      [1, 1, 1, 1],
      ['a', 'b'],
    ],
    [[1, 0, 0, 1], ['c']],
  ] as const) {
    const expected = (await find(exact, [...query], [...prefix])).filter(({ key }) => key !== 'no direction')
    const items = await found(nearest, [...query], [...prefix])
    t.same(keys(items), keys(expected))
    for (const [i, { score }] of items.entries())
      if (Math.abs(score - expected[i]!.score) > 1e-5) t.equal(score, expected[i]!.score)
  }
  t.same(await found(nearest, [1, 0, 0, 0], ['nothing']), [])
  t.same(await found(nearest, [0, 0, 0, 0]), [], 'a query without a direction')
  t.equal(await copies(), several.flat().length, 'each vector with a direction')
  const stages = new Set(searches.flatMap(({ pipeline }) => Object.keys(pipeline[0]!)))
  t.same([...stages].sort(), ['$listSearchIndexes', '$vectorSearch'])
  // In a replica set the store reads with `majority`, which these stages refuse.
  for (const { readConcern } of searches) if (readConcern?.level !== 'local') t.fail('another read concern')
})

t.test('without vector search: refused with the limit, and nothing is copied', async t => {
  const { open, put, copies } = await place(t, { search: false })
  for (let i = 0; i < 5; i++) await put(`k${i}`, [vectorOf(i)])
  const rankings = open(FEW)
  for (let i = 0; i < 2; i++)
    await t.rejects(find(rankings, [1, 0, 0, 0]), { code: 'invalid', message: /up to 3 vectors/ })
  t.equal(await copies(), 0)
})

t.test('what servers of other versions say about vector search', async t => {
  for (const [set, expected] of [
    [{ lists: 31082 }, { code: 'invalid' }],
    [{ lists: 6047401 }, { code: 'invalid' }],
    [{ lists: 13 }, { code: 'invalid' }],
    [{ makes: 115 }, { code: 'invalid' }],
    [{ makes: 13 }, { code: 'unavailable', message: /does not make the search index vectors_4: a test/ }],
    [{ lists: 125 }, { code: 'unavailable', message: /database cannot be used/ }],
  ] as const) {
    const { url, open, put, copies } = await place(t)
    if (!(await switchSearch(url, set))) return t.comment(NO_SWITCH)
    for (let i = 0; i < 5; i++) await put(`k${i}`, [vectorOf(i)])
    await t.rejects(find(open(FEW), [1, 0, 0, 0]), expected, JSON.stringify(set))
    t.equal(await copies(), 0)
  }
})

t.test('below the limit nothing is copied', async t => {
  const { open, put, copies, isHere } = await place(t)
  if (!isHere) return t.comment(NO_SWITCH)
  await put('one', [vectorOf(1)])
  t.equal((await find(open(FEW), [1, 0, 0, 0])).length, 1)
  t.equal(await copies(), 0)
})

t.test('until the index has had all vectors, the search is unavailable and says why', async t => {
  const { url, open, put, isHere } = await place(t)
  if (!isHere) return t.comment(NO_SWITCH)
  for (let i = 0; i < 20; i++) await put(`k${i}`, [vectorOf(i)])
  await switchSearch(url, { queryable: false })
  const rankings = open(FEW)
  const refused = { code: 'unavailable', message: /being copied to the vector index/ }
  await t.rejects(find(rankings, [1, 0, 0, 0]), refused, 'the index is being made')
  await switchSearch(url, { queryable: true, follows: false })
  await t.rejects(find(rankings, [1, 0, 0, 0]), refused, 'it is behind')
  await switchSearch(url, { follows: true })
  t.equal((await found(rankings, [1, 0, 0, 0])).length, 20)
})

t.test('items that were replaced, removed or expired are not found, even if the index is behind', async t => {
  const { url, store, open, put, remove, copies, isHere } = await place(t)
  if (!isHere) return t.comment(NO_SWITCH)
  for (let i = 0; i < 12; i++) await put(`k${i}`, [[1, i, 0, 0]])
  const [one, two] = [open(FEW), open(FEW)]
  for (const rankings of [one, two]) t.equal((await found(rankings, [1, 0, 0, 0])).length, 12)
  await switchSearch(url, { follows: false })
  await put('k0', [[-1, 0, 0, 0]])
  await put('k1', [])
  await remove('k2')
  await put('k3', [[1, 3, 0, 0]], { ttl: 1, expires_at: Date.now() - 1 })
  await put('new', [[1, 0, 0, 0]])
  for (const rankings of [one, two])
    t.same(keys(await found(rankings, [1, 0, 0, 0])), ['k4', 'k5', 'k6', 'k7', 'k8', 'k9', 'k10', 'k11'])
  await switchSearch(url, { follows: true })
  while ((await found(one, [1, 0, 0, 0])).length < 10);
  for (const rankings of [one, two])
    t.same(keys(await found(rankings, [1, 0, 0, 0])), ['new', 'k4', 'k5', 'k6', 'k7', 'k8', 'k9', 'k10', 'k11', 'k0'])
  const row = (await store.items.get('app', { namespace: ['a'], key: 'k5' }, Date.now()))!
  await store.apply([{ step: 'items.take', app: 'app', namespace: ['a'], key: 'k5', updated_at: row.updated_at }])
  await store.apply([{ step: 'items.remove', app: 'app', namespace: ['a'], key: 'k3', expired_at: Date.now() }])
  t.equal(await copies(), 9, 'copies leave with their items')
  await store.apply([{ step: 'truncate', what: 'items' }])
  t.equal(await copies(), 0)
  t.same(await found(one, [1, 0, 0, 0]), [])
})

t.test('writes and searches of several workers at once', async t => {
  const { open, put, copies, isHere } = await place(t)
  if (!isHere) return t.comment(NO_SWITCH)
  for (let i = 0; i < 8; i++) await put(`k${i}`, [[0, 1, i, 0]])
  const workers = [open(FEW), open(FEW), open(FEW)]
  for (const rankings of workers) t.equal((await found(rankings, [1, 0, 0, 0])).length, 8)
  let writing = true
  const searches = workers.map(async rankings => {
    for (let i = 0; writing || i < 5; i++) {
      const items = await found(rankings, [1, 0, 0, 0])
      if (new Set(keys(items)).size !== items.length) t.fail('an item is found twice', { items })
    }
  })
  for (let round = 0; round < 10; round++)
    await Promise.all(
      Array.from({ length: 8 }, (_, i) =>
        put(`k${i % 4}`, [
          [round, 1, i, 0],
          [0, 0, 0, 1],
        ]),
      ),
    )
  await put('k0', [[1, 0, 0, 0]])
  writing = false
  await Promise.all(searches)
  for (const rankings of workers) {
    const items = await found(rankings, [1, 0, 0, 0])
    t.same([items.length, items[0]!.key], [8, 'k0'])
  }
  // Each search takes out what it finds of earlier writes; copying that a search did not wait for may leave some.
  while ((await copies()) !== 4 + 1 + 3 * 2) await found(workers[0]!, [1, 0, 0, 0])
})

t.test('items of before, and copies that a crash left, are found as the items are', async t => {
  const { open, put, remove, copies, isHere, db } = await place(t)
  if (!isHere) return t.comment(NO_SWITCH)
  for (let i = 0; i < 70; i++) await put(`k${i}`, [[1, i, 0, 0]])
  // A version without copies has written them so.
  await db.collection('items').updateMany({}, { $unset: { _copied: '' } })
  const rankings = open(FEW)
  t.equal((await found(rankings, [1, 0, 0, 0])).length, 70)
  t.equal(await copies(), 70)
  // The copies of these are stored, and nothing says so.
  await db.collection('items').updateMany({ key: { $in: ['k0', 'k1'] } }, { $set: { _copied: null } })
  await remove('k0')
  await put('k1', [[-1, 0, 0, 0]])
  t.equal(await copies(), 70)
  const items = keys(await found(rankings, [1, 0, 0, 0]))
  t.same([items.length, items[0], items.at(-1)], [69, 'k2', 'k1'])
  t.equal(await copies(), 69)
  // A worker was slow: it stores copies of an item that was replaced and of one that was removed since it read them.
  const late = await db
    .collection('item_vectors')
    .find({ key: { $in: ['k2', 'k3'] } })
    .toArray()
  await put('k2', [[-2, 1, 0, 0]])
  await remove('k3')
  await found(rankings, [1, 0, 0, 0])
  await db.collection('item_vectors').insertMany(late)
  t.equal(await copies(), 70)
  const rest = keys(await found(rankings, [1, 0, 0, 0]))
  t.same([rest.length, rest[0], rest.at(-2), rest.at(-1)], [68, 'k4', 'k2', 'k1'])
  t.equal(await copies(), 68)
})
