/**
 * Runs one or more roles in this process. Each role has its own connection, broker user and log name, so that roles
 * behave the same in one process (roles-main.ts, the child of `weft start`) and in several (`weft edge`, …).
 */
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Link, openLink, type Role, tlsFilesOf } from '../../bus/connect.js'
import { type Lifecycle, lifecycle, stopOnSignals } from '../../bus/lifecycle.js'
import { type Log, openLog } from '../../bus/log.js'
import type { OpenEdge } from '../../edge/main.js'
import { type Config, servedBy } from '../../schemas/config.js'
import { collectLargeGarbage, keepYoungGenerationSmall } from '../../store/garbage.js'
import type { Replica } from '../../workers/deploy/replica.js'
import { prepareDataFolder } from '../data-folder.js'
import { issuerSeedOf } from '../nats/config.js'
import { natsUrlOf } from '../nats/process.js'
import { UserError } from '../user-error.js'
import { findApplication } from './application.js'
import type { GraphReport } from './banner.js'
import { answerProbes } from './probes.js'

export type RoleName = Extract<Role, 'edge' | 'resources' | 'graphs' | 'deployer'>

/** The first message of a parent to a process with roles: its settings, and which processes it has had before. */
export interface Launch {
  config: Config
  /** Names this process among all: its graph worker has it in its name. */
  instance: string
  /** The processes before it, which have ended: their runs need not be waited for. */
  ended: readonly string[]
}

/** The message of a process to its parent when all its roles have started. */
export interface Ready {
  ready: true
  port: number | null
  graphs: GraphReport[]
}

/**
 * The order of starting, the roles of a row in parallel: servers before their callers; no role waits for the deployer.
 * Loading the application in graph hosts takes longest, so it runs while the store is opened.
 */
const START_ORDER: readonly (readonly RoleName[])[] = [['graphs', 'resources'], ['edge'], ['deployer']]
/** The order of stopping, the roles of a row in parallel. */
const STOP_ORDER: readonly (readonly RoleName[])[] = [['edge'], ['graphs', 'deployer'], ['resources']]
/** Parts of the stop deadline: graphs, here or in deployments, have runs to finish or hand back. */
const SHARE: { [role in RoleName]: number } = { edge: 0.2, graphs: 0.6, deployer: 0.6, resources: 0.2 }

/** A stop waits this long for a store that is being opened. */
const OPENING_MS = 10_000

/** The part of the stop deadline that a role has beside the others: all of it when it runs alone. */
export function stopShare(role: RoleName, roles: readonly RoleName[]): number {
  const present = STOP_ORDER.map(row => Math.max(0, ...row.filter(one => roles.includes(one)).map(one => SHARE[one])))
  return SHARE[role] / present.reduce((sum, share) => sum + share, 0)
}

interface RunOptions extends Partial<Pick<Launch, 'instance' | 'ended'>> {
  /** It prints one line of JSON when it serves. */
  json?: boolean
}

