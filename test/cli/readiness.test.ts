/** Probes of one process, and an edge that leaves its balancers before it stops. */
import t from 'tap'
import { freePort } from '../../cli/ports.js'
import { type Proc, startRoles } from '../helpers/cluster.js'
import { openRaw, request } from '../helpers/raw.js'
import { until } from '../helpers/until.js'

t.setTimeout(120_000)

const statusOf = async (url: string): Promise<number> => (await fetch(url)).status

const says = (proc: Proc, text: string) => until(() => proc.output().includes(text))

t.test('every process answers for itself alone', async t => {
  const ports = { resources: await freePort(), graphs: await freePort(), edge: await freePort() }
  const roles = await startRoles({ resources: 0, graphs: 0, edges: 0, app: 'test/apps/basic' })
  t.teardown(() => roles.stop())
  const add = (role: keyof typeof ports) => roles.add(role, undefined, { WEFT_HEALTH_PORT: `${ports[role]}` })
  const probe = (role: keyof typeof ports, path: string) => statusOf(`http://127.0.0.1:${ports[role]}${path}`)
  const edge = await add('edge')
  const url = `http://127.0.0.1:${edge.port}`

  t.same([await statusOf(`${url}/ready`), await statusOf(`${url}/ready?self=1`)], [503, 200], 'without any worker')
  t.same([await probe('edge', '/live'), await probe('edge', '/ready'), await probe('edge', '/else')], [200, 200, 404])
  await add('resources')
  await add('graphs')
  t.same([await probe('resources', '/ready'), await probe('graphs', '/ready')], [200, 200])
  await until(async () => (await statusOf(`${url}/ready`)) === 200)

  roles.nats.kill()
  for (const role of ['edge', 'resources', 'graphs'] as const) {
    await until(async () => (await probe(role, '/ready')) === 503)
    t.equal(await probe(role, '/live'), 200, `${role} needs no restart`)
  }
  t.equal(await statusOf(`${url}/ready?self=1`), 503)
  await roles.nats.restart()
  for (const role of ['edge', 'resources', 'graphs'] as const)
    await until(async () => (await probe(role, '/ready')) === 200)
})

t.test('a worker is not ready before it has started', async t => {
  const port = await freePort()
  const roles = await startRoles({ resources: 0, graphs: 0, edges: 0, app: 'test/apps/basic' })
  t.teardown(() => roles.stop())
  // Its graphs are announced to a resource worker, which is not there.
  const started = roles.add('graphs', undefined, { WEFT_HEALTH_PORT: `${port}` })
  const probe = (path: string) => statusOf(`http://127.0.0.1:${port}${path}`).catch(() => null)
  await until(async () => (await probe('/live')) === 200)
  t.equal(await probe('/ready'), 503)
  await roles.add('resources')
  await started
  t.equal(await probe('/ready'), 200)
})

t.test('an edge that is stopped serves until its balancers have left', async t => {
  const roles = await startRoles({ app: 'test/apps/basic', env: { WEFT_EDGE_DRAIN_MS: '60000' } })
  t.teardown(() => roles.stop())
  const [edge] = roles.edges as [Proc]
  const [url] = roles.urls as [string]
  const kept = openRaw(edge.port!, request('GET', '/ok'))
  await kept.until(/\{"ok":true\}/)
  t.equal(await statusOf(`${url}/ready?self=1`), 200)

  edge.kill('SIGTERM')
  await says(edge, 'draining')
  t.same(
    [await statusOf(`${url}/ready?self=1`), await statusOf(`${url}/ready`), await statusOf(`${url}/ok`)],
    [503, 503, 200],
  )
  const run = await fetch(`${url}/runs/wait`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ assistant_id: 'echo', input: { messages: [] } }),
  })
  t.same([run.status, run.headers.get('connection')], [200, 'close'], 'new connections are served')
  kept.socket.write(request('GET', '/ok'))
  t.match(
    (await kept.closed).split('HTTP/1.1 ')[2],
    /^200 OK[\s\S]*Connection: close/,
    'and those that are kept, once more',
  )

  const ended = new Promise(done => edge.child.once('exit', done))
  edge.kill('SIGINT')
  t.equal(await ended, 0, 'SIGINT ends the drain')
})

t.test('weft with a port for probes that is in use says so', async t => {
  const roles = await startRoles({ resources: 0, graphs: 0, edges: 1, app: 'test/apps/basic' })
  t.teardown(() => roles.stop())
  const { port } = roles.edges[0]!
  await t.rejects(roles.add('edge', undefined, { WEFT_HEALTH_PORT: `${port}` }), {
    message: new RegExp(`WEFT_HEALTH_PORT=${port} cannot be listened on`),
  })
})
