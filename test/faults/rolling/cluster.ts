/**
 * A cluster on three machines (network.ts): a NATS server on each, with the configuration that Weft ships, two processes of
 * each role on different machines and a deploy worker. HAProxy, with the configuration that Weft ships, and PostgreSQL are beside them.
 */
import { chmodSync, createWriteStream, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { keepRunning } from '../../../cli/keep-running.js'
import { findNatsServer } from '../../../cli/nats/server.js'
import { root } from '../../../cli/root.js'
import { spawnTied } from '../../../cli/tied-process.js'
import { startPostgresProcess } from '../../../scripts/postgres/process.js'
import { findPostgres } from '../../../scripts/postgres/server.js'
import { type Balancer, startHaproxy } from '../../helpers/balancers.js'
import { launch, type Proc } from '../../helpers/cluster.js'
import { runWeft } from '../../helpers/command.js'
import { until } from '../../helpers/until.js'
import { type Machine, type Network, openNetwork } from './network.js'

type Env = { [name: string]: string }

/** The command of a Weft and its users at the broker. */
export interface Version {
  program: string
  /** Content of users.conf. */
  users: string
}

/** One process that is replaced while clients work. */
export interface Part {
  name: string
  /** `nats`, or a role of Weft. */
  role: string
  /** By one of this version. Rejects with its output when that does not become ready. */
  replace(version: Version): Promise<void>
}

export interface Cluster {
  balancer: Balancer
  /** In the order in which they are replaced. */
  parts: Part[]
  /** Where the logs of all processes are. */
  logs: string
  stop(): Promise<void>
}

const CLIENTS = 4222
const ROUTES = 6222
const PAGES = 8222
const EDGE = 2024
/** A server of NATS passes on what it leads before it ends. */
const NATS_STOP_MS = 30_000
const DATABASE = 'weft'

/** The program with the users that its `weft nats config` prints. */
export async function versionOf(program: string): Promise<Version> {
  const { code, stdout, stderr } = await runWeft(['nats', 'config'], {}, program)
  if (code !== 0) throw new Error(`weft nats config of ${program} ended with code ${code}: ${stderr}`)
  return { program, users: stdout }
}

/** Every process is of this version at first. */
export async function startCluster(logs: string, version: Version): Promise<Cluster> {
  const stops: (() => unknown)[] = []
  const stop = async () => {
    for (const one of stops.splice(0).reverse()) await one()
  }
  try {
    return await openCluster(openNetwork(3), logs, version, stops, stop)
  } catch (error) {
    await stop()
    throw error
  }
}

async function openCluster(
  { address, machines }: Network,
  logs: string,
  version: Version,
  stops: (() => unknown)[],
  stop: () => Promise<void>,
): Promise<Cluster> {
  const folder = mkdtempSync(join(tmpdir(), 'rolling-'))
  stops.push(() => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }))
  mkdirSync(logs, { recursive: true })
  const secrets = (await runWeft(['nats', 'init', '--pool', 'default', '--json'], {}, version.program)).json() as Env
  const [n1, n2, n3] = machines as [Machine, Machine, Machine]

  const servers: Part[] = []
  for (const [i, machine] of machines.entries())
    servers.push(await startServer(`nats-${i + 1}`, machine, { machines, version, secrets, folder, stops }))
  const database = await startDatabase(address, folder, stops)

  const userOf: { [role: string]: string } = {
    resources: `resources:${secrets.NATS_RESOURCES_PASSWORD}`,
    edge: `edge:${secrets.NATS_EDGE_PASSWORD}`,
    graphs: secrets.NATS_POOL_DEFAULT!,
    deployer: `deployer:${secrets.NATS_DEPLOYER_PASSWORD}`,
  }
  const urlOf = (user = '') => machines.map(one => `nats://${user && `${user}@`}${one.address}:${CLIENTS}`).join()
  const common = { WEFT_HOSTS: '1', LOG_FORMAT: 'json', WEFT_EDGE_DRAIN_MS: '5000' }
  const own: { [role: string]: Env } = {
    resources: {
      DATABASE_URI: database,
      WEFT_NATS_REPLICAS: '3',
      WEFT_NATS_ISSUER: secrets.WEFT_NATS_ISSUER!,
      WEFT_ENCRYPTION_KEY: 'a key for the secrets of this cluster',
    },
    edge: { WEFT_INSECURE: '1', WEFT_TRUSTED_PROXIES: address },
    graphs: { WEFT_APP: join(root, 'test/apps/basic') },
    deployer: { WEFT_GRAPHS_NATS_URL: urlOf() },
  }
  /** `first`: which of the old and the new process is there alone for a moment. */
  async function part(role: string, machine: Machine, n: number, first: 'new' | 'old', isServed = async () => true) {
    const name = `${role}-${n}`
    const flags = role === 'edge' ? ['--port', `${EDGE}`, '--host', machine.address] : []
    const start = async ({ program }: Version) => {
      const env = { ...common, ...own[role], NATS_URL: urlOf(userOf[role]) }
      const args = [role, '--data', join(folder, name), ...flags]
      const proc = await launch(args, env, program, machine.within)
      const log = createWriteStream(join(logs, `${name}-${proc.pid}.log`))
      log.write(proc.output())
      for (const output of [proc.child.stdout!, proc.child.stderr!]) output.pipe(log, { end: false })
      proc.child.once('close', () => log.end())
      return proc
    }
    let now: Proc = await start(version)
    stops.push(() => now.stop())
    const end = async (old: Proc) => {
      const code = await old.stop()
      if (code !== 0) throw new Error(`${name} ended with code ${code}`)
    }
    return {
      name,
      role,
      async replace(version: Version) {
        const old = now
        if (first === 'old') await end(old)
        now = await start(version)
        if (first === 'new') await end(old)
        await until(isServed)
      },
    }
  }
  const both = async () => (await balancer.edges()) === 2
  const roles = [
    await part('resources', n1, 1, 'new'),
    await part('resources', n2, 2, 'new'),
    await part('graphs', n2, 1, 'new'),
    await part('graphs', n3, 2, 'new'),
    // Its folder is for one process.
    await part('deployer', n3, 1, 'old'),
    // The balancer knows their addresses.
    await part('edge', n1, 1, 'old', () => both()),
    await part('edge', n3, 2, 'old', () => both()),
  ]
  const balancer = await startHaproxy(folder, [`${n1.address}:${EDGE}`, `${n3.address}:${EDGE}`], address)
  stops.push(() => balancer.stop())
  return { balancer, parts: [...servers, ...roles], logs, stop }
}

