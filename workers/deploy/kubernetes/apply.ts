/** Makes the objects of a generation what they should be. Every function may be repeated. */
import type { KubernetesObject } from '@kubernetes/client-node'
import { throwIfStopped } from '../fault.js'
import { type Cluster, CONFIG_MAP, DEPLOYMENT, DISRUPTION_BUDGET, SCALED_OBJECT, SECRET } from './cluster.js'
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

export const ofRevision = (revision_id: string) => ({ [LABEL.revision]: revision_id })
