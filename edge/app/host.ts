/**
 * The app host of this edge: the child process with the `auth` and the `http.app` of the built-in application. Both share
 * a folder of sockets that only they can open: requests for the application go over one, what it passes on and what its
 * code asks for comes back over the other.
 */
import { chownSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Log } from '../../bus/log.js'
import { APP_SOCKET, type AppPart, EDGE_SOCKET } from '../../schemas/app-host.js'
import { type AppConfig, refusalOfAuth } from '../../schemas/application.js'
import type { Config } from '../../schemas/config.js'
import { openAppHost } from '../../workers/child/app-host.js'
import { findHostNode, findHostUser } from '../../workers/child/process.js'
import { type Ask, readAnswer } from './ask.js'

export interface EdgeAppHost {
  /** Asks the `auth` of the application. */
  check: Ask
  /** Null: the application has no `http.app`. */
  http: AppRoutes | null
  stop(): Promise<void>
}

/** The routes of `http.app`. */
export interface AppRoutes {
  /** Whether the application may handle the path. */
  mayHandle(path: string): boolean
  /** The socket of the application, and the one that the edge listens on for it. */
  appSocket: string
  edgeSocket: string
  /** The app host is loaded. */
  isReady(): boolean
}

interface Options {
  config: Config
  application: AppConfig
  log: Log
}

/** Null when the application brings nothing that an edge runs. Throws an Error with one sentence when it cannot be loaded. */
export async function startEdgeAppHost({ config, application, log }: Options): Promise<EdgeAppHost | null> {
  const refusal = refusalOfAuth(application.path, application.auth)
  if (refusal !== null) throw new Error(refusal)
  const hasHttp = application.http.app !== null
  const parts: AppPart[] = [
    ...(application.auth === null ? [] : ['auth' as const]),
    ...(hasHttp ? ['http' as const] : []),
  ]
  if (parts.length === 0) return null
  const user = findHostUser(config.host_user)
  const sockets = hasHttp ? mkdtempSync(join(tmpdir(), 'weft-app-')) : undefined
  if (sockets !== undefined && user !== null) chownSync(sockets, user.uid, user.gid)
  const host = openAppHost({
    app: application.path,
    parts,
    ...(sockets === undefined ? {} : { sockets }),
    memory_mb: config.host_memory_mb,
    user,
    node: findHostNode(config.host_node, user).path,
    log,
  })
  const stop = async () => {
    await host.stop()
    if (sockets !== undefined) rmSync(sockets, { recursive: true, force: true })
  }
  const { error, http: prefixes } = await host.hello
  if (error !== null) {
    await stop()
    throw new Error(`the application cannot be served: ${error}`)
  }
  const http =
    prefixes === null || sockets === undefined
      ? null
      : {
          mayHandle: (path: string) => prefixes.some(prefix => path.startsWith(prefix)),
          appSocket: join(sockets, APP_SOCKET),
          edgeSocket: join(sockets, EDGE_SOCKET),
          isReady: host.isReady,
        }
  return {
    check: async (call, body) => readAnswer(await host.call({ verb: 'check', ...call }, body)),
    http,
    stop,
  }
}
