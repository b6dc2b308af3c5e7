/**
 * Runs one or more roles in this process. Each has its own connection, user and log name, so that splitting a merged
 * process changes nothing. `node roles.js edge resources graphs` is the child of `weft start`.
 */
import { type Link, openLink, type Role } from '../../bus/connect.js'
import { type Lifecycle, lifecycle, stopOnSignals } from '../../bus/lifecycle.js'
import { openLog } from '../../bus/log.js'
import type { Config } from '../../schemas/config.js'
import { natsUrlOf } from '../nats/process.js'
import { Sentence } from '../sentence.js'

export type RoleName = Extract<Role, 'edge' | 'resources' | 'graphs' | 'deployer'>

/** What a role's process tells its parent when everything it runs is started. */
export interface Ready {
  ready: true
  port: number | null
}

/**
 * In the order of starting, those of a row at the same time: who answers comes before who asks, and whom nobody waits
 * for comes last. Graph hosts load the application, which takes longest, while the store is opened.
 */
const STARTED: readonly (readonly RoleName[])[] = [['graphs', 'resources'], ['edge'], ['deployer']]
/** In the order of stopping; those of a row at the same time. */
const STOPPED: readonly (readonly RoleName[])[] = [['edge'], ['graphs', 'deployer'], ['resources']]
/** Parts of the deadline of a stop: graphs, here or in deployments, have runs to finish or hand back. */
const SHARE: { [role in RoleName]: number } = { edge: 0.2, graphs: 0.6, deployer: 0.6, resources: 0.2 }

export async function runRoles(roles: readonly RoleName[], config: Config): Promise<void> {
  const log = openLog(roles.length === 1 ? roles[0]! : 'weft', config.log_level)
  const lives = new Map<RoleName, Lifecycle>()
  let stopping = false
  stopOnSignals(
    {
      push: () => {},
      async stop() {
        stopping = true
        for (const row of STOPPED) await Promise.all(row.map(role => lives.get(role)?.stop()))
      },
    },
    log,
  )
  let port: number | null = null
  async function start(role: RoleName): Promise<void> {
    const life = lifecycle(log, config.stop_ms * SHARE[role])
    lives.set(role, life)
    const own = openLog(role, config.log_level)
    const link = await openLink({ url: config.nats_url || natsUrlOf(config.data, role), role, log: own })
    life.push({ name: 'broker connection', stop: () => link.close() })
    void link.nc.closed().then(error => {
      if (stopping) return
      own.error({ err: error }, 'the broker connection was closed for good; leaving to be started again')
      process.exit(1)
    })
    if (role === 'resources') await (await import('../../workers/resources/main.js')).startResources(config, link, life)
    else if (role === 'graphs') await graphs(config, link, life)
    else if (role === 'deployer') await deployer(config, link, life)
    else port = (await (await import('../../edge/main.js')).startEdge(config, link, life)).port
  }
  try {
    for (const row of STARTED) await Promise.all(row.filter(role => roles.includes(role)).map(start))
  } catch (error) {
    // Stopped while it was starting: what failed then is no news.
    if (stopping) return
    throw error
  }
  if (stopping) return
  log.info({ roles, ...(port === null ? {} : { port }) }, 'started')
  process.send?.({ ready: true, port } satisfies Ready)
}

async function deployer(config: Config, link: Link, life: Lifecycle): Promise<void> {
  const { startDeployer } = await import('../../workers/deploy/main.js')
  const graphs_url = config.graphs_nats_url || config.nats_url || natsUrlOf(config.data, 'graphs')
  await startDeployer(config, link, life, graphs_url)
}

/** An application that cannot be loaded will not load the next time either: exit code 2. */
async function graphs(config: Config, link: Link, life: Lifecycle): Promise<void> {
  const { startGraphs } = await import('../../workers/graph/main.js')
  await startGraphs(config, link, life).catch(error => {
    throw new Sentence((error as Error).message, 2)
  })
}
