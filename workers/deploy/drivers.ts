/** Several drivers as one: each serves the deployments of its sources. */
import type { DeployTask } from '../../schemas/deploy-calls.js'
import type { Source } from '../../schemas/deployments.js'
import type { Driver } from './driver.js'

/** The sources of the drivers must differ. */
export function combine(drivers: readonly Driver[]): Driver {
  const of = (source: Source) => drivers.find(({ sources }) => sources.includes(source))!
  const ofTask = ({ deployment }: DeployTask) => of(deployment.source)
  const scaling = drivers.flatMap(driver => driver.scaling ?? [])
  return {
    sources: drivers.flatMap(({ sources }) => sources),
    problems: task => ofTask(task).problems(task),
    build: (step, onCommit) => ofTask(step.task).build(step, onCommit),
    has: (artefact, task) => ofTask(task).has(artefact, task),
    deploy: (step, artefact) => ofTask(step.task).deploy(step, artefact),
    undo: task => ofTask(task).undo(task),
    async reconcile(active, held) {
      const results = await Promise.allSettled(
        drivers.map(driver =>
          driver.reconcile(
            active.filter(({ source }) => driver.sources.includes(source)),
            held,
          ),
        ),
      )
      // One driver whose engine does not answer stops no other one.
      for (const result of results) if (result.status === 'rejected') throw result.reason
    },
    destroy: task => ofTask(task).destroy(task),
    scaling: {
      replicas(revision_id) {
        for (const one of scaling) {
          const n = one.replicas(revision_id)
          if (n !== null) return n
        }
        return null
      },
      async scale(revision_id, n) {
        await Promise.all(
          scaling.filter(one => one.replicas(revision_id) !== null).map(one => one.scale(revision_id, n)),
        )
      },
    },
    stop: async ms => void (await Promise.all(drivers.map(driver => driver.stop(ms)))),
  }
}
