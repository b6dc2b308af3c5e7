/**
 * The program of one replica of a revision: a graph worker for the revision's own pool, a child of the deploy worker.
 * What it needs comes as its first message, so that secrets stand in no argument and in no environment but that of the
 * hosts. It stops when its parent is gone: what it runs is handed back and goes on with the next one.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { openLink } from '../../../bus/connect.js'
import { lifecycle, stopOnSignals } from '../../../bus/lifecycle.js'
import { openLog } from '../../../bus/log.js'
import { openMux } from '../../../bus/mux.js'
import { openPoolView } from '../../../bus/queue.js'
import type { Config } from '../../../schemas/config.js'
import type { Graph } from '../../../schemas/deploy-calls.js'
import { token } from '../../../schemas/ids.js'
import { startGraphs } from '../../graph/main.js'

/** First message to it. */
export interface Start {
  config: Config
  nats_url: string
  revision_id: string
  /** What the application's hosts see. */
  env: { [name: string]: string }
}
/** To it, once another revision serves: finish what is queued here, then leave; hand the rest back at the deadline. */
export interface Drain {
  drain: { deadline_ms: number }
}
/** From it. */
export type Said = { ready: true; graphs: Graph[] } | { failed: string }

/** A run may still be queued here by a worker that has not heard of the cutover yet. */
const QUIET_MS = 10_000
const LOOK_MS = 1_000

const tell = (said: Said) => process.send?.(said)

process.once('message', message => {
  start(message as Start).catch(error => {
    tell({ failed: (error as Error).message })
    // Flushed by then; the parent reads why.
    setTimeout(() => process.exit(2), 50)
  })
})

async function start({ config, nats_url, revision_id, env }: Start): Promise<void> {
  const log = openLog('graphs', config.log_level)
  const life = lifecycle(log, config.stop_ms)
  stopOnSignals(life, log)
  const link = await openLink({ url: nats_url, role: 'graphs', log })
  life.push({ name: 'broker connection', stop: () => link.close() })
  const worker = await startGraphs(config, link, life, { revision: revision_id, env })
  const mux = openMux(link)
  const view = openPoolView(mux, token('pool', config.pool))
  process.on('message', async message => {
    const { deadline_ms } = (message as Drain).drain
    log.info({ deadline_ms }, 'another revision serves; finishing what is left')
    await drained(async () => worker.running() === 0 && (await view.empty()), deadline_ms)
    mux.close()
    await life.stop()
    process.exit(0)
  })
  tell({ ready: true, graphs: worker.graphs })
}

/** Resolves when nothing has been left for a while, or at the deadline. */
async function drained(empty: () => Promise<boolean>, deadline_ms: number): Promise<void> {
  const until = Date.now() + deadline_ms
  let since = Date.now()
  while (Date.now() < Math.min(since + QUIET_MS, until)) {
    if (!(await empty().catch(() => false))) since = Date.now()
    await sleep(LOOK_MS)
  }
}
