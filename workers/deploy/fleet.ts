/** The rules by which every driver compares what runs on its machines with the active revisions. */
import type { Log } from '../../bus/log.js'
import type { ActiveDeployment } from '../../schemas/deploy-calls.js'
import { Stopped } from './fault.js'

/** Whether a revision is to end: it is not active, and neither this worker nor another one deploys it. */
export function surplus(
  active: readonly ActiveDeployment[],
  held: ReadonlySet<string>,
): (revision_id: string) => boolean {
  const wanted = new Set<string | null>([
    ...held,
    ...active.flatMap(({ revision_id, deploying_revision_id }) => [revision_id, deploying_revision_id]),
  ])
  return revision_id => !wanted.has(revision_id)
}

/** Keeps each active revision running. One that fails stops no other one: the next comparison tries again. */
export async function keepEach(
  active: readonly ActiveDeployment[],
  log: Log,
  keep: (one: ActiveDeployment) => Promise<void>,
): Promise<void> {
  for (const one of active)
    await keep(one).catch(error =>
      log.warn(
        { err: error, revision_id: one.revision_id },
        'an active revision could not be started; trying again later',
      ),
    )
}

interface Ids {
  deployment_id: string
  revision_id: string
}

/** Returns how to begin the drain of a revision. A drain in progress is not begun again, one that has failed is. */
export function openDrains(log: Log): (ids: Ids, drain: () => Promise<void>) => void {
  const draining = new Set<string>()
  return ({ deployment_id, revision_id }, drain) => {
    if (draining.has(revision_id)) return
    draining.add(revision_id)
    log.info({ deployment_id, revision_id }, 'a revision is no longer active; draining it')
    void drain()
      .catch(error => {
        if (!(error instanceof Stopped)) log.warn({ err: error, revision_id }, 'a revision could not be drained')
      })
      .finally(() => draining.delete(revision_id))
  }
}
