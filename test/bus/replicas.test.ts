/** The streams of Weft in a cluster of three NATS servers: copies, a change of the setting, the death of their leader. */
import { isDeepStrictEqual } from 'node:util'
import type { ConsumerInfo, StreamInfo } from 'nats'
import t from 'tap'
import { type Link, openLink } from '../../bus/connect.js'
import { after, follows, openFollower } from '../../bus/follow.js'
import { openLog } from '../../bus/log.js'
import { openMux } from '../../bus/mux.js'
import { openPublisher } from '../../bus/publish.js'
import { wake } from '../../bus/queue.js'
import { onceElected } from '../../bus/replicas.js'
import { openRings } from '../../bus/ring.js'
import { watchStreams } from '../../bus/stream-watch.js'
import { createStream, ensureConsumer, ensureStreams, queueInfo } from '../../bus/streams.js'
import { readConfig } from '../../schemas/config.js'
import { token } from '../../schemas/ids.js'
import { consumerOf } from '../../schemas/subjects.js'
import { startNats } from '../helpers/nats.js'
import { startNatsCluster } from '../helpers/nats-cluster.js'
import { until } from '../helpers/until.js'

t.setTimeout(180_000)
const log = openLog('test', process.env.WEFT_TEST_LOG ?? 'silent')
const pool = token<'pool'>('pool', 'default')
const configOf = (nats_replicas: number, more: object = {}) =>
  readConfig({}, { max_file_store: 1024 ** 3, nats_replicas, ...more })

const nats = await startNatsCluster(3, [['disk:fast'], ['disk:fast'], ['disk:slow']])
const links: Link[] = []
const open = async (role: 'edge' | 'resources' | 'graphs') => {
  const link = await openLink({ url: nats.url(role), role, log })
  links.push(link)
  return link
}
const resources = await open('resources')
t.teardown(async () => {
  for (const link of links) await link.close()
  await nats.stop()
})

const manager = await resources.nc.jetstreamManager({ checkAPI: false })
/** The servers elect now and then: each of these tests changes or kills them. */
const info = (name: 'RUNS' | 'EVENTS') => onceElected(resources, configOf(1), () => manager.streams.info(name))
const copies = ({ cluster }: StreamInfo | ConsumerInfo) => 1 + (cluster?.replicas?.length ?? 0)
const look = async () => ({
  RUNS: copies(await info('RUNS')),
  EVENTS: copies(await info('EVENTS')),
  consumer: copies(await manager.consumers.info('RUNS', consumerOf(pool))),
})

t.test('streams, and the consumers of pools, have as many copies as the setting says, also after a change', async t => {
  for (const count of [1, 3, 3, 1]) {
    await ensureStreams(resources, configOf(count))
    await ensureConsumer(resources, pool)
    // Copies are removed a moment later.
    await until(async () => isDeepStrictEqual(await look(), { RUNS: count, EVENTS: count, consumer: count }))
    t.pass(`${count} copies`)
  }
})

t.test('the copies are on servers with the tags', async t => {
  await ensureStreams(resources, configOf(2, { nats_tags: 'disk:fast' }))
  await until(async () => {
    const { cluster } = await info('RUNS')
    return isDeepStrictEqual([cluster!.leader, ...(cluster!.replicas ?? []).map(({ name }) => name)].sort(), [
      'n0',
      'n1',
    ])
  })
  t.pass('the two with the tag')
})

t.test('what the servers cannot hold is one sentence', async t => {
  await t.rejects(ensureStreams(resources, configOf(3, { nats_tags: 'disk:fast' })), {
    message:
      /^WEFT_NATS_REPLICAS=3 needs 3 NATS servers with the tags disk:fast that form a JetStream cluster, which 127.*: start them, or set it to 1$/,
  })
  const alone = await startNats()
  const link = await openLink({ url: alone.url('resources'), role: 'resources', log })
  t.teardown(async () => {
    await link.close()
    await alone.stop()
  })
  await t.rejects(ensureStreams(link, configOf(3)), {
    message:
      /^WEFT_NATS_REPLICAS=3 needs 3 NATS servers that form a JetStream cluster, which 127.* does not have \(.*\)/,
  })
})

