/** The calls to items with few and with many of them, in as many more namespaces. */
import { type Connection, requestText } from '../http.js'
import type { Bench } from '../scenario.js'
import { putItem } from '../scenarios-items.js'
import type { Server } from '../server.js'
import { check, shown } from '../wrong.js'
import { type Call, compare, exercise, fill, get, post, two } from './compare.js'

/** Items of a namespace. */
const EACH = 10

const userOf = (i: number): string => `user ${Math.floor(i / EACH)}`
const put = (connection: Connection, i: number, more: object = {}) =>
  putItem(connection, ['growth', userOf(i)], `k${i}`, { n: i, seventh: i % 7, text: 'x'.repeat(200), ...more })
const itemPath = (i: number): string => `/store/items?namespace=growth.${encodeURIComponent(userOf(i))}&key=k${i}`

export async function growingItems(bench: Bench) {
  const [few, many] = bench.quick ? [100, 500] : [1_000, bench.size ?? 100_000]
  return two(bench, async (small, large) => {
    const place = async ({ port }: Server, count: number) => {
      await fill(port, count, put)
      return { port, calls: callsOnItems(count) }
    }
    const from = await place(small, few)
    const to = await place(large, many)
    await exercise(small.port, bench.quick ? 0.5 : 5, (connection, n) =>
      n % 2 === 0 ? get(connection, itemPath(n % few)) : put(connection, n % few),
    )
    return compare(from, to, bench)
  })
}

function callsOnItems(count: number): Call[] {
  // Not a divisor of the count, so that requests reach items of every age.
  const pick = (n: number) => (n * 7_919) % count
  const found = async (connection: Connection, namespace_prefix: string[], filter: object | null, expected: number) => {
    const body = { namespace_prefix, limit: EACH, ...(filter === null ? {} : { filter }) }
    const { items } = await post<{ items: unknown[] }>(connection, '/store/items/search', body)
    check(items.length === expected, () => `${items.length} items instead of ${expected} for ${JSON.stringify(body)}`)
  }
  const all = ['growth']
  return [
    { name: 'get item', ask: (c, n) => get(c, itemPath(pick(n))) },
    { name: 'items of a namespace', ask: (c, n) => found(c, [...all, userOf(pick(n))], null, EACH) },
    {
      name: 'items of a namespace by filter',
      ask: (c, n) => found(c, [...all, userOf(pick(n))], { n: pick(n) }, 1),
    },
    { name: 'newest items', ask: c => found(c, all, null, EACH) },
    { name: 'items by a rare value', ask: (c, n) => found(c, all, { n: pick(n) }, 1) },
    { name: 'items by a value of a seventh', ask: (c, n) => found(c, all, { seventh: n % 7 }, EACH) },
    {
      name: 'items by a range',
      ask: (c, n) => {
        const from = Math.min(pick(n), count - EACH)
        return found(c, all, { n: { $gte: from, $lt: from + EACH } }, EACH)
      },
    },
    { name: 'items by no value', ask: c => found(c, all, { n: -1 }, 0) },
    {
      name: 'namespaces of a prefix',
      ask: async (c, n) => {
        const prefix = [...all, userOf(pick(n))]
        const { namespaces } = await post<{ namespaces: string[][] }>(c, '/store/namespaces', { prefix })
        check(namespaces.length === 1, () => `one namespace was expected: ${shown(namespaces)}`)
      },
    },
    { name: 'put an item again', ask: (c, n) => put(c, pick(n), { again: n }) },
    { name: 'put an item', ask: (c, n) => putItem(c, ['new', `user ${n}`], `k${n}`, { n }) },
    { name: 'delete item', ask: deleteNew },
  ]
}

/** The time of the deletion alone. */
async function deleteNew(connection: Connection, n: number): Promise<number> {
  const namespace = ['gone', `user ${n}`]
  await putItem(connection, namespace, 'k', { n })
  const since = performance.now()
  const { status } = await connection.ask(requestText('DELETE', '/store/items', { namespace, key: 'k' }))
  check(status === 204, `HTTP ${status} for a deletion`)
  return performance.now() - since
}
