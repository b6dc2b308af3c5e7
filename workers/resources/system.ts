/** Health checks (docs/spec/http.md#system). */
import type { Link } from '../../bus/connect.js'
import { decodeJson } from '../../bus/decode.js'
import { bytesHandler, jsonHandler } from '../../bus/serve.js'
import { type AppInfo, type Truncate, validateTruncate } from '../../schemas/calls.js'
import { fail } from '../../schemas/errors.js'
import { BUILT_IN_APP } from '../../schemas/ids.js'
import { validateEdgeHello } from '../../schemas/protocol.js'
import { appOf } from './apps.js'
import type { Deps } from './context.js'
import { clusterMetrics } from './metrics.js'
import { acceptBuild } from './skew.js'
import { truncate } from './truncate.js'

export const system = (deps: Deps) => ({
  truncate: jsonHandler<Truncate>(validateTruncate, async body => {
    await truncate(deps, body)
    return { head: { status: 204 } }
  }),
  metrics: bytesHandler(async () => ({ body: JSON.stringify(await clusterMetrics(deps)) })),
  ...checks(deps),
})

/** An edge says at its start of which version it is; with the question for a deployment it says nothing. */
function acceptEdge(link: Link, bytes: Uint8Array): void {
  const parsed = validateEdgeHello(decodeJson(bytes))
  acceptBuild(link, 'an edge', parsed.success ? parsed.data.weft : undefined)
}

const checks = ({ store, apps, settings, alarms, streams, link }: Deps) => ({
  check: bytesHandler(async () => {
    await store.ping()
    return { body: '{"ok":true}' }
  }),
  /** The libraries that execute the graphs of the application. */
  info: bytesHandler(async (bytes, { head }) => {
    if (bytes.length > 0) acceptEdge(link, bytes)
    const app = appOf(head)
    const served = app === BUILT_IN_APP ? null : await apps.deploymentOf(app)
    // The default pool of an application that is no deployment has its name.
    const pool = served === null ? app : served.pool
    const answer: AppInfo = {
      app,
      slug: served?.slug ?? null,
      pool,
      app_host: served === null ? await settings.get('app_host', app, app) : served.app_host,
      libraries: await apps.librariesOf(app),
      http: pool === null ? null : await settings.get('app_http', app, pool),
    }
    return { body: JSON.stringify(answer) }
  }),
  /** Ready when the store can write, the broker can store wake-ups and events, a graph worker has announced itself and the clock agrees with the broker's. */
  ready: bytesHandler(async (_, { head }) => {
    await store.ping()
    const problem = streams.problem()
    if (problem !== null) throw fail('unavailable', problem)
    if (!(await apps.ready(appOf(head)))) throw fail('unavailable', 'No graph worker has announced itself yet')
    const off = alarms.off()
    if (off !== null)
      throw fail(
        'unavailable',
        `The clock of a resource worker is ${Math.abs(off)} ms ${off > 0 ? 'ahead of' : 'behind'} the broker's: crons and delayed runs do not start there`,
      )
    return { body: '{"ok":true}' }
  }),
})
