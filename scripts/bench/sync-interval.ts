/**
 * The cost of `sync_interval` of the NATS servers: stored events and wake-ups, sent as graph and resource workers send them, with
 * the configuration of deploy/nats and three values of the setting in turns.
 *   node dist/scripts/bench/sync-interval.js [rounds] [servers]
 */
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { openLink, type Role } from '../../bus/connect.js'
import { openLog } from '../../bus/log.js'
import { openMux } from '../../bus/mux.js'
import { openPublisher } from '../../bus/publish.js'
import { wake } from '../../bus/queue.js'
import { openRings } from '../../bus/ring.js'
import { ensureStreams } from '../../bus/streams.js'
import { findNatsServer } from '../../cli/nats/server.js'
import { freePort } from '../../cli/ports.js'
import { root } from '../../cli/root.js'
import { spawnTied } from '../../cli/tied-process.js'
import { readConfig } from '../../schemas/config.js'
import { token } from '../../schemas/ids.js'
import { between, sum, usedBy } from './proc.js'

const VALUES = ['2m', '1s', 'always'] as const
const RUNS = 20
const EVENTS = 1_000
const EVENT_BYTES = 500
const WAKE_UPS = 2_000
/** Wake-ups that wait for their confirmation at the same time. */
const CLIENTS = 16
const PASSWORD = 'p'

/** Starts servers with the setting; `stop` ends them and removes their folder. */
async function startServers(count: number, value: string) {
  const data = mkdtempSync(join(tmpdir(), 'weft-sync-'))
  const ports = await Promise.all(Array.from({ length: count * 3 }, freePort))
  const [clients, routes, monitors] = [0, 1, 2].map(part => ports.slice(part * count, (part + 1) * count)) as number[][]
  const server = await findNatsServer()
  const children = clients!.map((port, i) => {
    const folder = join(data, `${i}`)
    mkdirSync(folder)
    for (const file of ['cluster.conf', 'server.conf'])
      writeFileSync(
        join(folder, file),
        readFileSync(join(root, 'deploy/nats', file), 'utf8')
          .replace('0.0.0.0:4222', `127.0.0.1:${port}`)
          .replace('0.0.0.0:6222', `127.0.0.1:${routes![i]}`)
          .replace('"/data"', JSON.stringify(join(folder, 'data')))
          .replace('sync_interval: 1s', `sync_interval: ${value}`)
          .replace('include users.conf', `authorization { user: all, password: ${PASSWORD} }`),
      )
    const env = {
      PATH: process.env.PATH,
      NATS_NAME: `n${i}`,
      NATS_MONITOR: `127.0.0.1:${monitors![i]}`,
      NATS_CLUSTER_PASSWORD: PASSWORD,
      NATS_ROUTES: `[${routes!.map(route => `nats://server:${PASSWORD}@127.0.0.1:${route}`).join(', ')}]`,
    }
    return spawnTied([server, '-c', join(folder, count === 1 ? 'server.conf' : 'cluster.conf')], { env })
  })
  const isUp = (port: number) =>
    fetch(`http://127.0.0.1:${port}/healthz`).then(
      ({ ok }) => ok,
      () => false,
    )
  while (!(await Promise.all(monitors!.map(isUp))).every(Boolean)) await sleep(50)
  return {
    url: clients!.map(port => `nats://all:${PASSWORD}@127.0.0.1:${port}`).join(','),
    pids: children.map(({ pid }) => pid!),
    async stop() {
      for (const child of children) {
        child.stdin!.end()
        await once(child, 'exit')
      }
      rmSync(data, { recursive: true })
    },
  }
}

/** Seconds, seconds of CPU and megabytes written of the servers. */
async function measure(pids: readonly number[], work: () => Promise<void>) {
  const before = usedBy(pids)
  const since = performance.now()
  await work()
  const seconds = (performance.now() - since) / 1_000
  const { cpu, written } = between(before, usedBy(pids))
  return { seconds, cpu: sum(cpu), written: sum(written) / 1024 ** 2 }
}

async function round(count: number, value: string) {
  const { url, pids, stop } = await startServers(count, value)
  const config = readConfig({ WEFT_NATS_REPLICAS: `${count}` })
  const open = (role: Role) => openLink({ url, role, log: openLog('bench', 'silent') })
  const [resources, graphs] = [await open('resources'), await open('graphs')]
  const [calls, mux] = [openMux(resources), openMux(graphs)]
  try {
    await ensureStreams(resources, config)
    const rings = openRings()
    const event = Buffer.alloc(EVENT_BYTES, 'x')
    const events = await measure(pids, async () => {
      const publishers = Array.from({ length: RUNS }, (_, i) =>
        openPublisher(graphs, mux, rings, {
          run: token('run', `run-${i}`),
          attempt: 1,
          resumable: true,
          budget: Number.POSITIVE_INFINITY,
        }),
      )
      for (let id = 0; id < EVENTS; id++) {
        for (const publisher of publishers) publisher.send(id, 1, event)
        while (publishers.some(publisher => publisher.isCongested())) await sleep(1)
      }
      for (const publisher of publishers) {
        await publisher.settled(60_000)
        if (publisher.backlog() > 0) throw new Error('events were not confirmed within a minute')
      }
    })
    let sent = 0
    const wakeUps = await measure(pids, async () => {
      const client = async () => {
        for (let n = sent++; n < WAKE_UPS; n = sent++) {
          const done = await wake(resources, calls, token('pool', 'p'), { run_id: `r${n}`, thread_id: 't' }, `w${n}`)
          if (!done) throw new Error('a wake-up was not confirmed')
        }
      }
      await Promise.all(Array.from({ length: CLIENTS }, client))
    })
    return { events, wakeUps }
  } finally {
    for (const one of [calls, mux]) one.close()
    for (const link of [resources, graphs]) await link.close()
    await stop()
  }
}

const [rounds = 3, servers = 3] = process.argv.slice(2).map(Number)
for (let n = 1; n <= rounds; n++) {
  const found = new Map<string, Awaited<ReturnType<typeof round>>>()
  for (const value of n % 2 === 1 ? VALUES : [...VALUES].reverse()) found.set(value, await round(servers, value))
  for (const kind of ['events', 'wakeUps'] as const)
    for (const value of VALUES) {
      const [one, base] = [found.get(value)![kind], found.get('2m')![kind]]
      const figures = (['seconds', 'cpu', 'written'] as const).map(
        name => `${name} ${one[name].toFixed(2)} (× ${(one[name] / base[name]).toFixed(2)})`,
      )
      process.stdout.write(`round ${n}, ${kind}, sync_interval ${value}: ${figures.join(', ')}\n`)
    }
}
