/**
 * Fuzzed bodies for every route that takes one: never a 5xx, never silence, never a process restart.
 * 2,000 bodies; LONG_TESTS=1 makes it 20,000. A failure prints the seed and the request.
 */
import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { isRunning } from '../../cli/processes.js'
import { ROUTES } from '../../edge/routes.js'
import { startCluster } from '../helpers/cluster.js'
import { hostileBody, pathOf, sendBody } from '../helpers/hostile-bodies.js'

t.setTimeout(900_000)
const COUNT = process.env.LONG_TESTS === '1' ? 20_000 : 2_000
const SEED = 20_261_121
const KEY = 'a-control-key-for-tests'
const AT_ONCE = 16

t.test(`${COUNT} fuzzed bodies`, async t => {
  const cluster = await startCluster({ app: 'test/apps/basic', env: { WEFT_CONTROL_KEY: KEY, LOG_LEVEL: 'error' } })
  t.teardown(() => cluster.stop())
  const before = cluster.pids()
  const made = await fetch(`${cluster.url}/threads`, { method: 'POST', body: '{}' })
  const { thread_id } = (await made.json()) as { thread_id: string }
  const rows = ROUTES.filter(({ method }) => method !== 'GET' && method !== 'DELETE')
  const samples = fc.sample(hostileBody, { seed: SEED, numRuns: COUNT })

  const statuses = new Map<number, number>()
  let wrong = 0
  const one = async (i: number) => {
    const route = rows[i % rows.length]!
    const id = i % 3 === 0 ? randomUUID() : thread_id
    const path = pathOf(route, { thread_id: id })
    const status = await sendBody(cluster.url, route.method, path, samples[i]!, KEY)
    statuses.set(status, (statuses.get(status) ?? 0) + 1)
    if (status > 0 && status < 500) return
    if (++wrong <= 5) t.fail(`${route.method} ${path}: ${status}`, { seed: SEED, body: samples[i] })
  }

  let next = 0
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      while (next < COUNT) await one(next++)
    }),
  )
  t.comment(`statuses: ${[...statuses].sort().map(([status, count]) => `${status} × ${count}`)}`)
  t.equal(wrong, 0, 'an answer below 500 for each')
  t.ok((statuses.get(200) ?? 0) > COUNT / 20, 'a good part was accepted and did something')
  // The graph worker may have started one more host: the others kept their work waiting.
  t.same(
    before.filter(pid => !isRunning(pid)),
    [],
    'no process has ended',
  )
  t.equal(({} as { polluted?: unknown }).polluted, undefined)
  const run = await fetch(`${cluster.url}/runs/wait`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"assistant_id":"echo","input":{}}',
  })
  t.equal(run.status, 200, 'and an ordinary run works')
  await run.arrayBuffer()
})
