/** The edge: HTTP in, SSE out. Checks, calls, answers; keeps no state that is worth saving. */
import { setTimeout as sleep } from 'node:timers/promises'
import { openCaller } from '../bus/call.js'
import type { Link } from '../bus/connect.js'
import { openFollower } from '../bus/follow.js'
import type { Lifecycle } from '../bus/lifecycle.js'
import { openLogs } from '../bus/logs.js'
import { openMux } from '../bus/mux.js'
import { openTracer } from '../bus/otlp/traces.js'
import { openTunnels } from '../bus/tunnel.js'
import { readVersions } from '../bus/versions.js'
import type { AppConfig } from '../schemas/application.js'
import type { Config } from '../schemas/config.js'
import { fail } from '../schemas/errors.js'
import { BUILT_IN_APP } from '../schemas/ids.js'
import { isLoopback } from '../schemas/loopback.js'
import { TransientSet } from '../schemas/transient.js'
import { openCheck } from './app/check.js'
import { openHandOver } from './app/hand-over.js'
import { startEdgeAppHost } from './app/host.js'
import { openPages } from './app/pages.js'
import { openSelf } from './app/self.js'
import { callThrough } from './calls.js'
import type { Edge } from './context.js'
import { answerControl } from './control/control.js'
import { endConsent, startConsent } from './control/oauth.js'
import { receiveUpload } from './control/upload.js'
import { openControlKey } from './control-key.js'
import { inDeployment, openDeployed } from './deployed.js'
import { openGuard } from './guard.js'
import { openBudget } from './http/body.js'
import { openClients } from './http/clients.js'
import { openStalls } from './http/outlet.js'
import { openPenalty } from './http/penalty.js'
import { openTraffic } from './http/traffic.js'
import { openKeys } from './keys.js'
import { openLibrary } from './library.js'
import { logs } from './logs.js'
import { exportEdgeMetrics, metrics, openMetrics } from './metrics.js'
import { docs, docsFile, openapi } from './openapi/pages.js'
import { consoleFile, consoleLink, consolePage, openConsole } from './pages/console.js'
import { openViewer } from './pages/frame.js'
import { guide, guideFile, openGuide } from './pages/guide.js'
import { component, componentFile } from './pages/ui.js'
import { a2a } from './protocols/a2a.js'
import { agentCard } from './protocols/a2a-card.js'
import { mcp } from './protocols/mcp.js'
import { openEvents, sendCommand } from './protocols/v2.js'
import { EventSocket } from './protocols/v2-socket.js'
import { notReadyItself } from './readiness.js'
import type { Answerer } from './requests/take.js'
import { type AnswerKind, ROUTES } from './routes.js'
import { listen } from './server.js'
import { cancelRun } from './streams/run-cancel.js'
import { createRun, joinStream, joinWait } from './streams/runs.js'
import { joinThread } from './streams/thread-stream.js'
import { info, ok, ready, root } from './system.js'
import { openWatch } from './watch.js'
import { openWheel } from './wheel.js'

export interface EdgeOptions {
  config: Config
  /** The built-in application; null when only graph workers elsewhere know it. */
  application: AppConfig | null
  link: Link
  life: Lifecycle
}

export interface OpenEdge {
  port: number
  /** Whether balancers shall send requests here. */
  isReady(): boolean
  /** Asks balancers and clients to leave, and resolves after WEFT_EDGE_DRAIN_MS. Everything is served meanwhile. */
  drain(): Promise<void>
  /** Ends a drain. */
  hurry(): void
}

