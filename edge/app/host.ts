/**
 * The app host of this edge: the child process with the `auth` and the `http.app` of the built-in application. Both share
 * a folder of sockets that only they can open: requests for the application go over one, what it passes on and what its
 * code asks for comes back over the other.
 */
import { Agent, type RequestOptions } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import type { Log } from '../../bus/log.js'
import { type AppPart, EDGE_SOCKET } from '../../schemas/app-host.js'
import type { AppConfig, HttpConfig } from '../../schemas/application.js'
import type { Config } from '../../schemas/config.js'
import { usesPython } from '../../schemas/description.js'
import { BUILT_IN_APP } from '../../schemas/ids.js'
import { openAppHost } from '../../workers/child/app-host.js'
import { chooseHostNode } from '../../workers/child/node.js'
import { openSandbox } from '../../workers/child/open-sandbox.js'
import { findHostUser, type HostUser, inheritedEnv } from '../../workers/child/process.js'
import { findPython } from '../../workers/child/python.js'
import { httpSocket, openSocketFolder } from '../../workers/child/socket-folder.js'
import { type Ask, readAnswer } from './ask.js'

export interface EdgeAppHost {
  /** Asks the `auth` of the application. */
  check: Ask
  /** Null: the application has no `http.app`. */
  http: AppRoutes | null
  /** The socket that the edge listens on for what `http.app` passes on, and for calls of its code. */
  edgeSocket: string
  /** Lets the application connect to it. */
  admit(): void
  stop(): Promise<void>
}

/** The routes of `http.app`. */
export interface AppRoutes extends Pick<HttpConfig, 'middleware_order' | 'enable_custom_route_auth'> {
  /** The application that they belong to. */
  application: string
  /** Whether the application may handle the path. */
  mayHandle(path: string): boolean
  /** How a request reaches the application. */
  via: Pick<RequestOptions, 'agent' | 'socketPath' | 'createConnection'>
  /** A connection to the application, for a WebSocket. */
  connect(): Duplex
  /** The app host is loaded, as far as this edge knows. */
  isReady(): boolean
}

/** Whether one of the prefixes is the beginning of the path. */
export const handlerOf = (prefixes: readonly string[]) => (path: string) =>
  prefixes.some(prefix => path.startsWith(prefix))

const agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY })

interface Options {
  config: Config
  application: AppConfig
  log: Log
}

/** Null when the application brings nothing that an edge runs. Throws an Error named ApplicationRefused, with one sentence, when it cannot be loaded. */
export async function startEdgeAppHost({ config, application, log }: Options): Promise<EdgeAppHost | null> {
  const hasHttp = application.http.app !== null
  const parts: AppPart[] = [
    ...(application.auth === null ? [] : ['auth' as const]),
    ...(hasHttp ? ['http' as const] : []),
  ]
  if (parts.length === 0) return null
  const user = findHostUser(config.host_user)
  const python = await pythonOf(application, config, user, log)
  const { path: node } = chooseHostNode(config, user, log, application.path)
  const opened = await openSandbox({ config, user, node, log })
  const sockets = hasHttp ? openSocketFolder(user) : null
  const host = openAppHost({
    app: application.path,
    parts,
    ...(sockets === null ? {} : { sockets: sockets.path }),
    memory_mb: config.host_memory_mb,
    user,
    sandbox: opened.sandbox,
    node,
    python,
    log,
  })
  const stop = async () => {
    await host.stop()
    opened.close()
    sockets?.remove()
  }
  const { error, http: prefixes } = await host.hello
  if (error !== null) {
    await stop()
    throw Object.assign(new Error(`the application cannot be served: ${error}`), { name: 'ApplicationRefused' })
  }
  const http =
    prefixes === null || sockets === null
      ? null
      : {
          ...application.http,
          application: BUILT_IN_APP,
          mayHandle: handlerOf(prefixes),
          via: { socketPath: httpSocket(sockets.path), agent },
          connect: () => connect(httpSocket(sockets.path)),
          isReady: host.isReady,
        }
  return {
    check: async (call, body) => readAnswer(await host.call({ verb: 'check', ...call }, body)),
    http,
    edgeSocket: sockets === null ? '' : join(sockets.path, EDGE_SOCKET),
    admit: () => sockets?.admit(EDGE_SOCKET),
    stop,
  }
}

/** The interpreter of `auth` or `http.app`; null when neither is Python. Throws an Error with one sentence. */
async function pythonOf(
  application: AppConfig,
  { python, fetch_uv }: Config,
  user: HostUser | null,
  log: Log,
): Promise<string | null> {
  const { path, folder, auth, http, python_version, dependencies } = application
  const given = { auth, http, python_version, dependencies }
  if (!usesPython({ graphs: [], given })) return null
  const description = { path, folder, given }
  const onLine = (line: string) => log.info({ python: line }, 'python')
  const options = { description, given: python, env: inheritedEnv(), user, fetchesUv: fetch_uv, log: onLine }
  return (await findPython(options)).file
}
