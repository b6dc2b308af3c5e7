/**
 * The program of one replica of a revision: a graph worker of the revision's pool and a child of the deploy worker.
 * Its options arrive as its first message, so that secrets are in no argument and in no environment except that of the
 * hosts. It stops when its parent ends: it hands its runs back, and another replica continues them.
 */
import { openLink, tlsFilesOf } from '../../../bus/connect.js'
import { lifecycle, stopOnSignals } from '../../../bus/lifecycle.js'
import { openLog } from '../../../bus/log.js'
import { openMux } from '../../../bus/mux.js'
import { openPoolView } from '../../../bus/queue.js'
import { type Config, servedBy } from '../../../schemas/config.js'
import type { Graph } from '../../../schemas/deploy-calls.js'
import { token } from '../../../schemas/ids.js'
import { startGraphs } from '../../graph/main.js'
import { waitUntilDrained } from '../drained.js'

/** First message from the parent. */
export interface Start {
  config: Config
  nats_url: string
  revision_id: string
  /** The root of its files. */
  tree: string
  /** Environment of the application's hosts. */
  env: { [name: string]: string }
}
/** Message from the parent after the cutover: finish the queued runs, then exit; hand back the rest at the deadline. */
export interface Drain {
  drain: { deadline_ms: number }
}
/** Messages to the parent. */
export type InstanceMessage = { ready: true; graphs: Graph[] } | { failed: string }

const send = (message: InstanceMessage) => process.send?.(message)

process.once('message', message => {
  start(message as Start).catch(error => {
    send({ failed: (error as Error).message })
    // Gives the message time to reach the parent.
    setTimeout(() => process.exit(2), 50)
  })
})

async function start({ config, nats_url, revision_id, tree, env }: Start): Promise<void> {
  const log = openLog('graphs', config.log_level, config.log_format)
  const life = lifecycle(log, config.stop_ms)
  stopOnSignals(life, log)
  const tls = nats_url.startsWith('tls:') ? tlsFilesOf(config) : undefined
  const link = await openLink({ url: nats_url, role: 'graphs', sender: servedBy(config), log, tls })
  life.push({ name: 'broker connection', stop: () => link.close() })
  const worker = await startGraphs(config, link, life, { deployed: { revision: revision_id, env, tree } })
  const mux = openMux(link)
  const view = openPoolView(mux, token('pool', config.pool), 'graphs')
  process.on('message', async message => {
    const { deadline_ms } = (message as Drain).drain
    log.info({ deadline_ms }, 'draining: another revision is active')
    await waitUntilDrained(async () => worker.running() === 0 && (await view.count()) === 0, deadline_ms)
    mux.close()
    await life.stop()
    process.exit(0)
  })
  send({ ready: true, graphs: worker.graphs })
}
