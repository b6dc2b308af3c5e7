/** The item store: puts, searches by filter, searches by meaning. */
import { type Connection, requestText } from './http.js'
import type { Bench, Scenario } from './scenario.js'
import { askJson, rate, requests } from './scenarios-resources.js'
import { vectorsApp } from './server.js'
import { check, shown } from './wrong.js'

export const ITEMS: readonly Scenario[] = [
  { ...requests('store-put', 'PUT /store/items, each a new item'), run: put },
  { ...requests('store-search', 'POST /store/items/search by namespace and filter, 100 items each'), run: search },
  {
    ...requests('store-vector', 'POST /store/items/search with a query, over 5,000 vectors of 256 numbers'),
    starts: true,
    run: byMeaning,
  },
]

interface Found {
  items: { key: string; value: { n: number }; score?: number | null }[]
}

export async function putItem(connection: Connection, namespace: string[], key: string, value: object): Promise<void> {
  const { status, body } = await connection.ask(requestText('PUT', '/store/items', { namespace, key, value }))
  check(status === 204, () => `HTTP ${status}: ${shown(body)}`)
}

function put(bench: Bench) {
  return rate(bench, ({ index, connection }, n) =>
    putItem(connection, ['put', `client ${index}`], `k${n}`, { n, text: 'x'.repeat(200) }),
  )
}

function search(bench: Bench) {
  const items = bench.quick ? 20 : 100
  return rate(
    bench,
    async ({ index, connection }, n) => {
      const wanted = n % (items - 10)
      const filter = { n: { $gte: wanted, $lt: wanted + 10 } }
      const body = { namespace_prefix: ['search', `client ${index}`], filter, limit: 10 }
      const { items: found } = await askJson<Found>(connection, requestText('POST', '/store/items/search', body))
      const isWanted = found.length === 10 && found.every(({ value }) => value.n >= wanted && value.n < wanted + 10)
      check(isWanted, () => `other items were found for ${wanted}: ${shown(found)}`)
    },
    async ({ index, connection }) => {
      for (let n = 0; n < items; n++) await putItem(connection, ['search', `client ${index}`], `k${n}`, { n })
    },
  )
}

/** Each query is the text of one item, which must come first. */
async function byMeaning(bench: Bench) {
  const items = bench.quick ? 100 : 5_000
  const server = await bench.kind!.start({ app: vectorsApp })
  try {
    const clients = bench.quick ? 8 : 16
    return await rate(
      { ...bench, server },
      async ({ connection }, n) => {
        const wanted = (n * 37) % items
        const body = { namespace_prefix: ['vectors'], query: `v${wanted}`, limit: 3 }
        const { items: found } = await askJson<Found>(connection, requestText('POST', '/store/items/search', body))
        const [best] = found
        const isBest = found.length === 3 && best!.key === `k${wanted}` && best!.score! > 0.999
        check(isBest, () => `another item was the best for ${wanted}: ${shown(found)}`)
      },
      async ({ index, connection }) => {
        for (let n = index; n < items; n += clients)
          await putItem(connection, ['vectors'], `k${n}`, { n, text: `v${n}` })
      },
      clients,
    )
  } finally {
    await server.stop()
  }
}
