/** Starts a generation of a revision, and settles whether it or the generation before it serves. */
import type { V1Deployment } from '@kubernetes/client-node'
import { Fault, Stopped } from '../fault.js'
import type { Generations } from '../images/generations.js'
import { isScaled } from '../scaling.js'
import { applyManifests, ofRevision, pruneManifests } from './apply.js'
import { DEPLOYMENT } from './cluster.js'
import type { Group, Shared } from './options.js'
import { findDeployment } from './pods.js'
import { LABEL, renderManifests, selectorOf, type Workload, workloadName } from './render.js'

/** Applies the objects of the group. Throws a Fault or Stopped. */
export async function start(
  { cluster, endings }: Pick<Shared, 'cluster' | 'endings'>,
  { workload, count }: Group,
  signal: AbortSignal,
): Promise<void> {
  const { revision } = workload
  const present = await findDeployment(cluster, workload)
  // An earlier attempt is being removed.
  if (present?.metadata?.deletionTimestamp !== undefined)
    await endings.quickly(revision.namespace, selectorOf(revision), signal)
  await applyManifests(cluster, renderManifests(workload), signal)
  if (isScaled(workload.size.range) && (present?.spec?.replicas ?? 1) !== count)
    await cluster.scale(revision.namespace, workloadName(revision), count)
}

/**
 * Starts the group in the place of `previous`, and resolves when its objects are applied. The rest goes on by itself: when
 * the pods are ready, earlier generations are removed; if that fails, the new one is removed and they stay.
 */
export type Replace = (group: Group, previous: Group | null) => Promise<void>

export function openReplace(shared: Shared, generations: Generations<Workload>): Replace {
  const { cluster, log, groups, pods, endings, stopping } = shared

  async function settle(group: Group, previous: Group | null): Promise<void> {
    const { workload } = group
    const { revision_id, generation, namespace } = workload.revision
    try {
      await pods.ready(workload, 0, stopping)
    } catch (error) {
      if (error instanceof Stopped || groups.get(revision_id) !== group) return
      // The cluster did not answer: it is looked at again.
      if (error instanceof Fault && error.retryable) return restore(revision_id, previous)
      // Nothing else serves.
      if (!group.deploying) return log.error({ err: error, revision_id }, 'an active revision is not ready')
      return giveUp(group, previous, error)
    }
    if (groups.get(revision_id) !== group) return
    group.deploying = false
    // Their runs go on with the new pods.
    for (const { metadata } of await cluster.list<V1Deployment>(DEPLOYMENT, namespace, ofRevision(revision_id)))
      if (metadata!.name !== workloadName(workload.revision))
        await endings.gracefully(namespace, {
          ...ofRevision(revision_id),
          [LABEL.generation]: metadata!.labels![LABEL.generation]!,
        })
    await pruneManifests(cluster, renderManifests(workload), namespace, ofRevision(revision_id))
    log.info({ revision_id, generation, replicas: group.count }, 'active revision is ready')
  }

  /** Removes what the generation has made. */
  async function giveUp({ workload }: Group, previous: Group | null, error: unknown): Promise<void> {
    const { revision_id, namespace } = workload.revision
    generations.giveUp(workload.revision, error)
    restore(revision_id, previous)
    await endings.quickly(namespace, selectorOf(workload.revision), stopping)
    await pruneManifests(cluster, [], namespace, selectorOf(workload.revision))
  }

  function restore(revision_id: string, previous: Group | null): void {
    if (previous === null) groups.delete(revision_id)
    else groups.set(revision_id, previous)
  }

  return async (group, previous) => {
    const { revision_id } = group.workload.revision
    groups.set(revision_id, group)
    try {
      await start(shared, group, stopping)
    } catch (error) {
      if (group.deploying && error instanceof Fault && !error.retryable) return giveUp(group, previous, error)
      restore(revision_id, previous)
      throw error
    }
    void settle(group, previous).catch(error =>
      log.warn({ err: error, revision_id }, 'an active revision could not be checked'),
    )
  }
}
