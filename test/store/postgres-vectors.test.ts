/** Semantic search by pgvector, for applications with more vectors than a worker ranks, against exact ranking. */
import pg from 'pg'
import t, { type Test } from 'tap'
import { withoutPython } from '../../scripts/checks/venv.js'
import { describePostgres } from '../../store/postgres/describe.js'
import { openPostgres } from '../../store/postgres.js'
import type { ItemRow } from '../../store/rows/items.js'
import { openRankings, type Rankings } from '../../workers/resources/vectors/ranking.js'
import { randomOf } from '../faults/harness/random.js'
import { PGVECTORS, startPgvector, withoutPgvector } from '../helpers/stores/pgvector.js'
import { startPostgres } from '../helpers/stores/postgres-server.js'
import { until } from '../helpers/until.js'
import { itemConformance } from './conformance-items.js'

t.setTimeout(300_000)
const skip = withoutPython() ?? withoutPgvector() ?? false
/** Limits of a worker that ranks almost nothing itself. */
const FEW = { vectors: 3, bytes: 1e9 }

async function place(t: Test, url: string) {
  const statements: string[] = []
  const store = await openPostgres({ url, onStatement: text => statements.push(text) })
  const all: Rankings[] = []
  t.teardown(async () => {
    for (const rankings of all) await rankings.close()
    await store.close()
  })
  let at = Date.now()
  return {
    store,
    statements,
    open(limits?: typeof FEW) {
      const rankings = openRankings(store, limits)
      all.push(rankings)
      return rankings
    },
    async put(items: { key: string; vectors: number[][]; namespace?: string[] }[], set: Partial<ItemRow> = {}) {
      const steps = items.map(({ key, vectors, namespace = ['a'] }) => {
        const now = ++at
        const row = { app: 'app', namespace, key, value: '{}', created_at: now, updated_at: now, ttl: null }
        const bytes = new Uint8Array(new Float32Array(vectors.flat()).buffer)
        return { step: 'items.put' as const, row: { ...row, expires_at: null, ...set }, vectors: bytes }
      })
      for (let i = 0; i < steps.length; i += 500) await store.apply(steps.slice(i, i + 500))
    },
  }
}

async function find(rankings: Rankings, query: number[], prefix: string[] = [], most = Number.POSITIVE_INFINITY) {
  const found: { key: string; score: number }[] = []
  for await (const { row, score } of rankings.search('app', new Float32Array(query), prefix)) {
    found.push({ key: row.key, score })
    if (found.length >= most) break
  }
  return found
}

const versions = Object.keys(PGVECTORS) as (keyof typeof PGVECTORS)[]
for (const version of versions) t.test(`with pgvector ${version}`, { skip }, t => withPgvector(t, version))

