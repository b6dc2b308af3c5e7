import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { divideAmong, openConnection, requestText } from '../../scripts/bench/http.js'
import type { Measured } from '../../scripts/bench/measure.js'
import { optionsOf } from '../../scripts/bench/options.js'
import type { Line, machine } from '../../scripts/bench/report.js'
import { type Call, compare, fill } from '../../scripts/bench/scale/compare.js'
import { plotsOf } from '../../scripts/bench/scale/plots.js'
import { SCENARIOS } from '../../scripts/bench/scenarios.js'

/** Answers after `ms`, with a body that names the server, and counts its requests. */
async function startServer(t: Test, ms = 0) {
  const seen = { count: 0, paths: new Set<string>() }
  const server = createServer((request, response) => {
    seen.count++
    seen.paths.add(request.url!)
    setTimeout(() => response.end('{}'), ms)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { port: (server.address() as AddressInfo).port, seen }
}

t.test('growth is the largest ratio of quartiles, call by call', async t => {
  const [fast, slow] = [await startServer(t), await startServer(t, 40)]
  const call = (name: string, path: string): Call => ({ name, ask: c => c.ask(requestText('GET', path)) })
  const calls = [call('a', '/a'), { name: 'measures itself', ask: async () => 5 }]
  const { value, also, series } = await compare({ port: fast.port, calls }, { port: slow.port, calls }, { quick: true })
  t.equal(value, also!.a)
  t.ok(value > 1, `${value}`)
  t.ok(series!.a![1]![1] >= 39, 'the quartile of the slow server')
  t.equal(also!['measures itself'], 1)
  t.equal(fast.seen.count, slow.seen.count, 'both got as many requests')
})

t.test('fill calls each number once', async t => {
  const { port, seen } = await startServer(t)
  await fill(port, 100, (connection, i) => connection.ask(requestText('GET', `/${i}`)))
  t.equal(seen.count, 100)
  t.equal(seen.paths.size, 100)
})

t.test('connections are divided among several edges', async t => {
  const servers = [await startServer(t), await startServer(t)]
  divideAmong(servers.map(({ port }) => port))
  for (let i = 0; i < 6; i++) {
    const connection = openConnection(servers[0]!.port)
    await connection.ask(requestText('GET', '/'))
    connection.close()
  }
  t.same(
    servers.map(({ seen }) => seen.count),
    [3, 3],
  )
})

t.test('flags of stores and numbers of processes', async t => {
  const names = (...args: string[]) => optionsOf(args)!.scenarios.map(({ name }) => name)
  t.notOk(names().includes('run-wait-pools'), 'without further pools')
  t.ok(names('--pools', '2').includes('run-wait-pools'))
  t.match(optionsOf(['--edges', '3']), { counts: { edges: 3, resources: 1, graphs: 1, pools: 0 } })
  t.match(optionsOf(['--store', 'mongo']), { database: 'mongo', counts: null })
  t.throws(() => optionsOf(['--store', 'redis']), /there is no store "redis": expected mongo, postgres or sqlite/)
  t.throws(() => optionsOf(['--edges', 'many']), /--edges must be a number/)
  t.throws(() => optionsOf(['--edges', '2', '--url', 'http://127.0.0.1:1']), /leave out --edges/)
  t.throws(() => optionsOf(['--costs', 'file']), /--costs needs --apart/)
})

t.test('plots have the servers and rows that have figures', async t => {
  const line = (scenario: string, server: string, value: number | null): Line =>
    ({ scenario, server, value, unit: '/s', p50: 3, p99: 9, failure: value === null ? 'wrong' : null }) as Line
  const lines = [line('run-wait', 'weft', 900), line('run-wait', 'peer', null), line('chunks', 'weft', 5_000)]
  const rounds = [
    { scenario: 'memory', server: 'weft', round: 0, series: { 'memory all': [[0, 1]], 'p99 runs': [[0, 2]] } },
  ]
  const results = {
    at: '2026-01-01T00:00:00Z',
    machine: { cores: 2, node: 'v22', host_node: 'v24', weft: '1' } as ReturnType<typeof machine>,
    settings: { seconds: 1, warm: 1, rounds: 1 },
    load: { before: 0, after: 0 },
    client: { perSecond: 1, cpu_us: 1 },
    lines,
    rounds: rounds as unknown as Measured[],
  }
  const plots = plotsOf(results)
  t.match(plots.throughput, 'run-wait')
  t.match(plots.throughput, 'Node.js v22, hosts on v24')
  t.match(plots.throughput, '<title>weft: 900</title>')
  t.notMatch(plots.throughput, '<title>peer:')
  t.match(plots.latency, 'run-wait, p99')
  t.notMatch(plots.latency, 'chunks')
  t.match(plots['over-time'], 'Resident memory, MB')
  t.equal(plotsOf({ ...results, rounds: [] })['over-time'], null)
})

t.test('rows that take minutes run once, on servers of their own', async t => {
  for (const { name, once, starts } of SCENARIOS) if (once) t.ok(starts, name)
})
