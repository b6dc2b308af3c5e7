/** The revisions that have objects in the cluster: each has a ConfigMap, which is removed last. */
import type { KubernetesObject } from '@kubernetes/client-node'
import { poolOf } from '../../../schemas/deploy-calls.js'
import { ofRevision, pruneManifests } from './apply.js'
import { CONFIG_MAP } from './cluster.js'
import type { Shared } from './options.js'
import { EPOCH, LABEL, MANAGER } from './render.js'

export interface Recorded {
  deployment_id: string
  revision_id: string
  namespace: string
  epochs: string[]
}

export interface Records {
  /** `labels`: of these only. */
  list(namespace: string, labels?: { [name: string]: string }): Promise<Recorded[]>
  /** Retires the pools of revisions that have no pods any more. What was interrupted is repeated. */
  forget(record: Recorded): Promise<void>
  /** Ends their pods quickly, then forgets them. */
  remove(records: readonly Recorded[]): Promise<void>
}

export function openRecords({ cluster, groups, endings, retire }: Shared): Records {
  /** The pool first, the record last. */
  async function forget({ revision_id, namespace }: Recorded): Promise<void> {
    await retire(poolOf(revision_id))
    await pruneManifests(cluster, [], namespace, ofRevision(revision_id))
    groups.delete(revision_id)
  }

  return {
    async list(namespace, labels = {}) {
      const found = await cluster.list<KubernetesObject>(CONFIG_MAP, namespace, { [LABEL.manager]: MANAGER, ...labels })
      const records = new Map<string, Recorded>()
      for (const { metadata } of found) {
        const { [LABEL.deployment]: deployment_id, [LABEL.revision]: revision_id } = metadata!.labels!
        if (deployment_id === undefined || revision_id === undefined) continue
        const one = records.get(revision_id) ?? { deployment_id, revision_id, namespace, epochs: [] }
        one.epochs.push(metadata!.annotations?.[EPOCH] ?? '')
        records.set(revision_id, one)
      }
      return [...records.values()]
    },
    forget,
    async remove(records) {
      await Promise.all(
        records.map(async record => {
          groups.delete(record.revision_id)
          await endings.quickly(record.namespace, ofRevision(record.revision_id))
          await forget(record)
        }),
      )
    },
  }
}
