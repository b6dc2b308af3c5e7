import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { connect, type NatsConnection } from 'nats'
import t from 'tap'
import type { Role } from '../../bus/connect.js'
import { ROLES } from '../../cli/nats/config.js'
import { startNatsProcess } from '../../cli/nats/process.js'
import { findNatsServer } from '../../cli/nats/server.js'
import { alive, allGone } from '../helpers/cluster.js'
import { startNats } from '../helpers/nats.js'

const nats = await startNats()
t.teardown(() => nats.stop())

async function as(role: Role) {
  const url = new URL(nats.url(role))
  const refused: string[] = []
  const nc = await connect({
    servers: url.host,
    user: url.username,
    pass: decodeURIComponent(url.password),
    inboxPrefix: `_INBOX_${role}`,
  })
  void (async () => {
    for await (const { data } of nc.status()) refused.push(`${data}`)
  })()
  t.teardown(() => nc.close())
  return { nc, refused }
}

/** Publishes and waits until the server has processed it. */
async function publish({ nc }: { nc: NatsConnection }, subject: string) {
  nc.publish(subject, 'x')
  await nc.flush()
}

t.test('a role publishes to the subjects of its code only', async t => {
  const resources = await as('resources')
  const graphs = await as('graphs')
  const edge = await as('edge')
  const deployer = await as('deployer')
  const received: string[] = []
  for (const subject of ['end.*', 'live.*'])
    edge.nc.subscribe(subject, { callback: (_, { subject }) => void received.push(subject) })
  resources.nc.subscribe('rpc.>', { callback: (_, { subject }) => void received.push(subject) })
  await Promise.all([edge.nc.flush(), resources.nc.flush()])

  await publish(graphs, 'end.a')
  await publish(edge, 'chunk.a.0')
  await publish(edge, 'queue.default')
  await publish(edge, 'live.a')
  await publish(deployer, 'queue.default')
  await publish(resources, 'end.b')
  await publish(graphs, 'live.b')
  await publish(edge, 'rpc.threads.create')
  await publish(deployer, 'rpc.deployments.claim')
  await Promise.all([edge.nc.flush(), resources.nc.flush()])

  t.same(received.sort(), ['end.b', 'live.b', 'rpc.deployments.claim', 'rpc.threads.create'])
  t.equal(graphs.refused.length, 1, 'end.a refused')
  t.equal(edge.refused.length, 3, 'chunk, queue and live refused')
  t.equal(deployer.refused.length, 1)
  t.equal(resources.refused.length, 0)
})

t.test('only deploy workers receive deploy tasks and their secrets', async t => {
  const resources = await as('resources')
  const received: string[] = []
  resources.nc.subscribe('rpc.>', { callback: (_, { subject }) => void received.push(subject) })
  await resources.nc.flush()
  const verbs = ['claim', 'renew', 'advance', 'log', 'active', 'env'].map(verb => `rpc.deployments.${verb}`)
  const edge = await as('edge')
  const graphs = await as('graphs')
  const deployer = await as('deployer')
  for (const subject of [...verbs, 'rpc.assistants.retire']) await publish(edge, subject)
  for (const subject of [...verbs, 'rpc.deployments.create', 'rpc.assistants.retire']) await publish(graphs, subject)
  for (const subject of ['pool.a.b.runs.claim', 'rpc.threads.create', 'rpc.deployments.create'])
    await publish(deployer, subject)
  await resources.nc.flush()
  t.same(received, [])
  for (const subject of [...verbs, 'rpc.assistants.retire']) await publish(deployer, subject)
  await publish(edge, 'rpc.deployments.create')
  await resources.nc.flush()
  t.same(received, [...verbs, 'rpc.assistants.retire', 'rpc.deployments.create'])
})

