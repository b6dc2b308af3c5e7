/**
 * The deploy worker: executes deploy tasks, from the source to running instances
 * (docs/spec/control-plane.md#reconciling).
 */
import { readFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { hostname } from 'node:os'
import { delimiter, dirname, join, resolve } from 'node:path'
import { openCaller } from '../../bus/call.js'
import type { Link } from '../../bus/connect.js'
import { freeBytes, sample } from '../../bus/figures.js'
import type { Lifecycle } from '../../bus/lifecycle.js'
import { answerMetrics } from '../../bus/metrics.js'
import { openMux } from '../../bus/mux.js'
import { exportMetrics } from '../../bus/otlp/metrics.js'
import { openPoolView } from '../../bus/queue.js'
import type { Config } from '../../schemas/config.js'
import type { DeployWakeUp } from '../../schemas/deploy-calls.js'
import { type Pool, token } from '../../schemas/ids.js'
import { DEPLOY_TASKS, event, host, queue, tunnelToPool } from '../../schemas/subjects.js'
import { chooseHostNode } from '../child/node.js'
import { openSandbox } from '../child/open-sandbox.js'
import { findHostUser } from '../child/process.js'
import { parseAllowed } from '../outbound.js'
import { openDeployer } from './deployer.js'
import type { Driver } from './driver.js'
import { combine } from './drivers.js'
import { openBeats } from './images/beats.js'
import type { ImageDriverOptions } from './images/options.js'
import { openRevisionLog, type RevisionLog } from './log.js'
import { openProcessDriver } from './process/driver.js'
import { ownFolder } from './process/owner.js'
import { localSources } from './process/source.js'
import { openScaler } from './scaler.js'
import { openTaskClient } from './task-client.js'

/** `graphs_url`: the broker's address for the graph workers of deployments. */
export async function startDeployer(config: Config, link: Link, life: Lifecycle, graphs_url: string): Promise<void> {
  const { log } = link
  const caller = openCaller(link)
  const folder = join(resolve(config.data), 'deploy')
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const release = await ownFolder(folder)
  life.push({ name: 'folder of deployments', stop: release })
  const user = findHostUser(config.host_user)
  const node = chooseHostNode(config, user, log)
  if (user === null && process.getuid?.() === 0)
    log.warn('builds and graphs of deployments run as root; WEFT_HOST_USER names another user')
  const client = openTaskClient(caller, `${hostname()}:${folder}`, link.build)
  const logs = new Map<string, RevisionLog>()
  const logOf = (ids: { deployment_id: string; revision_id: string }) => {
    const { deployment_id, revision_id } = ids
    const known = logs.get(revision_id)
    if (known !== undefined) return known
    const made = openRevisionLog({ deployment_id, revision_id }, client.log, log)
    logs.set(revision_id, made)
    return made
  }
  const options = { config, user, node: node.path, log }
  const [probe, build] = [await openSandbox(options), await openSandbox({ ...options, installs: true })]
  for (const each of [probe, build]) life.push({ name: 'sandbox', stop: () => each.close() })
  const processes = await openProcessDriver({
    folder,
    config,
    nats_url: graphs_url,
    user,
    sandboxes: probe.sandbox && build.sandbox && { probe: probe.sandbox, build: build.sandbox },
    node,
    ours: node.path === process.execPath ? process.env : withFirst(process.env, dirname(node.path)),
    sources: { local: localSources(config.local_sources), allowed: parseAllowed(config.allow_hosts) },
    versions: versions(),
    log,
    figures: link.figures,
    logOf,
    env: client.env,
    uploads: client.uploads,
    retire: client.retire,
  })
  const images = await openImageDriver({
    config,
    nats_url: graphs_url,
    server: process.env.LANGGRAPH_API_URL || config.public_url,
    link,
    life,
    logOf,
    env: client.env,
    retire: client.retire,
  })
  const driver = images === null ? processes : combine([processes, images])
  const mux = openMux(link)
  const scaler =
    driver.scaling === undefined
      ? null
      : openScaler({
          scaling: driver.scaling,
          rules: { runs_each: config.scale_runs, down_ms: config.scale_down_ms },
          runs: pool => openPoolView(mux, token('pool', pool), 'deployer').count(),
          listen(pool, onMessage) {
            const subscriptions = needsOf(token('pool', pool)).map(subject => link.subscribe(subject, onMessage))
            return () => {
              for (const each of subscriptions) each.unsubscribe()
            }
          },
          log,
        })
  const deployer = openDeployer({
    client,
    driver,
    logOf,
    log,
    figures: link.figures,
    scaler,
    onRefused(error) {
      log.fatal({ err: error }, 'the cluster does not accept this deploy worker; exiting')
      void life.stop().then(() => process.exit(2))
    },
  })
  const subscriptions = [
    link.subscribe(DEPLOY_TASKS, message => deployer.wake(readWakeUp(message.data))),
    link.subscribe(event('deployments', 'changed'), () => deployer.check()),
    link.subscribe(event('resources', 'started'), () => deployer.check()),
  ]
  const forget = link.onReconnect(() => deployer.check())
  link.figures.onRead(async () => [sample('weft_disk_free_bytes', await freeBytes(folder))])
  const self = { role: 'deployer', worker: `${hostname()}.${process.pid}` } as const
  const metrics = answerMetrics(link, self)
  const exported = await exportMetrics(config, link, self)
  if (exported !== null) life.push({ name: 'metrics for the collector', stop: () => exported.stop() })
  life.push({
    name: 'deployer',
    quiet() {
      for (const each of subscriptions) each.unsubscribe()
      forget()
      metrics.close()
      deployer.quiet()
      mux.close()
    },
    async stop(ms) {
      await deployer.stop(ms)
      await Promise.all([...logs.values()].map(each => each.flush()))
      caller.close()
    },
  })
}

/** The driver of WEFT_IMAGE_DRIVER; null without one. Its client library is loaded only then. */
async function openImageDriver({
  link,
  life,
  ...options
}: Omit<ImageDriverOptions, 'beats' | 'log'> & { link: Link; life: Lifecycle }): Promise<Driver | null> {
  const { image_driver } = options.config
  if (image_driver === '') return null
  const beats = openBeats(link)
  life.push({ name: 'beats of replicas', quiet: () => beats.close() })
  const { log, figures } = link
  if (image_driver === 'kubernetes') {
    const [{ openCluster }, { openKubernetesDriver }] = await Promise.all([
      import('./kubernetes/cluster.js'),
      import('./kubernetes/driver.js'),
    ])
    return openKubernetesDriver({ ...options, cluster: await openCluster(options.config), beats, log })
  }
  const [{ openEngine }, { openDockerDriver }] = await Promise.all([
    import('./docker/engine.js'),
    import('./docker/driver.js'),
  ])
  return openDockerDriver({ ...options, engine: await openEngine(options.config), beats, log, figures })
}

/** Messages that need a worker of the pool: wake-ups of runs, calls, streams of HTTP. */
const needsOf = (pool: Pool) => [queue(pool), host(pool, '*'), tunnelToPool(pool)]

function readWakeUp(data: Uint8Array): string | null {
  try {
    return (JSON.parse(Buffer.from(data).toString()) as DeployWakeUp).deployment_id
  } catch {
    return null
  }
}

const withFirst = (env: NodeJS.ProcessEnv, folder: string): NodeJS.ProcessEnv => ({
  ...env,
  PATH: [folder, ...(env.PATH ? [env.PATH] : [])].join(delimiter),
})

function versions(): { weft: string; langgraph: string } {
  // Three folders up from the compiled file.
  const text = readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')
  const { version, dependencies } = JSON.parse(text) as { version: string; dependencies: { [name: string]: string } }
  return { weft: version, langgraph: dependencies['@langchain/langgraph'] ?? '' }
}
