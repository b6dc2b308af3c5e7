/** Ends the pods of a revision or of one of its generations. Every function may be repeated. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { KubernetesObject, V1Deployment, V1Pod } from '@kubernetes/client-node'
import type { Config } from '../../../schemas/config.js'
import { throwIfStopped } from '../fault.js'
import { type Cluster, DEPLOYMENT, POD, SCALED_OBJECT } from './cluster.js'
import { graceSeconds, stopSeconds } from './plan.js'

type Labels = { [name: string]: string }

/** Beyond its grace a pod ends soon, unless its node does not answer: then it is left to the cluster. */
const PATIENCE_MS = 60_000

/**
 * Both remove the Deployments with these labels and resolve when their pods have ended; their other objects stay. They
 * throw a Fault or Stopped.
 */
export interface Endings {
  /** The pods finish their runs. */
  gracefully(namespace: string, labels: Labels): Promise<void>
  /** The pods hand their runs back, also those that are finishing them. */
  quickly(namespace: string, labels: Labels, signal?: AbortSignal): Promise<void>
}

interface Pace {
  seconds: number
  /** The pods have a longer grace. */
  isShorter: boolean
}

export function openEndings(cluster: Cluster, config: Config, look_ms: number, stopping: AbortSignal): Endings {
  async function end(namespace: string, labels: Labels, { seconds, isShorter }: Pace, signal: AbortSignal) {
    // Whoever scales comes first: it must not scale what ends.
    for (const kind of [SCALED_OBJECT, DEPLOYMENT])
      for (const { metadata } of await cluster.list<KubernetesObject>(kind, namespace, labels))
        if (metadata!.deletionTimestamp === undefined)
          await cluster.remove(kind, namespace, metadata!.name!, { foreground: true })
    const until = performance.now() + seconds * 1_000 + PATIENCE_MS
    for (;;) {
      throwIfStopped(signal)
      const [deployments, pods] = await Promise.all([
        cluster.list<V1Deployment>(DEPLOYMENT, namespace, labels),
        cluster.list<V1Pod>(POD, namespace, labels),
      ])
      if ((deployments.length === 0 && pods.length === 0) || performance.now() >= until) return
      for (const { metadata } of pods) {
        const { name, deletionTimestamp, deletionGracePeriodSeconds: grace = 0 } = metadata!
        const isEnding = deletionTimestamp !== undefined
        // The collector of the cluster ends them; one that is ended before is replaced as long as it has not come.
        if (!isEnding && deployments.length === 0) await cluster.remove(POD, namespace, name!)
        if (isEnding && isShorter && grace > seconds)
          await cluster.remove(POD, namespace, name!, { grace_seconds: seconds })
      }
      await sleep(look_ms, undefined, { signal }).catch(() => {})
    }
  }

  const graceful = { seconds: graceSeconds(config), isShorter: false }
  const quick = { seconds: stopSeconds(config), isShorter: true }
  return {
    gracefully: (namespace, labels) => end(namespace, labels, graceful, stopping),
    quickly: (namespace, labels, signal = new AbortController().signal) => end(namespace, labels, quick, signal),
  }
}
