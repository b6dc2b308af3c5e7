/** Roles with a cluster of NATS servers: one is killed, and loses its disk, under load. */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { startRoles } from '../helpers/cluster.js'
import { type NatsCluster, startNatsCluster } from '../helpers/nats-cluster.js'
import { readStream } from '../helpers/sse.js'
import { until } from '../helpers/until.js'
import { finalStatuses, load } from './load.js'

t.setTimeout(280_000)
const COUNT = 600

const start = (servers: number) =>
  startRoles<NatsCluster>({
    app: 'test/apps/basic',
    edges: 2,
    graphs: 2,
    broker: () => startNatsCluster(servers),
    env: { WEFT_NATS_REPLICAS: `${servers}` },
  })
const isReady = async (url: string) => (await fetch(`${url}/ready`).catch(() => null))?.status === 200

t.test('three servers: the leader is killed, then another one loses its disk', async t => {
  const roles = await start(3)
  t.teardown(() => roles.stop())
  const { nats, urls } = roles
  const { accepted, refused, stop } = load(roles)
  const streams = urls.map((url, i) =>
    readStream(`${url}/runs/stream`, {
      method: 'POST',
      body: {
        assistant_id: 'chunks',
        input: { count: COUNT, delay_ms: 20 },
        stream_mode: 'custom',
        stream_resumable: i === 0,
      },
    }),
  )
  await sleep(1_500)
  const leader = await nats.leaderOf('RUNS')
  const before = accepted.length
  nats.servers[leader]!.kill()
  const next = await nats.leaderOf('EVENTS')
  t.not(next, leader)
  await until(async () => accepted.length > before + 20 && (await isReady(urls[0]!)), 60_000)
  t.ok(accepted.length > before + 20, 'runs are accepted by the two that are left')
  await nats.servers[leader]!.restart()
  await Promise.all([nats.inSync('RUNS'), nats.inSync('EVENTS')])

  nats.servers[next]!.kill()
  await until(() => nats.servers[next]!.pid() === null)
  nats.wipe(next)
  await sleep(2_000)
  await nats.servers[next]!.restart()
  await Promise.all([nats.inSync('RUNS'), nats.inSync('EVENTS')])
  for (const url of urls) await until(() => isReady(url), 60_000)
  for (const { frames, ended } of await Promise.all(streams)) {
    t.ok(ended)
    t.same(
      frames.map(({ id }) => id),
      Array.from({ length: COUNT + 1 }, (_, id) => id),
    )
  }
  await stop()
  const states = await finalStatuses(urls[0]!, accepted)
  t.same([...new Set(states)], ['success'], `${states.length} runs were accepted`)
  t.same(
    [...new Set(refused)].filter(status => status !== 503),
    [],
    'refused only as unavailable',
  )
  const remade = roles.resources.filter(({ output }) => output().includes('created anew'))
  t.equal(remade.length, 0, 'no stream was made anew')
})

t.test('two servers: while one is away runs are accepted, and end when it is back', async t => {
  const roles = await start(2)
  t.teardown(() => roles.stop())
  const { nats, urls } = roles
  const { accepted, refused, stop } = load(roles)
  await sleep(1_500)
  nats.servers[1]!.kill()
  await sleep(6_000)
  const before = accepted.length
  await until(() => accepted.length > before + 5, 60_000)
  await nats.servers[1]!.restart()
  await until(() => isReady(urls[0]!), 60_000)
  await stop()
  const states = await finalStatuses(urls[0]!, accepted)
  t.same([...new Set(states)], ['success'], `${states.length} runs were accepted`)
  t.same(
    [...new Set(refused)].filter(status => status !== 503),
    [],
  )
})
