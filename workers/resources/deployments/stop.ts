/** Interrupts of revisions and deletes of deployments (docs/spec/control-plane.md#delete). */
import { fail } from '../../../schemas/errors.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { type DeploymentBody, type Parsed, parseRow, type Rollout, revisionOf, statusOf } from './row.js'
import { deploymentAfter, isOver } from './status.js'
import { promote } from './tasks.js'
import { change, endStep, removeDeployment, wakeFor } from './write.js'

/** Interrupts a revision: at once when no worker holds it, else through the worker. */
export async function interrupt(deps: Deps, id: string, revision_id: string): Promise<Parsed<DeploymentBody>> {
  const after = await change(deps, id, async now => {
    const row = await revisionOf(deps.store, now, revision_id)
    const status = statusOf(row, now.body)
    if (isOver(status)) throw fail('bad_request', `The revision is ${status}: there is nothing to interrupt`)
    if (now.body.queued === row.id)
      return { body: { ...now.body, queued: null }, after: [endStep(row, 'INTERRUPTED')], visible: true }
    return { body: { ...now.body, rollout: stopRollout(now.body) }, visible: true }
  })
  wakeFor(deps, after)
  await promote(deps, id)
  return after
}

/** The rollout with the request to stop; INTERRUPTED at once when it has not started. */
function stopRollout({ rollout, lease }: DeploymentBody): Rollout | null {
  if (rollout === null || isOver(rollout.status)) return rollout
  const hasStarted =
    lease !== null || !['CREATING', 'QUEUED', 'AWAITING_BUILD', 'AWAITING_DEPLOY'].includes(rollout.status)
  return hasStarted ? { ...rollout, interrupt: true } : { ...rollout, status: 'INTERRUPTED', since: clock.now() }
}

/** Returns at once. Deploy workers remove the resources, and then the deployment is removed (7.1). */
export async function deleteDeployment(deps: Deps, id: string, delete_project: boolean): Promise<void> {
  const after = await change(deps, id, async ({ body }) => {
    if (body.status === 'AWAITING_DELETE') return null
    const waiting = body.queued === null ? null : await deps.store.records.get('revision', body.queued)
    const status = deploymentAfter(body.status, 'delete')
    return {
      body: { ...body, status, delete_project, rollout: stopRollout(body), queued: null },
      after: waiting === null ? [] : [endStep(parseRow(waiting), 'INTERRUPTED')],
      visible: true,
    }
  })
  // No deploy worker has ever claimed it: it has no resources.
  if (after.body.epoch === 0) await removeDeployment(deps, after)
  else wakeFor(deps, after)
}
