/** The graph worker of a pool: hosts, supervisor, and the calls that need graph code. */
import { statSync } from 'node:fs'
import { hostname } from 'node:os'
import { resolve } from 'node:path'
import { openCaller } from '../../bus/call.js'
import type { Link } from '../../bus/connect.js'
import { sample } from '../../bus/figures.js'
import type { Lifecycle } from '../../bus/lifecycle.js'
import { followLog, type Log } from '../../bus/log.js'
import { answerLogs } from '../../bus/logs.js'
import { answerMetrics } from '../../bus/metrics.js'
import { openMux } from '../../bus/mux.js'
import { exportMetrics } from '../../bus/otlp/metrics.js'
import { openTracer } from '../../bus/otlp/traces.js'
import { serve } from '../../bus/serve.js'
import type { Registration } from '../../schemas/announcements.js'
import { type Config, servedBy } from '../../schemas/config.js'
import {
  type AppSource,
  type Description,
  type Language,
  readDescription,
  usesPython,
} from '../../schemas/description.js'
import type { Hello } from '../../schemas/host.js'
import { BUILT_IN_APP, type Pool, token } from '../../schemas/ids.js'
import { languagesOf, programOf, textOf } from '../child/languages.js'
import { chooseHostNode } from '../child/node.js'
import { openSandbox } from '../child/open-sandbox.js'
import { findHostUser, type HostUser, inheritedEnv } from '../child/process.js'
import { findPython } from '../child/python.js'
import { baseInterpreter, wantedVersion } from '../child/python-install.js'
import type { Sandbox } from '../child/sandbox.js'
import { readerFor } from '../child/user-file.js'
import { keepAnnounced } from './announce.js'
import { openAppCalls } from './app-calls.js'
import { watchAppFiles } from './app-files.js'
import { startAppHost } from './app-host.js'
import { reasonOf } from './host-end.js'
import type { HostOptions } from './host-process.js'
import { hostFigures } from './host-reports.js'
import { openLogRing } from './log-ring.js'
import { startPools } from './pools.js'
import { openAppStore, openEncryptor } from './required-parts.js'
import { openSupervisor } from './supervisor.js'
import { openHostSockets } from './way-back.js'

/** A revision of a deployment: its graphs are served from its cutover on, its hosts see these variables alone. */
export interface Deployed {
  revision: string
  env: { [name: string]: string }
  /** The root of its files; absent in a container, which holds nothing else. */
  tree?: string
}

export interface GraphsOptions {
  /** A deployment; absent: the application of the settings. */
  deployed?: Deployed
  /** The name that `weft start` gives: its resource workers know these processes by their ends (resources/runs/ended-holders.ts). */
  instance?: string | undefined
}

export interface Graphs {
  graphs: Registration['graphs']
  /** All graphs of the application, also those that could not be loaded. */
  reports: Hello['graphs']
  /** Runs that this worker executes at the moment. */
  running(): number
}

/**
 * Loads the application in hosts, announces its graphs and takes runs; resolves to the graphs. Throws an Error with
 * one sentence when the application cannot be loaded.
 */