interface Place {
  machines: readonly Machine[]
  version: Version
  secrets: Env
  folder: string
  stops: (() => unknown)[]
}

async function startServer(name: string, machine: Machine, place: Place): Promise<Part> {
  const { machines, secrets, folder, stops } = place
  const own = join(folder, name)
  mkdirSync(own)
  const configure = ({ users }: Version) => writeFileSync(join(own, 'users.conf'), users)
  configure(place.version)
  for (const file of ['cluster.conf', 'server.conf']) {
    const text = readFileSync(join(root, 'deploy/nats', file), 'utf8')
    writeFileSync(join(own, file), text.replace('"/data"', JSON.stringify(join(own, 'data'))))
  }
  const routes = machines.map(one => `nats://server:${secrets.NATS_CLUSTER_PASSWORD}@${one.address}:${ROUTES}`)
  const pages = `${machine.address}:${PAGES}`
  const program = await findNatsServer()
  const managed = keepRunning({
    name,
    log: () => {},
    restart: false,
    spawn: () =>
      spawnTied([...machine.within, program, '-c', join(own, 'cluster.conf'), '--log', join(own, 'log')], {
        env: {
          ...process.env,
          ...secrets,
          NATS_NAME: name,
          NATS_MONITOR: pages,
          NATS_ROUTES: `[${routes.join(', ')}]`,
        },
      }),
    ready: async () => void (await until(async () => (await fetch(`http://${pages}/varz`).catch(() => null))?.ok)),
  })
  await managed.start()
  stops.push(() => managed.stop(NATS_STOP_MS))
  return {
    name,
    role: 'nats',
    async replace(version) {
      configure(version)
      await managed.stop(NATS_STOP_MS)
      await managed.start()
      // Its copies of the streams are current.
      await until(async () => (await fetch(`http://${pages}/healthz`).catch(() => null))?.ok)
    },
  }
}

/** A database that the machines reach. */
async function startDatabase(address: string, folder: string, stops: (() => unknown)[]): Promise<string> {
  const way = findPostgres({ own: true })
  if (way.kind === 'url') throw new Error('a server that runs elsewhere is not reachable from here')
  // The server has a user of its own, which reads the file.
  chmodSync(folder, 0o711)
  const rules = join(folder, 'pg_hba.conf')
  writeFileSync(rules, 'host all all samenet trust\n', { mode: 0o644 })
  const settings = { listen_addresses: `127.0.0.1,${address}`, hba_file: rules }
  const server = await startPostgresProcess(way, settings)
  stops.push(() => server.stop())
  await server.create(DATABASE)
  return server.url(DATABASE).replace('127.0.0.1', address)
}