t.test('graph workers publish the calls of their code, and no other call', async t => {
  const resources = await as('resources')
  const edge = await as('edge')
  const received: string[] = []
  const onReceived = { callback: (_: unknown, { subject }: { subject: string }) => void received.push(subject) }
  for (const subject of ['rpc.>', 'pool.>', '_INBOX_resources.>']) resources.nc.subscribe(subject, onReceived)
  for (const subject of ['_INBOX_edge.>', 'event.>', 'end.*', 'live.*']) edge.nc.subscribe(subject, onReceived)
  await Promise.all([resources.nc.flush(), edge.nc.flush()])
  const graphs = await as('graphs')
  const allowed = [
    ...['claim', 'heartbeat', 'stream_full', 'finish', 'release'].map(verb => `pool.app.one.runs.${verb}`),
    ...['save', 'get', 'list'].map(verb => `pool.app.one.checkpoints.${verb}`),
    'pool.app.one.items.batch',
    'pool.app.one.assistants.register',
    '_INBOX_resources.pool.one.a.0',
    '_INBOX_edge.pool.one.a.0',
    'live.run',
  ]
  const refused = [
    ...['create', 'get', 'join', 'result', 'cancel', 'settle', 'peek', 'claim'].map(verb => `rpc.runs.${verb}`),
    ...['create', 'get', 'search', 'state', 'remove'].map(verb => `rpc.threads.${verb}`),
    ...['search', 'get', 'retire', 'remove'].map(verb => `rpc.assistants.${verb}`),
    ...['put', 'get', 'search', 'remove', 'namespaces'].map(verb => `rpc.items.${verb}`),
    ...['create', 'search'].map(verb => `rpc.crons.${verb}`),
    ...['check', 'ready', 'truncate'].map(verb => `rpc.system.${verb}`),
    ...['env', 'claim', 'create', 'get', 'log'].map(verb => `rpc.deployments.${verb}`),
    'rpc.revisions.get',
    'rpc.providers.get',
    'rpc.control.key',
    'rpc.checkpoints.remove',
    '_INBOX_resources.a.0',
    '_INBOX_edge.a.0',
    '_INBOX_graphs.a.0',
    '_INBOX_deployer.a.0',
    'end.run',
    'event.graphs.announced',
    'queue.default',
    'chunk.run',
    'host.default.state',
    'deploy.task.deploy.a',
    '$JS.API.STREAM.INFO.RUNS',
    '$JS.API.STREAM.DELETE.EVENTS',
    '$JS.API.STREAM.PURGE.RUNS',
    '$JS.API.CONSUMER.DELETE.RUNS.pool_default',
    '$JS.API.CONSUMER.CREATE.RUNS.a',
    '$JS.API.DIRECT.GET.EVENTS',
    '$JS.ACK.EVENTS.a',
  ]
  for (const subject of [...allowed, ...refused]) await publish(graphs, subject)
  await Promise.all([resources.nc.flush(), edge.nc.flush()])
  t.same(received.sort(), [...allowed].sort())
  t.equal(graphs.refused.length, refused.length)
})

t.test('no role may subscribe to the inbox of another', async t => {
  for (const role of ROLES) {
    const { nc } = await as(role)
    const refused: string[] = []
    const open = ['>', '_INBOX_*.>', ...ROLES.map(other => `_INBOX_${other}.>`)].filter(
      subject => subject !== `_INBOX_${role}.>`,
    )
    for (const subject of open) nc.subscribe(subject, { callback: error => void (error && refused.push(subject)) })
    await nc.flush()
    t.same(refused.sort(), open.sort(), role)
  }
})

t.test('a connection without a password is refused', async t => {
  await t.rejects(connect({ servers: `127.0.0.1:${nats.port}`, reconnect: false }))
})

t.test('files with passwords are readable by their owner only', async t => {
  for (const file of ['nats-users.json', 'nats.conf'])
    t.equal(statSync(join(nats.data, file)).mode & 0o777, 0o600, file)
})

t.test('after kill -9 a restart keeps the port and the stored streams', async t => {
  const { nc } = await as('resources')
  const streams = (await nc.jetstreamManager()).streams
  await streams.add({ name: 'RUNS', subjects: ['queue.*'] })
  nats.kill()
  await nats.restart()
  const again = await as('resources')
  t.equal((await (await again.nc.jetstreamManager()).streams.info('RUNS')).config.name, 'RUNS')
})

t.test('in production it restarts within a second at the same port', async t => {
  const data = t.testdir()
  const lines: string[] = []
  const kept = await startNatsProcess({
    server: await findNatsServer(),
    data,
    max_file_store: 1024 ** 2,
    log: line => lines.push(line),
  })
  t.teardown(() => kept.stop())
  const before = kept.pid()
  kept.kill()
  const since = Date.now()
  while ((kept.pid() === null || kept.pid() === before) && Date.now() - since < 5_000) await sleep(10)
  const url = new URL(kept.urlOf('edge'))
  const nc = await connect({
    servers: url.host,
    user: 'edge',
    pass: decodeURIComponent(url.password),
    waitOnFirstConnect: true,
    reconnectTimeWait: 20,
  })
  t.ok(Date.now() - since < 1_000, `up after ${Date.now() - since} ms`)
  t.match(lines, [/died .* starting it again/])
  t.notOk(readdirSync(data).some(name => name.endsWith('.ports')))
  await nc.close()
})

t.test('a second server on a folder in use is refused', async t => {
  await t.rejects(startNatsProcess({ server: await findNatsServer(), data: nats.data, max_file_store: 1 }), {
    message: /in use by another/,
  })
  t.ok(nats.pid(), 'the first one runs')
})

t.test('it ends when its launcher is killed; the next start ends an orphan', async t => {
  const data = t.testdir()
  const ownerFile = fileURLToPath(new URL('../helpers/nats-owner.js', import.meta.url))
  const owner = spawn(process.execPath, [ownerFile, data], { stdio: ['ignore', 'pipe', 'inherit'] })
  const [part] = await once(owner.stdout!, 'data')
  const pid = Number(`${part}`)
  owner.kill('SIGKILL')
  await allGone([pid])
  t.pass('ended with its owner')

  const orphan = spawn(await findNatsServer(), ['-c', join(data, 'nats.conf')], { stdio: 'ignore' })
  writeFileSync(join(data, 'nats-server.json'), JSON.stringify({ owner: pid, pid: orphan.pid, port: 1 }))
  const next = await startNatsProcess({ server: await findNatsServer(), data, max_file_store: 1024 ** 2 })
  t.notOk(alive(orphan.pid!), 'the orphan has exited')
  await next.stop()
})
