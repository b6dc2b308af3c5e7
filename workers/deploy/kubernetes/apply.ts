/** Makes the objects of a generation what they should be. Every function may be repeated. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { KubernetesObject, V1Deployment, V1Pod } from '@kubernetes/client-node'
import { throwIfStopped } from '../fault.js'
import { type Cluster, CONFIG_MAP, DEPLOYMENT, DISRUPTION_BUDGET, POD, SCALED_OBJECT, SECRET } from './cluster.js'
import { LABEL, type Manifest } from './render.js'

/** Kinds of objects that the driver makes, in the order of their removal: the record is the last one. */
const KINDS = [SCALED_OBJECT, DEPLOYMENT, DISRUPTION_BUDGET, SECRET, CONFIG_MAP] as const

/** Throws a Fault or Stopped. */
export async function applyManifests(
  cluster: Cluster,
  manifests: readonly Manifest[],
  signal: AbortSignal,
): Promise<void> {
  for (const manifest of manifests) {
    throwIfStopped(signal)
    await cluster.apply(manifest)
  }
}

/** Removes objects with these labels that are not among the manifests: those of other settings, or of an earlier generation. */
export async function pruneManifests(
  cluster: Cluster,
  manifests: readonly Manifest[],
  namespace: string,
  labels: { [name: string]: string },
): Promise<void> {
  const isWanted = (kind: string, name: string) =>
    manifests.some(one => one.kind === kind && one.metadata.name === name)
  for (const kind of KINDS)
    for (const { metadata } of await cluster.list<KubernetesObject>(kind, namespace, labels))
      if (!isWanted(kind[1], metadata!.name!)) await cluster.remove(kind, namespace, metadata!.name!)
}

interface Removal {
  namespace: string
  labels: { [name: string]: string }
  /** Shorter than the grace of the pods themselves; null: they finish their runs. */
  grace_seconds: number | null
  /** Milliseconds until pods that do not end are left to the cluster. */
  patience_ms: number
  look_ms: number
  signal: AbortSignal
}

/**
 * Removes the Deployments with these labels and resolves when their pods have ended; their other objects stay. False when
 * pods are left, because their node does not answer.
 */
export async function endWorkloads(
  cluster: Cluster,
  { namespace, labels, grace_seconds, patience_ms, look_ms, signal }: Removal,
): Promise<boolean> {
  // Whoever scales comes first: it must not scale what ends.
  for (const kind of [SCALED_OBJECT, DEPLOYMENT])
    for (const { metadata } of await cluster.list<KubernetesObject>(kind, namespace, labels))
      if (metadata!.deletionTimestamp === undefined)
        await cluster.remove(kind, namespace, metadata!.name!, { foreground: true })
  const until = performance.now() + patience_ms
  for (;;) {
    throwIfStopped(signal)
    const [deployments, pods] = await Promise.all([
      cluster.list<V1Deployment>(DEPLOYMENT, namespace, labels),
      cluster.list<V1Pod>(POD, namespace, labels),
    ])
    if (deployments.length === 0 && pods.length === 0) return true
    if (performance.now() >= until) return false
    for (const { metadata } of pods) {
      const { name, deletionTimestamp, deletionGracePeriodSeconds: grace = 0 } = metadata!
      const isEnding = deletionTimestamp !== undefined
      // The collector of the cluster ends them; one that is ended before is replaced as long as it has not come.
      if (!isEnding && deployments.length === 0) await cluster.remove(POD, namespace, name!)
      if (isEnding && grace_seconds !== null && grace > grace_seconds)
        await cluster.remove(POD, namespace, name!, { grace_seconds })
    }
    await sleep(look_ms, undefined, { signal }).catch(() => {})
  }
}

export const ofRevision = (revision_id: string) => ({ [LABEL.revision]: revision_id })