/** Listens and serves until `life` stops. Throws an Error with one sentence when it cannot listen. */
export async function openEdge({ config, application, link, life }: EdgeOptions): Promise<OpenEdge> {
  const appHost = application === null ? null : await startEdgeAppHost({ config, application, log: link.log })
  if (appHost !== null) life.push({ name: 'app host', stop: () => appHost.stop() })
  /** Closes the part at the stop, after the parts that were opened later. */
  const owned = <Part extends { close(): unknown }>(name: string, part: Part): Part => {
    life.push({ name, stop: async () => void (await part.close()) })
    return part
  }
  const mux = owned('replies', openMux(link))
  const caller = owned('calls', openCaller(link))
  const leaving = new AbortController()
  const stopping = new AbortController()
  const hurry = new AbortController()
  const figures = owned('metrics', openMetrics(mux, link.build))
  const keys = owned('keys', openKeys(link, caller))
  const penalties = (plane: string) =>
    openPenalty({ onMany: who => link.log.warn({ ...who, plane }, 'many wrong keys') })
  const auth = application?.auth ?? null
  const studio = config.studio_auth && isLoopback(config.host)
  const check = appHost === null || auth === null ? null : openCheck(appHost.check, { app: BUILT_IN_APP, auth, studio })
  const tunnels = owned('streams to applications', openTunnels(link))
  const deployed = owned(
    'deployments',
    openDeployed({ config, link, caller, tunnels, isClosed: config.require_keys || auth !== null, studio }),
  )
  const controlKey = openControlKey(config, caller)
  const handOver = openHandOver({ config, keys, controlKey, penalty: penalties('run') })
  const pages = openPages(config)
  const tracer = await openTracer(config, 'edge', link.log)
  if (tracer !== null) owned('traces', tracer)
  const edge: Edge = {
    config,
    application,
    link,
    caller,
    tunnels,
    follower: openFollower(link, mux),
    wheel: owned('heartbeats', openWheel(config.heartbeat_ms)),
    watch: owned('watched runs', openWatch(link, caller)),
    stalls: owned(
      'slow clients',
      openStalls(config.stall_ms, () => link.figures.count('weft_edge_stalled_total')),
    ),
    bodies: openBudget(config.bodies_in_flight, config.body_limit),
    clients: openClients(config.streams_per_address),
    controlPenalty: penalties('control'),
    versions: readVersions(),
    tracer,
    traffic: openTraffic(ROUTES),
    metrics: figures,
    logs: openLogs(mux),
    openapi: {},
    deployed,
    self: owned('requests of its own', openSelf()),
    bundles: new Map(),
    console: openConsole(),
    guide: openGuide(),
    viewer: openViewer(),
    library: owned(
      'library',
      openLibrary(link, caller, error => {
        link.log.fatal({ err: error }, 'the cluster does not accept this edge; exiting')
        void life.stop().then(() => process.exit(2))
      }),
    ),
    controlKey,
    keys,
    guard: openGuard({ config, check, deployed, handOver, pages }),
    handOver,
    pages,
    appHost,
    open: new TransientSet(),
    sockets: new Set(),
    leaving: leaving.signal,
    stopping: stopping.signal,
  }
  const exported = await exportEdgeMetrics(edge)
  if (exported !== null) life.push({ name: 'metrics for the collector', stop: () => exported.stop() })
  const answers = answersOf(edge)
  const server = await listen(
    edge,
    (exchange, route, body) => {
      if (route.auth === 'control') return answerControl(edge, exchange, route, body)
      const answer = (body: Uint8Array) =>
        exchange.mount === null || route.groups.length === 0
          ? answers[route.answer](exchange, route, body)
          : inDeployment(deployed, exchange, route, () => answers[route.answer](exchange, route, body))
      if (exchange.isLoopback && exchange.runUser === null) return answer(body)
      const admitted = edge.guard.admit(exchange, route, body)
      if (admitted instanceof Promise) return admitted.then(body => (body === null ? undefined : answer(body)))
      return admitted === null ? undefined : answer(admitted)
    },
    (head, pass, peer) => new EventSocket(edge, head, pass, peer),
  )
  life.push({
    name: 'edge',
    quiet: server.quiet,
    async stop(ms) {
      const began = performance.now()
      const until = began + ms - STOP_RESERVE_MS
      // A balancer without checks of its own has sent requests until the port closed: short answers end by themselves.
      const isDrained = leaving.signal.aborted && !hurry.signal.aborted
      const cutFrom = began + (isDrained ? Math.min(LAST_ANSWERS_MS, ms / 2) : 0)
      const pause = () => new Promise(done => setTimeout(done, 20))
      while (edge.open.size > 0 && performance.now() < cutFrom) await pause()
      stopping.abort()
      // Streams are cut, not ended: a client that sees a network error resumes elsewhere. One may begin on a connection that
      // is open while other answers are awaited.
      const cut = () => {
        for (const exchange of [...edge.open]) if (exchange.streaming) exchange.destroy()
        for (const socket of [...edge.sockets]) socket.restart()
      }
      for (cut(); edge.open.size > 0 && performance.now() < until; cut()) await pause()
      server.close()
    },
  })
  return {
    port: server.port,
    isReady: () => notReadyItself(edge) === null,
    async drain() {
      if (config.edge_drain_ms === 0) return
      link.log.info({ drain_ms: config.edge_drain_ms }, 'draining: balancers are asked to leave')
      leaving.abort()
      await sleep(config.edge_drain_ms, undefined, { signal: hurry.signal }).catch(() => {})
    },
    hurry: () => hurry.abort(),
  }
}

const STOP_RESERVE_MS = 500
/** After a drain, for answers that have begun. */
const LAST_ANSWERS_MS = 3_000

const answersOf = (edge: Edge): Record<AnswerKind, Answerer> => ({
  json: (exchange, route, body) => callThrough(edge, exchange, route, body),
  push: (exchange, route, body) => callThrough(edge, exchange, route, body, { push: exchange.received.push ?? {} }),
  upload: (exchange, route) => receiveUpload(edge, exchange, route),
  create: (exchange, route, body) => createRun(edge, exchange, route, body),
  'join-stream': (exchange, route) => joinStream(edge, exchange, route),
  'join-wait': (exchange, route) => joinWait(edge, exchange, route),
  'join-thread': exchange => joinThread(edge, exchange),
  mcp: (exchange, route, body) => mcp(edge, exchange, route, body),
  a2a: (exchange, _, body) => a2a(edge, exchange, body),
  'agent-card': exchange => agentCard(edge, exchange),
  command: (exchange, route, body) => sendCommand(edge, exchange, route, body),
  events: (exchange, route, body) => openEvents(edge, exchange, route, body),
  socket: exchange => exchange.error(426, 'This is a WebSocket: ask for an upgrade', { Upgrade: 'websocket' }),
  cancel: (exchange, route) => cancelRun(edge, exchange, route),
  root: exchange => root(edge, exchange),
  ok: exchange => ok(edge, exchange),
  ready: exchange => ready(edge, exchange),
  info: exchange => info(edge, exchange),
  metrics: exchange => metrics(edge, exchange),
  logs: exchange => logs(edge, exchange),
  openapi: exchange => openapi(edge, exchange),
  ui: (exchange, route, body) => component(edge, exchange, route, body),
  'ui-file': (exchange, route) => componentFile(edge, exchange, route),
  docs: exchange => docs(edge, exchange),
  'docs-file': exchange => docsFile(edge, exchange),
  guide,
  'guide-file': exchange => guideFile(edge, exchange),
  console: exchange => consolePage(edge, exchange),
  'console-file': exchange => consoleFile(edge, exchange),
  'console-link': exchange => consoleLink(edge, exchange),
  'oauth-start': (exchange, route) => startConsent(edge, exchange, route),
  'oauth-callback': (exchange, route) => endConsent(edge, exchange, route),
  // Control plane only: edge/control/control.ts.
  'oauth-wait': () => {
    throw fail('internal')
  },
})