export async function startGraphs(
  config: Config,
  link: Link,
  life: Lifecycle,
  { deployed, instance = `${process.pid}` }: GraphsOptions = {},
): Promise<Graphs> {
  const app = applicationFile(config.app, deployed?.env ?? process.env)
  const sender = servedBy(config)
  const pool = token<'pool'>('pool', sender.pool)
  const mux = openMux(link)
  const caller = openCaller(link)
  const tracer = await openTracer(config, 'graphs', link.log)
  if (tracer !== null) life.push({ name: 'traces', stop: () => tracer.close() })
  const supervisor = openSupervisor({
    config,
    tracer,
    link,
    mux,
    caller,
    pool,
    worker: `${pool}-${hostname()}-${instance}`,
  })
  const loaded_at = Date.now()
  const env = deployed?.env ?? ownEnv(config)
  const user = findHostUser(config.host_user)
  const tree = config.host_sandbox === '' ? undefined : deployed?.tree
  const read = await readerFor(user, read => readDescription({ path: app, env, read }), tree)
  const languages = languagesOf(app, env, read)
  const { host_memory_mb: memory_mb, host_threads: threads } = config
  const { path: node } = chooseHostNode(config, user, link.log, app)
  const opened = await openSandbox({ config, user, node, log: link.log })
  life.push({ name: 'sandbox', stop: () => opened.close() })
  const source = { path: app, env, read: read ?? textOf }
  const sandbox = await forDeployed(opened.sandbox, deployed, source)
  const python = await pythonOf(source, { config, user, sandbox, log: link.log })
  /** How every child with code of the application is started. */
  const child = {
    programOf: (language: Language) => programOf(language, { app, env, memory_mb, node, python, threads, read }),
    app,
    memory_mb,
    user,
    sandbox,
    node,
    python,
    env,
    log: link.log,
    onLine: keepLog({ config, link, life, pool, supervisor }),
  }
  const sockets = await openHostSockets(link, user, link.log)
  life.push({ name: 'requests of graphs', stop: () => sockets.close() })
  const hosts = startPools({
    ...child,
    programOf(language) {
      const program = child.programOf(language)
      return { ...program, env: { ...program.env, WEFT_LOOPBACK: sockets.path } }
    },
    languages,
    count: config.hosts,
    onFrame: supervisor.onFrame,
    onBlocked: supervisor.onBlocked,
    onHostEnd(host, end) {
      link.figures.count('weft_host_ends_total', { pool, reason: reasonOf(end) })
      supervisor.onHostEnd(host, end)
    },
    onChange: supervisor.fill,
  })
  life.push({ name: 'hosts', stop: () => hosts.stop() })
  life.push({ name: 'supervisor', quiet: () => supervisor.quiet(), stop: ms => supervisor.stop(ms) })
  const hello = await hosts.hello
  if (hello.error !== null) throw new Error(hello.error)
  for (const note of hello.notes ?? []) link.log.warn(note)
  for (const graph of hello.graphs)
    if (graph.error !== null)
      link.log.error({ graph_id: graph.graph_id, error: graph.error }, 'a graph could not be loaded')
  const loaded = hello.graphs.filter(graph => graph.error === null)
  // While somebody works on it, the server stays: calls say why there is no graph.
  if (loaded.length === 0 && !config.dev)
    throw new Error(`no graph of ${app} could be loaded: ${hello.graphs.map(graph => graph.error).join('; ')}`)
  const graphs = loaded.map(({ graph_id, description, config = {}, context = {} }) => {
    return { graph_id, description, config, context }
  })
  // That of the built-in application runs beside the edge.
  const appHost = config.app_id === BUILT_IN_APP ? null : await startAppHost({ ...child, link, pool }, hello)
  if (appHost !== null) life.push({ name: 'app host', stop: () => appHost.stop() })
  const encryptor = hello.encryption ? await openEncryptor(child) : null
  if (encryptor !== null) life.push({ name: 'encryption', stop: () => encryptor.stop() })
  const appStore = hello.app_store ? await openAppStore(child) : null
  if (appStore !== null) life.push({ name: 'store of the application', stop: () => appStore.stop() })
  const revision = deployed === undefined ? {} : { revision: deployed.revision }
  const registration: Registration = {
    app: config.app_id,
    weft: link.build,
    ...revision,
    pool,
    graphs,
    libraries: hosts.libraries(),
    auth: hello.auth != null,
    app_host: appHost?.settings ?? null,
    failed: hello.graphs.flatMap(({ graph_id, error }) => (error === null ? [] : [{ graph_id, error }])),
    ttl: hello.ttl ?? null,
    item_ttl: hello.item_ttl ?? null,
    http: hello.http ?? null,
    webhooks: hello.webhooks ?? null,
    item_index: hello.item_index ?? null,
    app_store: appStore !== null,
    app_checkpointer: hello.app_checkpointer ?? null,
    encryption: encryptor?.handlers ?? null,
  }
  // The files of a revision do not change.
  if (deployed === undefined) {
    const files = watchAppFiles({
      app,
      env: process.env,
      user,
      node,
      loaded_at,
      onChange: file => link.log.warn({ file }, 'a file of the application has changed; restart Weft to use it'),
      onError: error => link.log.warn({ err: error }, 'the files of the application are not watched'),
    })
    life.push({ name: 'files of the application', quiet: () => files.stop() })
  }
  const calls = openAppCalls({
    child,
    life,
    supervisor,
    hosts,
    appHost,
    appStore,
    encryptor,
    indexes: hello.item_index != null,
  })
  const served = serve(link, `host.${pool}`, 'graphs', calls.handlers, { isReady: calls.isReady })
  life.push({ name: 'host calls', quiet: () => served.quiet() })
  await reportFigures({ config, link, life, pool, supervisor, hosts })
  supervisor.offer(
    hosts,
    graphs.map(graph => graph.graph_id),
    served.member,
  )
  await keepAnnounced({ caller, link, life, registration })
  supervisor.start()
  const typed = typedGraph({ path: app, env, read: read ?? textOf }, graphs)
  if (typed !== null) {
    const warm = setTimeout(() => void calls.readTypes(typed), WARM_MS)
    life.push({ name: 'types of graphs', quiet: () => clearTimeout(warm) })
  }
  return { graphs, reports: hello.graphs, running: supervisor.running }
}

interface Measured {
  config: Config
  link: Link
  life: Lifecycle
  pool: Pool
  supervisor: ReturnType<typeof openSupervisor>
  hosts: ReturnType<typeof startPools>
}

