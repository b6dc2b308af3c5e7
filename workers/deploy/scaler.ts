/**
 * Scales active revisions by the length of their queues. It reads the queue of each revision that may change its size
 * every 5 s. A revision without replicas is woken by the first message for its pool: a run, or a question that needs its
 * graphs. A missed wake-up costs 5 s. A queue that cannot be read changes nothing.
 */
import type { Log } from '../../bus/log.js'
import type { ActiveDeployment } from '../../schemas/deploy-calls.js'
import type { Driver } from './driver.js'
import { openScale, rangeOf, type Scale, type ScaleRules } from './scaling.js'

const LOOK_MS = 5_000

export interface ScalerOptions {
  scaling: NonNullable<Driver['scaling']>
  rules: ScaleRules
  /** Runs of the pool that are queued or executed. Rejects when the broker does not answer. */
  runs(pool: string): Promise<number>
  /** Calls back for each message that needs a worker of the pool. Returns how to stop that. */
  listen(pool: string, onMessage: () => void): () => void
  log: Log
}

export interface Scaler {
  /** The active revisions; those that are not among them are forgotten. */
  update(active: readonly ActiveDeployment[]): void
  stop(): void
}

interface Scaled {
  deployment: ActiveDeployment
  scale: Scale
  /** Set while the revision has no replica that is ready. */
  unlisten: (() => void) | null
  /** A wake-up that the queue may not show yet: its message is on its way, or it is no run. */
  woken: boolean
}

export function openScaler({ scaling, rules, runs, listen, log }: ScalerOptions): Scaler {
  const scaled = new Map<string, Scaled>()

  function update(active: readonly ActiveDeployment[]): void {
    const known = new Set<string>()
    for (const deployment of active) {
      const { revision_id, generation, resource_spec } = deployment
      const present = scaling.replicas(revision_id)
      const range = rangeOf(resource_spec)
      if (present === null || range.min === range.max) continue
      known.add(revision_id)
      const one = scaled.get(revision_id)
      if (one?.deployment.generation === generation) continue
      one?.unlisten?.()
      const scale = openScale(rules, range, present, performance.now())
      scaled.set(revision_id, { deployment, scale, unlisten: null, woken: false })
      if (present === 0) sleep(scaled.get(revision_id)!)
    }
    for (const [revision_id, one] of scaled) {
      if (known.has(revision_id)) continue
      one.unlisten?.()
      scaled.delete(revision_id)
    }
  }

  function sleep(one: Scaled): void {
    one.unlisten ??= listen(one.deployment.pool, () => {
      if (one.woken) return
      one.woken = true
      look(one)
    })
  }

  const look = (one: Scaled) =>
    void scaleOne(one).catch(error =>
      log.warn({ err: error, revision_id: one.deployment.revision_id }, 'a revision could not be scaled'),
    )

  async function scaleOne(one: Scaled): Promise<void> {
    const { revision_id, deployment_id, pool } = one.deployment
    const queued = await runs(pool).catch(error => {
      log.debug({ err: error, pool }, 'the length of a queue could not be read')
      return null
    })
    const present = scaling.replicas(revision_id)
    if (scaled.get(revision_id) !== one || present === null) return
    if (queued === null && !one.woken) return
    const replicas = one.scale.observe(Math.max(queued ?? 0, one.woken ? 1 : 0), performance.now())
    one.woken = false
    if (replicas === present) return
    log.info({ deployment_id, revision_id, runs: queued, from: present, to: replicas }, 'scaling a revision')
    // Before its last replica stops: a message between the two would wake nobody.
    if (replicas === 0) sleep(one)
    await scaling.scale(revision_id, replicas)
    if (replicas > 0 && scaling.replicas(revision_id) !== 0) {
      one.unlisten?.()
      one.unlisten = null
    }
  }

  const lookAtAll = () => {
    for (const one of scaled.values()) look(one)
  }
  const timer = setInterval(lookAtAll, Math.min(LOOK_MS, rules.down_ms / 2))
  return {
    update,
    stop() {
      clearInterval(timer)
      for (const one of scaled.values()) one.unlisten?.()
      scaled.clear()
    },
  }
}
