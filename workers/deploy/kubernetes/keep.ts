/** Keeps active revisions running: adopts what runs, starts what is missing, replaces what has another size. */
import type { V1Deployment } from '@kubernetes/client-node'
import type { ActiveDeployment } from '../../../schemas/deploy-calls.js'
import type { Generations } from '../images/generations.js'
import { within } from '../scaling.js'
import type { Group, Shared } from './options.js'
import { LABEL, type Workload } from './render.js'
import type { Replace } from './settle.js'

/** `deployments`: those of the revision that are not being removed. */
export type Keep = (active: ActiveDeployment, deployments: readonly V1Deployment[]) => Promise<void>

export function openKeep(
  { groups, pods }: Pick<Shared, 'groups' | 'pods'>,
  generations: Generations<Workload>,
  replace: Replace,
): Keep {
  return async (active, deployments) => {
    const { revision_id, generation } = active
    const of = (generation: number) =>
      deployments.find(({ metadata }) => metadata!.labels![LABEL.generation] === String(generation))
    const group = groups.get(revision_id)
    const isTried = generations.hasFailed(active)
    if (group !== undefined && (isTried || group.workload.revision.generation === generation)) {
      const found = of(group.workload.revision.generation)
      const isReplacing = group.deploying && group.workload.revision.epoch === 'active'
      if (isReplacing) return
      if (found !== undefined) {
        group.deploying = false
        group.count = found.spec?.replicas ?? 1
        return pods.follow(group.workload)
      }
    } else if (isTried && deployments.length > 0) return
    const own = of(generation)
    const earlier = deployments.find(one => one !== own)
    const isServed = earlier !== undefined
    const workload = await generations.plan(active, { isThere: own !== undefined, isServed })
    if (workload === null) return
    const { range } = workload.size
    const present = (own ?? earlier)?.spec?.replicas ?? Math.max(1, range.min)
    const next: Group = { workload, count: within(range, present), deploying: isServed }
    await replace(next, isServed ? (group ?? null) : null)
  }
}