async function withPgvector(t: Test, version: keyof typeof PGVECTORS) {
  const most = version === '0.6' ? 2_000 : 4_000
  const server = await startPgvector(version)
  t.teardown(() => server.stop())

  await t.test('a search answers what exact ranking answers, also after changes', async t => {
    const { open, put, store, statements } = await place(t, await server.url())
    const [exact, nearest] = [open(), open(FEW)]
    const same = async (query: number[], prefix: string[] = []) => {
      const all = await find(exact, query, prefix)
      // One without a direction is similar to nothing, and is not in the index.
      const [wanted, found] = [all.filter(({ key }) => key !== 'none'), await find(nearest, query, prefix)]
      const rounded = (all: typeof wanted) => all.map(({ key, score }) => [key, score.toFixed(4)])
      t.same(rounded(found), rounded(wanted), `${query} in ${prefix}`)
      return found.map(({ key }) => key)
    }
    await put([
      { key: 'east', vectors: [[1, 0]] },
      { key: 'north', vectors: [[0, 1]] },
      {
        key: 'both',
        vectors: [
          [0.9, 0.1],
          [0.1, 1.1],
        ],
      },
      { key: 'west', vectors: [[-1, 0.05]], namespace: ['a', 'b'] },
      { key: 'none', vectors: [[0, 0]] },
    ])
    t.same(await same([1, 0.01]), ['east', 'both', 'north', 'west'])
    t.ok(
      statements.some(text => text.includes('hnsw.ef_search')),
      'the index was asked',
    )
    t.same(await same([1, 0.01], ['a', 'b']), ['west'])
    await put([{ key: 'east', vectors: [[-1, 0]] }])
    t.same(await same([1, 0.01]), ['both', 'north', 'west', 'east'])
    await store.apply([{ step: 'items.remove', app: 'app', namespace: ['a'], key: 'north' }])
    t.same(await same([1, 0.01]), ['both', 'west', 'east'])
  })

  await t.test('it finds nearly all of the nearest among 10,000, and all below a small prefix', async t => {
    const { open, put } = await place(t, await server.url())
    const random = randomOf(11)
    const vector = () => Array.from({ length: 32 }, () => random.next() - 0.5)
    await put(
      Array.from({ length: 10_000 }, (_, i) => ({
        key: `k${i}`,
        vectors: [vector()],
        namespace: i % 100 === 0 ? ['a', 'rare'] : ['a', 'common'],
      })),
    )
    const [exact, nearest] = [open(), open(FEW)]
    // The vectors are copied first.
    await until(() =>
      find(nearest, vector(), [], 1).then(
        () => true,
        error => {
          if (!(error as Error).message.includes('ask again')) throw error
          return false
        },
      ),
    )
    let hits = 0
    for (let i = 0; i < 20; i++) {
      const query = vector()
      const wanted = new Set((await find(exact, query, [], 10)).map(({ key }) => key))
      for (const { key } of await find(nearest, query, [], 10)) if (wanted.has(key)) hits++
      const below = async (rankings: Rankings) => (await find(rankings, query, ['a', 'rare'], 50)).map(({ key }) => key)
      t.same(await below(nearest), await below(exact))
    }
    t.comment(`recall ${hits / 200}`)
    t.ok(hits >= 190, `${hits} of 200`)
  })

  await t.test('the promises of a store about items', async t => {
    const { store } = await place(t, await server.url())
    itemConformance(t, store)
  })

  await t.test('vectors that no index takes are not searched here', async t => {
    const { store } = await place(t, await server.url())
    t.equal(await store.nearest!.prepare(most), 'ready')
    t.equal(await store.nearest!.prepare(most + 1), 'none')
  })

  await t.test(
    'the largest vectors of an index are found with exact scores, also very long and very short ones',
    async t => {
      const { open, put, statements } = await place(t, await server.url())
      const random = randomOf(7)
      const vector = (length = 1) => Array.from({ length: most }, () => (random.next() - 0.5) * length)
      const lengths = [1, 1e-12, 1e12]
      await put(Array.from({ length: 30 }, (_, i) => ({ key: `k${i}`, vectors: [vector(lengths[i % 3])] })))
      const [exact, nearest] = [open(), open(FEW)]
      for (const length of lengths) {
        const query = vector(length)
        const rounded = async (rankings: Rankings) =>
          (await find(rankings, query)).map(({ key, score }) => [key, score.toFixed(5)])
        t.same(await rounded(nearest), await rounded(exact))
      }
      t.ok(statements.some(text => text.includes('hnsw.ef_search')))
    },
  )

  await t.test('what doctor says of the extension', async t => {
    const url = await server.url()
    t.match(await describePostgres(url), {
      vectors: new RegExp(
        `^pgvector [\\d.]+ for vectors of up to ${most.toLocaleString('en')} numbers, made when it is needed$`,
      ),
      needsExtension: false,
    })
    const client = new pg.Client(url)
    await client.connect()
    await client.query("CREATE ROLE reader LOGIN PASSWORD 'r'")
    const reader = new URL(url)
    reader.username = 'reader'
    reader.password = 'r'
    t.match(await describePostgres(`${reader}`), { vectors: /which this user may not make$/, needsExtension: true })
    await client.query('CREATE EXTENSION vector')
    await client.end()
    t.match(await describePostgres(`${reader}`), {
      vectors: /^pgvector [\d.]+ for vectors of up to [\d,]+ numbers$/,
      needsExtension: false,
    })
  })
}

t.test('a server without the extension has no vector search', async t => {
  const server = await startPostgres()
  t.teardown(() => server.stop())
  const url = await server.url()
  const { store } = await place(t, url)
  const client = new pg.Client(url)
  await client.connect()
  const { rows } = await client.query("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'")
  await client.end()
  t.equal(await store.nearest!.prepare(2), rows.length > 0 ? 'ready' : 'none')
  if (rows.length === 0) t.match(await describePostgres(url), { vectors: 'no pgvector', needsExtension: false })
})
