/** The dependencies of every handler of the edge; made once in edge.ts. */
import type { Caller } from '../bus/call.js'
import type { Link } from '../bus/connect.js'
import type { Follower } from '../bus/follow.js'
import type { Logs } from '../bus/logs.js'
import type { Tracer } from '../bus/otlp/traces.js'
import type { Tunnels } from '../bus/tunnel.js'
import type { Versions } from '../bus/versions.js'
import type { AppConfig } from '../schemas/application.js'
import type { Disconnect } from '../schemas/calls.js'
import type { Config } from '../schemas/config.js'
import type { CollectedMetrics } from '../schemas/metrics.js'
import type { RunView } from '../schemas/runs.js'
import { rpc } from '../schemas/subjects.js'
import type { TransientSet } from '../schemas/transient.js'
import type { Check } from './app/check.js'
import type { HandOver } from './app/hand-over.js'
import type { AppRoutes, EdgeAppHost } from './app/host.js'
import type { Pages } from './app/pages.js'
import type { Self } from './app/self.js'
import type { ControlKey } from './control-key.js'
import type { BuiltFolder } from './files.js'
import type { Guard } from './guard.js'
import type { Budget } from './http/body.js'
import type { Clients } from './http/clients.js'
import type { Exchange } from './http/exchange.js'
import type { Stalls } from './http/outlet.js'
import type { Penalty } from './http/penalty.js'
import type { Policy } from './http/policy.js'
import type { Traffic } from './http/traffic.js'
import type { Keys } from './keys.js'
import type { Library } from './library.js'
import type { Watch } from './watch.js'
import type { Wheel } from './wheel.js'

/** The user interface of a graph. */
export interface Bundle {
  graph_id: string
  /** The global variable of the page that its script sets. */
  global: string
  /** File name → its bytes. */
  files: ReadonlyMap<string, Uint8Array>
}

/** A deployment, or another application that graph workers announce under a name. */
export interface Deployment {
  policy: Policy
  /** The part of its address; null: it is no deployment, or the worker is older. */
  slug: string | null
  /** Its `auth`; null: it has none. */
  check: Check | null
  /** Its `http.app`; null: it has none. */
  routes: AppRoutes | null
}

export interface Deployed {
  /** The deployment that the request names. Throws the refusal of the worker: unknown, being deployed. */
  find(exchange: Exchange): Promise<Deployment>
  /** The same without waiting; undefined when a worker has to be asked. */
  known(exchange: Exchange): Deployment | undefined
  close(): void
}

export interface Edge {
  config: Config
  /** The built-in application; null when only graph workers elsewhere know it. */
  application: AppConfig | null
  link: Link
  caller: Caller
  /** To the app hosts of deployments, and back. */
  tunnels: Tunnels
  follower: Follower
  wheel: Wheel
  watch: Watch
  stalls: Stalls
  bodies: Budget
  clients: Clients
  /** Slows down clients that guess keys of the control plane; those of other routes are counted by the guard. */
  controlPenalty: Penalty
  versions: Versions
  /** Null when nothing is traced. */
  tracer: Tracer | null
  /** Requests of each route. */
  traffic: Traffic
  metrics: { collect(edge: Edge): Promise<CollectedMetrics> }
  /** The log lines of graph workers. */
  logs: Logs
  /** The LangGraph of the built-in application. */
  library: Library
  controlKey: ControlKey
  keys: Keys
  guard: Guard
  /** The part of requests that code of applications gets. */
  handOver: HandOver
  /** The rights of pages of applications. */
  pages: Pages
  /** The settings that deployments bring. */
  deployed: Deployed
  /** Requests of this edge to its own API. */
  self: Self
  /** Components of user interfaces, by graph. */
  bundles: Map<string, { bundle: Bundle; until: number }>
  /** The built files of the console, those of the guide, and those of the other pages. */
  console: BuiltFolder
  guide: BuiltFolder
  viewer: BuiltFolder
  /** The OpenAPI document of this application and that of deployments, once somebody has asked for them. */
  openapi: { own?: Promise<string>; deployment?: Promise<string> }
  /** Runs the `auth` of the built-in application; null if it has none. */
  appHost: EdgeAppHost | null
  /** Requests without an answer yet, and open streams. */
  open: TransientSet<Exchange>
  /** Open WebSockets. */
  sockets: Set<{ restart(): void }>
  /** Once aborted, this edge still serves, but clients shall use another one. */
  leaving: AbortSignal
  /** Once aborted, a closed connection says nothing about the client. */
  stopping: AbortSignal
}

const encoder = new TextEncoder()
const REPORT_MS = 30_000

/**
 * Reports that a connection closed whose end may cancel the run: the creator's (`joined` false) or a reader's. The
 * resource worker decides what follows from it.
 */
export async function reportDisconnect(edge: Edge, run: RunView, joined: boolean): Promise<void> {
  const { run_id, joined_at } = run
  const body = encoder.encode(JSON.stringify({ run_id, reader: joined, joined_at } satisfies Disconnect))
  const head = { request_id: `disconnect-${run_id}`, params: { run_id } }
  const options = { until: performance.now() + REPORT_MS, signal: edge.stopping }
  try {
    await edge.caller.askUntilAnswered(rpc('runs', 'disconnect'), head, body, options)
  } catch (error) {
    edge.link.log.warn({ err: error, run_id }, 'a disconnect could not be reported')
  }
}

/** Path of a run, as the SDKs cut ids out of it: nothing behind the run id (docs/spec/runs.md#routes). */
export const runPath = ({ run_id, thread_id, stateless }: RunView): string =>
  stateless ? `/runs/${run_id}` : `/threads/${thread_id}/runs/${run_id}`
