/** The graph worker of a pool: hosts, supervisor, and the questions that need graph code. */
import { statSync } from 'node:fs'
import { resolve } from 'node:path'
import { openCaller } from '../../bus/call.js'
import type { Link } from '../../bus/connect.js'
import type { Lifecycle } from '../../bus/lifecycle.js'
import { openMux } from '../../bus/mux.js'
import { bytesHandler, serve } from '../../bus/serve.js'
import type { Registration } from '../../schemas/announcements.js'
import { type Config, SETTINGS } from '../../schemas/config.js'
import { ERRORS, type ErrorCode, fail } from '../../schemas/errors.js'
import { BUILT_IN_APP, token } from '../../schemas/ids.js'
import { event, rpc } from '../../schemas/subjects.js'
import { type Frame, TO_HOST } from '../pipe.js'
import { type GraphHost, inherited } from './host-process.js'
import { startPool } from './pool.js'
import { openSupervisor, type Supervisor } from './supervisor.js'

const CALL_MS = 30_000
const REGISTER_MS = 250

/** A revision of a deployment: its graphs are served from its cutover on, its hosts see these variables alone. */
export interface Deployed {
  revision: string
  env: { [name: string]: string }
}

export interface Graphs {
  graphs: Registration['graphs']
  /** Runs that this worker executes at the moment. */
  running(): number
}

/**
 * Loads the application in hosts, announces its graphs and takes runs; resolves to the graphs. Throws an Error with
 * one sentence when the application cannot be loaded.
 */
export async function startGraphs(config: Config, link: Link, life: Lifecycle, deployed?: Deployed): Promise<Graphs> {
  const app = applicationFile(config.app)
  const pool = poolOf(config)
  const mux = openMux(link)
  const caller = openCaller(link)
  const supervisor = openSupervisor({ config, link, mux, caller, pool, worker: `${pool}-${process.pid}` })
  const hosts = startPool({
    app,
    count: config.hosts,
    memory_mb: config.host_memory_mb,
    env: deployed?.env ?? ownEnv(config),
    log: link.log,
    onFrame: supervisor.onFrame,
    onBlocked: supervisor.onBlocked,
    onLost(host, end) {
      for (const lost of questions.get(host) ?? []) lost()
      supervisor.onLost(host, end)
    },
    onChange: supervisor.fill,
  })
  life.push({ name: 'hosts', stop: () => hosts.stop() })
  life.push({ name: 'supervisor', quiet: () => supervisor.quiet(), stop: ms => supervisor.stop(ms) })
  const hello = await hosts.hello
  if (hello.error !== null) throw new Error(hello.error)
  for (const graph of hello.graphs)
    if (graph.error !== null)
      link.log.error({ graph_id: graph.graph_id, error: graph.error }, 'a graph could not be loaded')
  const graphs = hello.graphs.filter(graph => graph.error === null)
  if (graphs.length === 0)
    throw new Error(`no graph of ${app} could be loaded: ${hello.graphs.map(graph => graph.error).join('; ')}`)
  const shown = graphs.map(({ graph_id, description }) => ({ graph_id, description }))
  const revision = deployed === undefined ? {} : { revision: deployed.revision }
  const register = () =>
    announce(caller, link, { app: config.app_id, ...revision, pool, graphs: shown, ttl: hello.ttl ?? null })
  await register()
  const again = link.nc.subscribe(event('resources', 'started'), { callback: () => void register() })
  life.push({ name: 'hearing resource workers', quiet: () => again.unsubscribe() })
  life.push({ name: 'announcing', quiet: link.onReconnect(() => void register()) })
  const answered = bytesHandler(bytes => question(supervisor, hosts.choose(), bytes))
  const served = serve(link, `host.${pool}`, 'graphs', {
    state: answered,
    history: answered,
    update: answered,
  })
  life.push({ name: 'host calls', quiet: () => served.quiet() })
  supervisor.start(hosts)
  return { graphs: shown, running: supervisor.running }
}

/** The variables of hosts that serve no deployment. */
const ownEnv = ({ public_url }: Config) => ({
  ...(public_url === '' ? {} : { LANGGRAPH_API_URL: public_url }),
  ...inherited(),
})

/** An application of another name has a pool of its own, unless it is told otherwise: it has other graphs. */
function poolOf({ app_id, pool }: Config) {
  const own = app_id !== BUILT_IN_APP && pool === SETTINGS.pool.default
  return token<'pool'>('pool', own ? app_id : pool)
}

/** The langgraph.json that `given` names: itself or in that folder. */
export function applicationFile(given: string): string {
  const path = resolve(given)
  const found = statSync(path, { throwIfNoEntry: false })
  if (found?.isDirectory()) return applicationFile(`${path}/langgraph.json`)
  if (found === undefined)
    throw new Error(`there is no application at ${path}; expected a langgraph.json or the folder that holds one`)
  return path
}

/** Tells the resource workers what runs here, until one has heard it. */
async function announce(caller: ReturnType<typeof openCaller>, link: Link, registration: Registration): Promise<void> {
  const body = Buffer.from(JSON.stringify(registration))
  for (;;) {
    try {
      await caller.ask(rpc('assistants', 'register'), { request_id: 'register' }, body, {
        timeout: 5_000,
        patience: 5_000,
      })
      return
    } catch (error) {
      link.log.warn({ err: error }, 'the graphs could not be announced yet')
      await new Promise(done => setTimeout(done, REGISTER_MS))
    }
  }
}

let calls = 0
/** What to do about the questions that a host holds when it ends. */
const questions = new Map<GraphHost, Set<() => void>>()

/** Passes a question to graph code and its answer back. */
function question(supervisor: Supervisor, host: GraphHost | null, body: Uint8Array) {
  if (host === null) throw fail('unavailable', 'No graph host is up at the moment')
  const id = ++calls
  const { slot, back } = supervisor.lend(host)
  return new Promise<{ body: Uint8Array }>((resolve, reject) => {
    const end = () => {
      clearTimeout(timer)
      supervisor.onCalled.delete(id)
      asked.delete(lost)
      if (asked.size === 0) questions.delete(host)
      back()
    }
    const lost = () => {
      end()
      reject(fail('unavailable', 'The graph host ended before it answered'))
    }
    const asked = questions.get(host) ?? new Set()
    questions.set(host, asked.add(lost))
    const timer = setTimeout(() => {
      end()
      reject(fail('unavailable', 'The graph did not answer in time'))
    }, CALL_MS)
    supervisor.onCalled.set(id, (frame: Frame) => {
      end()
      if (frame.flags === 0) return resolve({ body: frame.body })
      const { code, detail } = JSON.parse(Buffer.from(frame.body).toString()) as { code: string; detail: string }
      reject(fail(code in ERRORS ? (code as ErrorCode) : 'internal', detail))
    })
    host.send({ kind: TO_HOST.call, id, slot, body })
  })
}
