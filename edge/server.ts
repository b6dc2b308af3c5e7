/**
 * The wrapper around uWebSockets.js. A handler that throws, or that returns without an answer and an abort handler, ends
 * the process, so every request passes through one catch-all here, and then through our router. The library's responses
 * stay in here, in http/exchange.ts and in upgrade.ts.
 */

import type { HttpRequest, HttpResponse, TemplatedApp, us_listen_socket, us_socket } from 'uWebSockets.js'
import { type AddressInfo, createServer } from 'node:net'
import { BUILT_IN_APP } from '../schemas/ids.js'
import { isLoopback } from '../schemas/loopback.js'
import { openInner } from './app/inner.js'
import type { Edge } from './context.js'
import { openClientAddress } from './http/client-address.js'
import { Exchange } from './http/exchange.js'
import { uWS } from './http/library.js'
import { openDeployedPolicy, openPolicy, type Policies } from './http/policy.js'
import { openRefusalLog } from './http/refusal-log.js'
import { openSpareResponse } from './http/spare-response.js'
import { openAdmission } from './requests/admission.js'
import { noteApp, noteSelf, policiesFor } from './requests/from-apps.js'
import { openGate } from './requests/gate.js'
import { type Answerer, openRequests } from './requests/take.js'
import { type OpenSocket, serveSockets } from './upgrade.js'

export interface Server {
  port: number
  /** No new connections. */
  quiet(): void
  /** Closes every connection. */
  close(): void
}

/** Listens, or throws an Error with one sentence. */
export async function listen(edge: Edge, answer: Answerer, openSocket: OpenSocket): Promise<Server> {
  const { config, link } = edge
  const policies = policiesOf(edge)
  const gate = openGate(edge, policies.own)
  const { take, failed } = openRequests(edge, gate, answer)
  const admit = openAdmission(edge, gate, policies.own.cors)
  const refused = openRefusalLog(link.log)

  /** A request is open until its end. */
  function opened(res: HttpResponse, req: HttpRequest, of: Policies): Exchange {
    const exchange = new Exchange(res, req, of, failed)
    edge.open.add(exchange)
    exchange.onOver = () => edge.open.delete(exchange)
    exchange.onRefused = refused
    return exchange
  }

  /** An app whose requests `begin` takes. */
  const appOf = (of: Policies, begin: (exchange: Exchange) => void): TemplatedApp =>
    uWS.App().any('/*', (res, req) => {
      let exchange: Exchange | null = null
      try {
        exchange = opened(res, req, of)
        begin(exchange)
      } catch (error) {
        if (exchange !== null) failed(exchange, error)
        else link.log.error({ err: error }, 'a request could not be read')
      }
    })

  const app = appOf(policies, exchange => take(exchange))
  const spare = await openSpareResponse()
  serveSockets(
    app,
    edge,
    (res, req) => {
      const exchange = opened(res, req, policies)
      try {
        return admit(exchange)
      } catch (error) {
        failed(exchange, error)
        return null
      }
    },
    openSocket,
    spare,
  )

  async function listenForApplication(path: string, app: string): Promise<TemplatedApp> {
    const inner = appOf(policiesFor(app, policies), exchange => {
      noteApp(exchange, app)
      take(exchange, true)
    })
    const listening = await new Promise(done => inner.listen_unix(done, path))
    if (!listening) throw new Error(`the socket ${path} of http.app cannot be listened on`)
    return inner
  }

  const selfApp = appOf({ ...policies, own: { ...policies.own, prefix: '' } }, exchange => {
    noteSelf(exchange)
    take(exchange, true)
  })
  await edge.self.serve(selfApp)

  const { tunnels } = edge
  const inner = openInner({ tunnels, link, routes: gate.custom?.connect ?? null }, listenForApplication)
  if (gate.custom !== null) {
    await inner.listen(edge.appHost!.edgeSocket, BUILT_IN_APP)
    edge.appHost!.admit()
  }

  // A shared listen takes a port whose last process died a moment ago (its connections linger for a minute), but also
  // one of a living server, and then gets half of its connections: so the port is probed first. When the system chooses
  // the port, the probe chooses it: uWebSockets.js shares named ports only, and a restart needs the same one.
  const wanted = await probePort(config.host.replace(/^\[|\]$/g, ''), config.port)
  const socket = await new Promise<us_listen_socket | false>(done => {
    if (wanted === null) done(false)
    else app.listen(wanted.host, wanted.port, done)
  })
  if (socket === false) {
    inner.close()
    selfApp.close()
    spare.close()
    throw new Error(`port ${config.port} of ${config.host} cannot be listened on: is it in use?`)
  }
  const port = uWS.us_socket_local_port(socket as unknown as us_socket)

  return {
    port,
    quiet() {
      if (!gate.quiet) uWS.us_listen_socket_close(socket)
      gate.quiet = true
    },
    close() {
      inner.close()
      selfApp.close()
      spare.close()
      app.close()
    },
  }
}

/** Throws an Error with one sentence when strangers could call a server that authenticates nobody. */
function policiesOf({ application, appHost, config }: Edge): Policies {
  const isClosed = config.require_keys || application?.auth != null
  if (!isLoopback(config.host) && !config.insecure && !isClosed) throw new Error(openBind(config.host))
  const own = openPolicy(config, application?.http ?? null, { isClosed, keepsHeaders: appHost !== null })
  return {
    clientAddress: openClientAddress(config.trusted_proxies),
    own,
    deployed: openDeployedPolicy(config, own, { isClosed, keepsHeaders: true }),
  }
}

const openBind = (host: string): string =>
  `without authentication Weft listens on other than loopback (${host}) only with --insecure: WEFT_REQUIRE_KEYS=1 asks for keys of \`weft keys create\`, or langgraph.json names an "auth"`

/** The port, or one that the system chooses for 0; null when it is not free. */
const probePort = (host: string, port: number): Promise<{ host: string; port: number } | null> =>
  new Promise(done => {
    const probe = createServer()
    probe.once('error', () => done(null))
    probe.listen({ host, port, exclusive: true }, () => {
      const { port } = probe.address() as AddressInfo
      probe.close(() => done({ host, port }))
    })
  })
