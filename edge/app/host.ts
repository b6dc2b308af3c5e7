/** The app host of this edge: the child process with the `auth` of the built-in application. */
import type { Log } from '../../bus/log.js'
import { type CheckCall, validateCheckAnswer } from '../../schemas/app-host.js'
import type { AppConfig } from '../../schemas/application.js'
import type { CheckAnswer } from '../../schemas/auth.js'
import type { Config } from '../../schemas/config.js'
import { fail } from '../../schemas/errors.js'
import { unpack } from '../../schemas/packed.js'
import { type AppHost, openAppHost } from '../../workers/child/app-host.js'
import { findHostNode, findHostUser } from '../../workers/child/process.js'

export interface EdgeAppHost {
  /**
   * Asks the `auth` of the application about one request; `body` is the new body where a handler changed it. Rejects with
   * `unavailable` while the app host is being started, and with `internal` for a malformed answer.
   */
  check(call: Omit<CheckCall, 'verb'>, body: Uint8Array): Promise<{ answer: CheckAnswer; body: Uint8Array }>
  stop(): Promise<void>
}

interface Options {
  config: Config
  application: AppConfig
  log: Log
}

/** Null when the application brings nothing that an edge runs. Throws an Error with one sentence when it cannot be loaded. */
export async function startEdgeAppHost({ config, application, log }: Options): Promise<EdgeAppHost | null> {
  if (application.auth === null) return null
  if (/\.py(:|$)/.test(application.auth.path))
    throw new Error(
      `${application.path}: auth.path names a Python file; Weft runs an "auth" in JavaScript or TypeScript only, and does not serve the application without it`,
    )
  const user = findHostUser(config.host_user)
  const host = openAppHost({
    app: application.path,
    memory_mb: config.host_memory_mb,
    user,
    node: findHostNode(config.host_node, user).path,
    log,
  })
  const { error } = await host.hello
  if (error !== null) {
    await host.stop()
    throw new Error(`the application cannot be served: ${error}`)
  }
  return { check: (call, body) => check(host, call, body), stop: host.stop }
}

async function check(host: AppHost, call: Omit<CheckCall, 'verb'>, request: Uint8Array) {
  const bytes = await host.call({ verb: 'check', ...call }, request)
  try {
    const { head, rest: body } = unpack(bytes)
    const checked = validateCheckAnswer(head)
    if (checked.success) return { answer: checked.data, body }
  } catch {
    // Code of the application runs there: the bytes may be anything.
  }
  throw fail('internal', 'The authentication of the application gave an answer that cannot be read')
}
