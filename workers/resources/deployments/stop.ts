/** The end of a revision and of a deployment, as clients ask for it (API: control-plane 6.3, 6.5). */

import { fail } from '../../../schemas/errors.js'
import type { Deps } from '../context.js'
import { type DeploymentBody, type Parsed, parseRow, type Rollout, revisionOf, standingOf } from './row.js'
import { deploymentAfter, isOver } from './status.js'
import { promote } from './tasks.js'
import { change, endStep, removeDeployment, wakeFor } from './write.js'

/** Stops a revision that is not over yet: at once when nobody works on it, else whoever does is told. */
export async function interrupt(deps: Deps, id: string, revision_id: string): Promise<Parsed<DeploymentBody>> {
  const after = await change(deps, id, async now => {
    const row = await revisionOf(deps.store, now, revision_id)
    const status = standingOf(row, now.body)
    if (isOver(status)) throw fail('bad_request', `The revision is ${status}: there is nothing to interrupt`)
    if (now.body.queued === row.id)
      return { body: { ...now.body, queued: null }, after: [endStep(row, 'INTERRUPTED')], visible: true }
    return { body: { ...now.body, rollout: stopped(now.body) }, visible: true }
  })
  wakeFor(deps, after)
  await promote(deps, id)
  return after
}

/** The rollout, told to stop; INTERRUPTED already when it had not begun. */
function stopped({ rollout, lease }: DeploymentBody): Rollout | null {
  if (rollout === null || isOver(rollout.status)) return rollout
  const begun = lease !== null || !['CREATING', 'QUEUED', 'AWAITING_BUILD', 'AWAITING_DEPLOY'].includes(rollout.status)
  return begun ? { ...rollout, interrupt: true } : { ...rollout, status: 'INTERRUPTED', since: Date.now() }
}

/** Answers at once: deploy workers tear down what there is, and the deployment is gone after that (7.1). */
export async function deleteDeployment(deps: Deps, id: string, delete_project: boolean): Promise<void> {
  const after = await change(deps, id, async ({ body }) => {
    if (body.status === 'AWAITING_DELETE') return null
    const waiting = body.queued === null ? null : await deps.store.records.get('revision', body.queued)
    const status = deploymentAfter(body.status, 'delete')
    return {
      body: { ...body, status, delete_project, rollout: stopped(body), queued: null },
      after: waiting === null ? [] : [endStep(parseRow(waiting), 'INTERRUPTED')],
      visible: true,
    }
  })
  // No deploy worker ever had it: there is nothing to tear down.
  if (after.body.epoch === 0) await removeDeployment(deps, after)
  else wakeFor(deps, after)
}