/** The figures of this graph worker, for resource workers and for the collector. */
async function reportFigures({ config, link, life, pool, supervisor, hosts }: Measured): Promise<void> {
  link.figures.onRead(() => {
    const { jobs, redelivered } = supervisor.jobs()
    return [
      sample('weft_pool_slots', config.slots, { pool }),
      sample('weft_pool_running', supervisor.running(), { pool }),
      sample('weft_pool_jobs_total', jobs, { pool }),
      sample('weft_pool_redeliveries_total', redelivered, { pool }),
      sample('weft_hosts', hosts.all().length, { pool }),
      ...hostFigures(supervisor.hostReports(), pool),
      sample('weft_foreign_frames_total', supervisor.foreignFrames(), { pool }),
      sample('weft_lease_age_seconds', supervisor.leaseAge() / 1_000, { pool }),
    ]
  })
  const worker = nameOf(pool)
  const metrics = answerMetrics(link, { role: 'graphs', worker, hosts: supervisor.hostReports })
  life.push({ name: 'metrics', quiet: () => metrics.close() })
  const exported = await exportMetrics(config, link, { role: 'graphs', worker })
  if (exported !== null) life.push({ name: 'metrics for the collector', stop: () => exported.stop() })
}

/** The name of this worker for operators. */
const nameOf = (pool: string): string => `${hostname()}.${process.pid}.${pool}`

/** Keeps what hosts write, for edges that ask. The worker logs each run: only its own warnings and errors are kept. */
function keepLog({ config, link, life, pool, supervisor }: Omit<Measured, 'hosts'>): HostOptions['onLine'] {
  const ring = openLogRing()
  const own = `graph worker ${process.pid}`
  const unfollow = followLog(link.log, line => {
    if (WARNING.test(line)) ring.add({ stream: 'log', process: own, text: line.trimEnd(), run: null })
  })
  const lines = answerLogs(link, { app: config.app_id, worker: nameOf(pool), find: ring.find })
  life.push({ name: 'lines of the log', quiet: () => lines.close(), stop: unfollow })
  return (host, { stream, slot, text }) =>
    ring.add({ stream, process: `graph host ${host.pid}`, text, run: supervisor.runOf(host, slot) })
}
const WARNING = /^\{"level":(?:[4-9]\d|\d{3})/

/** After the start, which needs the cores. */
const WARM_MS = 1_000

/** A graph whose schemas come from types of TypeScript; null when there is none. */
function typedGraph(source: AppSource, loaded: readonly { graph_id: string }[]): string | null {
  const found = describeIn(source)?.graphs.find(({ file }) => /\.[cm]?tsx?$/.test(file ?? ''))
  return loaded.find(({ graph_id }) => graph_id === found?.graph_id)?.graph_id ?? null
}

/** The interpreter; null without code in Python. Throws one sentence when there is no Python for it. */
async function pythonOf(source: AppSource, { config, user, sandbox, log }: PythonOptions) {
  const description = describeIn(source)
  if (description === null || !usesPython(description)) return null
  const { python: given, fetch_uv: fetchesUv } = config
  const onLine = (line: string) => log.info({ python: line }, 'python')
  return (await findPython({ description, given, env: process.env, user, sandbox, fetchesUv, log: onLine })).file
}

interface PythonOptions {
  config: Config
  user: HostUser | null
  sandbox: Sandbox | null
  log: Log
}

/** The sandbox of a revision, whose Python is the one that builds take. */
async function forDeployed(sandbox: Sandbox | null, deployed: Deployed | undefined, source: AppSource) {
  if (sandbox === null || deployed?.tree === undefined) return sandbox
  const description = describeIn(source)
  const python =
    description !== null && usesPython(description) ? (await baseInterpreter(wantedVersion(description))).program : null
  return { ...sandbox, deployed: { tree: deployed.tree, python } }
}

/** Null for a file that cannot be read: hosts report the reason. */
function describeIn(source: AppSource): Description | null {
  try {
    return readDescription(source)
  } catch {
    return null
  }
}

/** The variables of hosts that serve no deployment. */
const ownEnv = ({ public_url }: Config) => ({
  ...(public_url === '' ? {} : { LANGGRAPH_API_URL: public_url }),
  ...inheritedEnv(),
})

/** The langgraph.json at `path`, which names the file or its folder. LANGSERVE_GRAPHS makes the file optional. */
export function applicationFile(path: string, env: { [name: string]: string | undefined }): string {
  const full = resolve(path)
  const found = statSync(full, { throwIfNoEntry: false })
  if (found?.isDirectory()) return applicationFile(`${full}/langgraph.json`, env)
  if (found === undefined && !env.LANGSERVE_GRAPHS)
    throw new Error(`there is no application at ${full}; expected a langgraph.json or the folder that holds one`)
  return full
}
