/** Keeps active revisions running: adopts what runs, starts what is missing, replaces what has another size. */
import type { ContainerInfo } from 'dockerode'
import type { ActiveDeployment } from '../../../schemas/deploy-calls.js'
import { Stopped } from '../fault.js'
import type { Generations } from '../images/generations.js'
import { within } from '../scaling.js'
import { LABEL, type ReplicaPlan, replicaName } from './container.js'
import { emptyGroup, type Group } from './group.js'
import type { Shared } from './options.js'
import type { Ready } from './ready.js'
import { complete, endReplicas, isRunning, keepRunning, mainsOf, nameOf, renewSidecars } from './replicas.js'

/** `mains`: the main containers of the revision. */
export type Keep = (active: ActiveDeployment, mains: readonly ContainerInfo[]) => Promise<void>

export function openKeep(shared: Shared, generations: Generations<ReplicaPlan>, ready: Ready): Keep {
  const { engine, config, log, groups, stopping } = shared
  const ending = { signal: 'SIGINT', ms: config.stop_ms } as const

  /** Starts replicas of the new size, then ends the old ones, which hand back their runs. */
  function resize(group: Group, plan: ReplicaPlan, mains: readonly ContainerInfo[]): void {
    const { revision_id } = plan
    const next = emptyGroup(plan, within(plan.size.range, group.count), true)
    groups.set(revision_id, next)
    const old = mains.filter(one => !isOf(plan, one))
    void (async () => {
      try {
        await complete(shared, next, stopping)
        await ready(next, 0, stopping)
      } catch (error) {
        if (error instanceof Stopped) return
        generations.giveUp(plan, error)
        groups.set(revision_id, group)
        return endReplicas(engine, await mainsOf(engine, plan), ending)
      }
      next.deploying = false
      await keepRunning(engine, revision_id)
      log.info({ revision_id, replicas: next.count }, 'revision resized')
      await endReplicas(engine, old, ending)
    })().catch(error => log.warn({ err: error, revision_id }, 'a revision could not be resized'))
  }

  return async (active, mains) => {
    const { deployment_id, revision_id, generation } = active
    const group = groups.get(revision_id)
    if (group !== undefined && (group.deploying || group.plan.generation === generation)) return goOn(group)
    const running = mains.filter(isRunning)
    const earlier = running.filter(one => !isOf(active, one))
    const isServed = group !== undefined || earlier.length > 0
    if (isServed && generations.hasFailed(active)) return
    const plan = await generations.plan(active, { isThere: running.some(one => isOf(active, one)), isServed })
    if (plan === null) return
    if (group !== undefined) return resize(group, plan, mains)
    const count = countOf(plan, running)
    // An earlier worker may have replaced some of them.
    if (earlier.length > 0) {
      const old = { ...plan, generation: Number(earlier[0]!.Labels[LABEL.generation]) }
      return resize(emptyGroup(old, Math.max(earlier.length, count), false), plan, mains)
    }
    const adopted = emptyGroup(plan, within(plan.size.range, count || 1), false)
    groups.set(revision_id, adopted)
    log.info({ deployment_id, revision_id, replicas: running.length }, 'active revision adopted')
    await goOn(adopted)
  }

  async function goOn(group: Group): Promise<void> {
    group.deploying = false
    const { revision_id, spec } = group.plan
    await complete(shared, group, stopping)
    if (spec?.sidecars?.length) await renewSidecars(engine, { [LABEL.revision]: revision_id })
    await keepRunning(engine, revision_id)
  }
}

const isOf = ({ generation }: { generation: number }, { Labels }: ContainerInfo): boolean =>
  Labels[LABEL.generation] === String(generation)

/** The greatest number of these replicas: those below it that are missing are started again. */
function countOf(plan: ReplicaPlan, running: readonly ContainerInfo[]): number {
  const names = new Set(running.map(nameOf))
  let n = plan.size.range.max
  while (n > 0 && !names.has(replicaName(plan, n))) n--
  return n
}