t.test('kill -9 of the server that leads the streams: no event and no wake-up is lost', async t => {
  const config = configOf(3)
  await ensureStreams(resources, config)
  // Without what the tests above have placed elsewhere.
  for (const name of ['RUNS', 'EVENTS'] as const)
    await onceElected(resources, config, () => createStream(resources, config, name))
  await ensureConsumer(resources, pool)
  await Promise.all([nats.inSync('RUNS'), nats.inSync('EVENTS')])
  const [graphs, edge] = [await open('graphs'), await open('edge')]
  const [mux, resourceMux, edgeMux] = [openMux(graphs), openMux(resources), openMux(edge)]
  let created = 0
  const streams = watchStreams({ link: resources, mux: resourceMux, config, onCreated: () => created++ })
  t.teardown(() => {
    streams.stop()
    for (const one of [mux, resourceMux, edgeMux]) one.close()
  })
  const run = token<'run'>('run', 'r')
  const publisher = openPublisher(graphs, mux, openRings(), { run, attempt: 1, resumable: true, budget: 1e9 })
  const leader = await nats.leaderOf('EVENTS')
  const COUNT = 400
  const wakes: Promise<boolean>[] = []
  for (let id = 0; id < COUNT; id++) {
    publisher.send(id, 1, Buffer.from(`id: ${id}\nevent: custom\ndata: {}\n\n`))
    if (id % 20 === 0) wakes.push(wake(resources, resourceMux, pool, { run_id: `r${id}`, thread_id: 't' }, `w${id}`))
    if (id === COUNT / 2) nats.servers[leader]!.kill()
    await new Promise(done => setTimeout(done, 5))
  }
  await publisher.settled(60_000)
  t.equal(publisher.backlog(), 0, 'all events are stored')
  await until(() => streams.problem() === null && links.every(link => link.connected()), 60_000)
  t.equal(created, 0, 'no stream was made anew')
  t.not(await nats.leaderOf('EVENTS'), leader)
  const follower = openFollower(edge, edgeMux)
  /** An event that a new leader stored in front of those that its election refused comes again behind them. */
  const replayInto = (ids: number[], again = false) =>
    follower.replay(run, { pool: token('pool', 'p'), resumable: true, after: ids.at(-1) ?? -1, again }, batch => {
      const last = ids.at(-1) ?? -1
      const next = after(batch, last)
      if (next === null || !follows(last, next.first)) return
      for (let i = 0; i < next.count; i++) ids.push(next.first + i)
    })
  const ids: number[] = []
  let outcome: unknown
  const catchUp = async () => {
    const last = ids.at(-1) ?? -1
    outcome = await replayInto(ids).catch(error => error)
    if (ids.at(-1) === last) outcome = await replayInto(ids, true).catch(error => error)
    return ids.length >= COUNT
  }
  await until(catchUp).catch(() => t.fail('the replay ends early', { last: ids.at(-1), outcome }))
  t.same(
    ids,
    Array.from({ length: COUNT }, (_, i) => i),
  )
  const stored = (await Promise.all(wakes)).filter(Boolean).length
  const { state } = await info('RUNS')
  t.ok(state.messages >= stored, `${state.messages} wake-ups are stored, ${stored} of ${wakes.length} were confirmed`)

  // The disk of another server is lost while the first one comes back.
  await nats.servers[leader]!.restart()
  await Promise.all([nats.inSync('RUNS'), nats.inSync('EVENTS')])
  const other = await nats.leaderOf('EVENTS')
  nats.servers[other]!.kill()
  await until(() => nats.servers[other]!.pid() === null)
  nats.wipe(other)
  await nats.servers[other]!.restart()
  await Promise.all([nats.inSync('RUNS'), nats.inSync('EVENTS')])
  // A probe that an election left in the stream goes with the next one.
  await until(async () => (await info('EVENTS')).state.num_subjects === 1, 30_000)
  const whole: number[] = []
  await replayInto(whole)
  t.equal(whole.length, COUNT, 'the events are complete after a disk was lost')
  t.equal(created, 0)
})

t.test('figures name the server of each copy, and the one that is away', async t => {
  await ensureStreams(resources, configOf(3))
  await nats.inSync('RUNS')
  const runsOf = async () => {
    const { streams } = await onceElected(resources, configOf(1), () => queueInfo(resources))
    const { copies, servers } = streams.find(({ name }) => name === 'RUNS')!
    return {
      copies,
      current: servers
        .filter(one => one.is_current)
        .map(({ server }) => server)
        .sort(),
    }
  }
  await until(async () => isDeepStrictEqual(await runsOf(), { copies: 3, current: ['n0', 'n1', 'n2'] }))
  const away = ((await nats.leaderOf('RUNS')) + 1) % 3
  const others = ['n0', 'n1', 'n2'].filter(name => name !== `n${away}`)
  nats.servers[away]!.kill()
  await until(async () => isDeepStrictEqual(await runsOf().catch(() => null), { copies: 3, current: others }))
  t.pass('the copy of a server that is away is not current')
})