export async function runRoles(
  roles: readonly RoleName[],
  config: Config,
  { json = false, instance, ended }: RunOptions = {},
): Promise<void> {
  const log = openLog(roles.length === 1 ? roles[0]! : 'weft', config.log_level, config.log_format)
  collectLargeGarbage()
  if (roles.length === 1 && roles[0] === 'edge') keepYoungGenerationSmall()
  // Small buffers of Node.js share memory: one that lives on would keep the secrets of its neighbours readable. Without
  // sharing a buffer costs 0.2 µs more.
  Buffer.poolSize = 0
  const lifecycles = new Map<RoleName, Lifecycle>()
  const starts = new Map<RoleName, Promise<void>>()
  let stopping = false
  let isStarted = false
  let replica: Replica | null = null
  let edge: OpenEdge | null = null
  const links: Link[] = []
  // Beside other roles an edge does not drain: there is no second server to turn to.
  const drained = () => replica ?? (roles.length === 1 ? edge : null)
  stopOnSignals(
    {
      async stop(why) {
        if (why === 'SIGTERM') await drained()?.drain()
        else drained()?.hurry()
        stopping = true
        await stopAll()
      },
    },
    log,
  )
  const isReady = () =>
    isStarted && !stopping && links.every(link => link.connected()) && (edge === null || edge.isReady())
  if (config.health_port !== 0) await answerProbes(config.health_port, isReady)
  let reports: GraphReport[] = []
  if (roles.some(role => role === 'resources' || role === 'deployer')) prepareDataFolder(config.data)
  async function stopAll(): Promise<void> {
    for (const row of STOP_ORDER)
      await Promise.all(
        row.map(async role => {
          await lifecycles.get(role)?.stop()
          if (role !== 'resources') return
          // A store that is being opened is closed when it is open, so that the next start finds it closed.
          await Promise.race([starts.get(role)?.catch(() => {}), sleep(OPENING_MS, undefined, { ref: false })])
          await lifecycles.get(role)?.stop()
        }),
      )
  }
  async function start(role: RoleName): Promise<void> {
    const life = lifecycle(log, config.stop_ms * stopShare(role, roles))
    lifecycles.set(role, life)
    const own = openLog(role, config.log_level, config.log_format)
    const url = config.nats_url || natsUrlOf(config.data, role)
    const tls = config.nats_url === '' ? undefined : tlsFilesOf(config)
    const sender = role === 'graphs' ? servedBy(config) : undefined
    const link = await openLink({
      url,
      role,
      ...(sender === undefined ? {} : { sender }),
      log: own,
      protocol: config.protocol,
      requireUsers: config.require_keys,
      tls,
    })
    links.push(link)
    life.push({ name: 'broker connection', stop: () => link.close() })
    void link.nc.closed().then(error => {
      if (stopping || life.isStopping()) return
      own.error({ err: error }, 'broker connection closed for good; exiting to be restarted')
      process.exit(1)
    })
    if (role === 'resources') {
      const { startResources } = await import('../../workers/resources/main.js')
      await startResources(withIssuer(config), link, life, ended)
      sayControlKey(config, own)
    } else if (role === 'graphs') {
      const started = await graphs(config, link, life, instance)
      reports = started.reports
      replica = started.replica
    } else if (role === 'deployer') await deployer(config, link, life)
    else {
      const { openEdge } = await import('../../edge/main.js')
      edge = await openEdge({ config, application: await findApplication(config.app), link, life })
    }
  }
  try {
    for (const row of START_ORDER) {
      const present = row.filter(role => roles.includes(role))
      for (const role of present) starts.set(role, start(role))
      await Promise.all(present.map(role => starts.get(role)))
    }
  } catch (error) {
    // A failure during a stop is expected.
    if (stopping) return
    stopping = true
    await stopAll()
    const { name, message } = error as Error
    if (name === 'StoreRefused' || name === 'ApplicationRefused') throw new UserError(message, 2)
    throw error
  }
  if (stopping) return
  isStarted = true
  const port = portOf(edge)
  log.info({ roles, ...(port === null ? {} : { port }) }, 'started')
  process.send?.({ ready: true, port, graphs: reports } satisfies Ready)
  if (!json) return
  const loaded = reports.map(({ graph_id, error }) => ({ graph_id, error }))
  process.stdout.write(`${JSON.stringify({ roles, port, graphs: loaded })}\n`)
}

const portOf = (edge: OpenEdge | null): number | null => edge?.port ?? null

/** The NATS server of this data folder knows the issuer that was made for it. */
const withIssuer = (config: Config): Config =>
  config.nats_url !== '' ? config : { ...config, nats_issuer: issuerSeedOf(resolve(config.data)) }

/** A generated key is in a file: the log names the file, never the key. */
function sayControlKey({ control_key, data }: Config, log: Log): void {
  const file = resolve(data, 'control.key')
  if (control_key === '' && existsSync(file)) log.info({ file }, 'the key of the control plane is in this file')
}

async function deployer(config: Config, link: Link, life: Lifecycle): Promise<void> {
  const { startDeployer } = await import('../../workers/deploy/main.js')
  const graphs_url = config.graphs_nats_url || config.nats_url || natsUrlOf(config.data, 'graphs')
  await startDeployer(config, link, life, graphs_url)
}

/** An application that cannot be loaded fails the next time as well: exit code 2. */
async function graphs(
  config: Config,
  link: Link,
  life: Lifecycle,
  instance?: string,
): Promise<{ reports: GraphReport[]; replica: Replica | null }> {
  const refuse = (error: Error) => {
    throw new UserError(error.message, 2)
  }
  if (config.revision !== '') {
    const { startReplica } = await import('../../workers/deploy/replica.js')
    const replica = await startReplica(config, link, life).catch(refuse)
    return { reports: replica.reports, replica }
  }
  const { startGraphs } = await import('../../workers/graph/main.js')
  const { reports } = await startGraphs(config, link, life, { instance }).catch(refuse)
  return { reports, replica: null }
}
