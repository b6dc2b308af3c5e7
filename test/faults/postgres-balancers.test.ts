/** A rolling restart of every role behind HAProxy and nginx: no request fails, and streams are resumed. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { freePort } from '../../cli/ports.js'
import { type Edges, hasBalancer, startHaproxy, startNginx } from '../helpers/balancers.js'
import { type Proc, type Roles, startRoles } from '../helpers/cluster.js'
import { startPostgres } from '../helpers/stores/postgres-server.js'
import { until } from '../helpers/until.js'
import { finalStatuses } from './load.js'
import { openClients } from './rolling/clients.js'

t.setTimeout(300_000)

const missing = (['haproxy', 'nginx'] as const).filter(name => !hasBalancer(name))
const skip =
  missing.length === 0 ? false : `needs ${missing.join(' and ')} (apt-get install haproxy nginx-light on Debian)`

/** A balancer needs 2 s, and 1 s until its next check, to leave an edge. */
const DRAIN_MS = 4_000
const CALLERS = 2
const STREAMS = 2
/** Longer than the restarts of both edges. */
const EVENTS = 600

/** A new process of each, then the end of the old one. */
async function replace(t: Test, roles: Roles, role: 'resources' | 'graphs'): Promise<void> {
  for (const old of roles[role]) {
    await roles.add(role)
    t.equal(await old.stop(), 0, `${role} ended with code 0`)
  }
}

t.test('a rolling restart of every role behind real balancers', { skip }, async t => {
  const server = await startPostgres()
  t.teardown(() => server.stop())
  const env = { DATABASE_URI: await server.url(), WEFT_EDGE_DRAIN_MS: `${DRAIN_MS}` }
  const roles = await startRoles({ edges: 0, resources: 2, graphs: 2, app: 'test/apps/basic', env })
  t.teardown(() => roles.stop())
  const ports: [number, number] = [await freePort(), await freePort()]
  const startEdge = (port: number) => roles.add('edge', ['--port', `${port}`])
  const edges: Proc[] = []
  for (const port of ports) edges.push(await startEdge(port))
  const folder = mkdtempSync(join(tmpdir(), 'balancer-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const at: Edges = [`127.0.0.1:${ports[0]}`, `127.0.0.1:${ports[1]}`]
  const balancers = [await startHaproxy(folder, at), await startNginx(folder, at)]
  t.teardown(() => Promise.all(balancers.map(({ stop }) => stop())))

  const load = balancers.map(({ url }) => openClients(url))
  for (const { call } of load) call(CALLERS)
  await until(() => load.every(({ runs }) => runs.length > 10))
  await replace(t, roles, 'resources')
  await replace(t, roles, 'graphs')
  const begun: Promise<void>[] = []
  const streams = load.flatMap(clients =>
    Array.from({ length: STREAMS }, () => {
      let onBegun = () => {}
      begun.push(new Promise(done => (onBegun = done)))
      return clients.stream({ count: EVENTS, delay_ms: 40, onBegun })
    }),
  )
  await Promise.race([Promise.all(begun), Promise.all(streams)])
  for (const [n, port] of ports.entries()) {
    t.equal(await edges[n]!.stop(), 0, 'the edge ended with code 0')
    await startEdge(port)
    for (const { edges } of balancers) await until(async () => (await edges()) === 2)
  }
  const read = await Promise.all(streams)
  for (const { stop } of load) await stop()

  for (const [n, { name }] of balancers.entries()) {
    const { runs, tally } = load[n]!
    t.comment(`${name}: ${tally.requests} requests`)
    t.same(tally.failed, [], `${name}: no request failed`)
    t.same([...new Set(await finalStatuses(balancers[n]!.url, runs))], ['success'], `${name}: every run`)
  }
  // Ids begin at 0 only in the first attempt: one that a stopping worker gave back before it began has none.
  const all = Array.from({ length: EVENTS }, (_, i) => i)
  for (const { ids, chunks } of read) {
    t.same(chunks, all, 'every chunk once, in order')
    t.equal(ids.length, EVENTS + 1)
    t.ok(
      ids.every((id, i) => i === 0 || id > ids[i - 1]!),
      'ids grow',
    )
  }
  t.ok(
    read.some(({ cuts }) => cuts > 0),
    'streams were cut',
  )
})
