/**
 * A replica of a deployment in a container (`weft graphs` with WEFT_REVISION): a graph worker of the revision's pool. The
 * drivers for images learn from its beats that it is ready. Nothing has to reach the container: it connects to the
 * broker. SIGTERM drains it: it takes runs until the queue of its revision is empty, then hands back what is left. When
 * another replica of the revision goes on, as after a change of their number, it hands back at once. Any other signal ends
 * it at once, with a hand-back.
 */
import { hostname } from 'node:os'
import type { Link } from '../../bus/connect.js'
import type { Lifecycle } from '../../bus/lifecycle.js'
import { openMux } from '../../bus/mux.js'
import { openPoolView } from '../../bus/queue.js'
import type { Config } from '../../schemas/config.js'
import { poolOf, REPLICA_BEAT_MS, type ReplicaBeat, validateReplicaBeat } from '../../schemas/deploy-calls.js'
import { token } from '../../schemas/ids.js'
import { beat as beatOf } from '../../schemas/subjects.js'
import { inheritedEnv } from '../child/process.js'
import { type Graphs, startGraphs } from '../graph/main.js'
import { waitUntilDrained } from './drained.js'

export interface Replica extends Pick<Graphs, 'reports'> {
  /**
   * Resolves when the runs queued for the revision are done, when another replica goes on with them, or after
   * WEFT_DRAIN_MS.
   */
  drain(): Promise<void>
  /** Ends a drain. */
  hurry(): void
}

/** A beat on its way, of a replica that has received SIGTERM a moment earlier, is older than this. */
const STALE_MS = 2_000

export async function startReplica(config: Config, link: Link, life: Lifecycle): Promise<Replica> {
  const { revision: revision_id } = config
  const worker = await startGraphs(config, link, life, {
    deployed: { revision: revision_id, env: definedIn(inheritedEnv()) },
  })
  const beat: ReplicaBeat = { revision_id, replica: config.replica || hostname(), graphs: worker.graphs }
  const body = Buffer.from(JSON.stringify(beat))
  const subject = beatOf(token('pool', config.pool))
  const sendBeat = () => link.nc.publish(subject, body)
  sendBeat()
  const timer = setInterval(sendBeat, REPLICA_BEAT_MS)
  life.push({ name: 'beats', quiet: () => clearInterval(timer) })
  const mux = openMux(link)
  life.push({ name: 'view of the pool', stop: () => mux.close() })
  const view = openPoolView(mux, token('pool', config.pool), 'graphs')
  const hurry = new AbortController()
  return {
    reports: worker.reports,
    drain() {
      link.log.info({ drain_ms: config.drain_ms }, 'draining: this replica is being stopped')
      // One that drains says nothing, so that the last one of a revision stays until its queue is empty.
      clearInterval(timer)
      setTimeout(() => onOther(link, beat, () => hurry.abort()), STALE_MS).unref()
      return waitUntilDrained(
        async () => worker.running() === 0 && (await view.count()) === 0,
        config.drain_ms,
        hurry.signal,
      )
    },
    hurry: () => hurry.abort(),
  }
}

/** Calls back when another replica of the revision says that it is ready. */
function onOther(link: Link, { revision_id, replica }: ReplicaBeat, onBeat: () => void): void {
  const subscription = link.subscribe(beatOf(token('pool', poolOf(revision_id))), ({ data }) => {
    const parsed = validateReplicaBeat(JSON.parse(Buffer.from(data).toString()))
    if (!parsed.success || parsed.data.revision_id !== revision_id || parsed.data.replica === replica) return
    subscription.unsubscribe()
    link.log.info({ other: parsed.data.replica }, 'another replica goes on; handing runs back')
    onBeat()
  })
}

const definedIn = (env: { [name: string]: string | undefined }): { [name: string]: string } =>
  Object.fromEntries(Object.entries(env).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])))
