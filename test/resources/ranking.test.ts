import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import type { ItemRow } from '../../store/rows/items.js'
import { openSqlite } from '../../store/sqlite.js'
import { openRankings, type Rankings } from '../../workers/resources/vectors/ranking.js'

const folder = mkdtempSync(join(tmpdir(), 'weft-ranking-'))
const store = await openSqlite({ folder })
t.teardown(async () => {
  await store.close()
  rmSync(folder, { recursive: true, force: true })
})

let apps = 0
/** Each write is later than the one before, also within a millisecond. */
let clock = Date.now()
function place() {
  const app = `app-${++apps}`
  const put = async (namespace: string[], key: string, vectors: number[][], set: Partial<ItemRow> = {}) => {
    const now = clock++
    const row = { app, namespace, key, value: '{}', created_at: now, updated_at: now, ttl: null, expires_at: null }
    const bytes = new Uint8Array(new Float32Array(vectors.flat()).buffer)
    await store.apply([{ step: 'items.put', row: { ...row, ...set }, vectors: bytes }])
  }
  const remove = (namespace: string[], key: string) => store.apply([{ step: 'items.remove', app, namespace, key }])
  return { app, put, remove }
}

async function find(rankings: Rankings, app: string, query: number[], prefix: string[] = [], limit = 1_000) {
  const found: [string, number][] = []
  for await (const { row, score } of rankings.search(app, new Float32Array(query), prefix)) {
    found.push([row.key, Math.round(score * 100)])
    if (found.length === limit) break
  }
  return found
}

const open = (limits?: { vectors: number; bytes: number }) => {
  const rankings = openRankings(store, limits)
  t.teardown(() => rankings.close())
  return rankings
}

t.test('items rank by the cosine of their best vector', async t => {
  const { app, put } = place()
  const rankings = open()
  await put(['a'], 'x', [[2, 0]])
  await put(['a', 'b'], 'both', [
    [0, 5],
    [3, 3],
  ])
  await put(['ab'], 'y', [[0, 1]])
  await put(['a'], 'none', [[0, 0]])
  await put(['a'], 'other size', [[1, 2, 3]])
  t.same(await find(rankings, app, [1, 0]), [
    ['x', 100],
    ['both', 71],
    ['none', 0],
    ['y', 0],
  ])
  t.same(await find(rankings, app, [0, 2], ['a']), [
    ['both', 100],
    ['none', 0],
    ['x', 0],
  ])
  t.same(
    await find(rankings, app, [-1, 0], ['a', 'b']),
    [['both', 0]],
    'a vector at a right angle, not the opposite one',
  )
  t.same(await find(rankings, 'nobody', [1, 0]), [])
  t.same(await find(rankings, app, [1, 2, 3]), [['other size', 100]], 'vectors of another model')
})

t.test('the order equals that of a scan over all items, also over several pages', async t => {
  const { app, put } = place()
  const rankings = open()
  const vectors = Array.from({ length: 500 }, (_, i) => [Math.sin(i), Math.cos(i * 7), Math.sin(i * 3)])
  for (const [i, vector] of vectors.entries()) await put([`n${i % 3}`], `k${i}`, [vector])
  const query = [0.3, -1, 0.5]
  const cosine = (a: number[], b: number[]) => {
    const dot = (x: number[], y: number[]) => x.reduce((sum, n, i) => sum + n * y[i]!, 0)
    return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b))
  }
  const expected = vectors.map((vector, i) => [`k${i}`, cosine(vector, query)] as const).sort((a, b) => b[1] - a[1])
  const found = await find(rankings, app, query)
  t.equal(found.length, 500)
  for (const [i, [key, score]] of found.entries()) {
    t.ok(Math.abs(score / 100 - expected[i]![1]) < 0.01, `${i}`)
    if (i < 20) t.equal(key, expected[i]![0])
  }
})

t.test('the next search sees what any worker has written, replaced, removed or let expire', async t => {
  const { app, put, remove } = place()
  const [one, two] = [open(), open()]
  for (let i = 0; i < 100; i++) await put(['a'], `k${i}`, [[1, i]])
  for (const rankings of [one, two]) t.equal((await find(rankings, app, [1, 0])).length, 100)
  await put(['a'], 'new', [[1, 0]])
  await put(['a'], 'k50', [[1, -0.1]])
  await put(['a'], 'k51', [])
  await remove(['a'], 'k0')
  await put(['a'], 'k1', [[1, 1]], { ttl: 1, expires_at: Date.now() - 1 })
  for (const rankings of [one, two]) {
    const found = await find(rankings, app, [1, 0])
    t.same(
      found.slice(0, 2).map(([key]) => key),
      ['new', 'k50'],
    )
    t.equal(found.length, 98)
  }
  // The clock of the writer is behind: the writer announces the change itself.
  await put(['a'], 'late', [[1, 0]], { updated_at: 1_000 })
  one.note(app, { namespace: ['a'], key: 'late' })
  t.ok((await find(one, app, [1, 0])).some(([key]) => key === 'late'))
  await store.apply([{ step: 'truncate', what: 'items' }])
  for (const rankings of [one, two]) t.same(await find(rankings, app, [1, 0]), [])
})

t.test('an item that changes while a search runs is found once, with its new rank', async t => {
  const { app, put } = place()
  const rankings = open()
  for (let i = 0; i < 200; i++) await put(['a'], `k${i}`, [[1, i]])
  const found: string[] = []
  for await (const { row } of rankings.search(app, new Float32Array([1, 0]), [])) {
    found.push(row.key)
    if (found.length === 10) await put(['a'], 'k150', [[1, 0.5]])
  }
  t.equal(found.length, 200)
  t.equal(new Set(found).size, 200)
  t.ok(found.indexOf('k150') < 70, 'before the rest of the page that follows')
})

t.test('searches at the same time share one read of the store', async t => {
  const { app, put } = place()
  const rankings = open()
  for (let i = 0; i < 50; i++) await put(['a'], `k${i}`, [[1, i]])
  const all = await Promise.all(Array.from({ length: 20 }, () => find(rankings, app, [1, 0], [], 3)))
  for (const found of all)
    t.same(
      found.map(([key]) => key),
      ['k0', 'k1', 'k2'],
    )
})

t.test(
  'more vectors than can be ranked are refused with the limit, and are ranked again when there are fewer',
  async t => {
    const { app, put, remove } = place()
    for (let i = 0; i < 5; i++) await put(['a'], `k${i}`, [[1, i]])
    await t.rejects(find(open({ vectors: 4, bytes: 1e9 }), app, [1, 0]), {
      code: 'invalid',
      message: /up to 4 vectors/,
    })
    const rankings = open({ vectors: 1e9, bytes: 4 * 8 })
    await t.rejects(find(rankings, app, [1, 0]), { code: 'invalid', message: /or 0 MB of them/ })
    await t.rejects(find(rankings, app, [1, 0]), { code: 'invalid' })
    await remove(['a'], 'k0')
    t.equal((await find(open({ vectors: 4, bytes: 1e9 }), app, [1, 0])).length, 4)
  },
)

t.test('an application that was not searched lately makes room for another', async t => {
  const [first, second] = [place(), place()]
  const rankings = open({ vectors: 100, bytes: 5 * 8 })
  for (const { put } of [first, second]) for (let i = 0; i < 4; i++) await put(['a'], `k${i}`, [[1, i]])
  for (const { app } of [first, second, first]) t.equal((await find(rankings, app, [1, 0])).length, 4)
})
