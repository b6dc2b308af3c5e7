import type { RecordRow } from '../../../store/rows/records.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { type DeploymentBody, parseRow, type Rollout, taskOf } from './row.js'
import { MAX_WAIT } from './status.js'
import { BATCH, ignoreNotFound, promote } from './tasks.js'
import { change, outcomeSteps, wakeDeployers } from './write.js'

/** Announces all tasks without a lease again; fails revisions that have waited too long for a deploy worker. */
export async function sweepTasks(deps: Deps): Promise<void> {
  const now = clock.now()
  // An error in one deployment must not delay the others.
  for (const row of await deps.store.records.due('deployment', now, BATCH))
    await sweepOne(deps, row, now).catch(error =>
      deps.link.log.warn({ err: error, deployment_id: row.id }, 'a deployment could not be swept'),
    )
}

const isFree = ({ lease }: DeploymentBody, now: number): boolean => lease === null || lease.until <= now

async function sweepOne(deps: Deps, row: RecordRow, now: number): Promise<void> {
  const { body } = parseRow<DeploymentBody>(row)
  const { rollout } = body
  const limit = rollout === null ? undefined : MAX_WAIT[rollout.status]
  if (rollout !== null && limit !== undefined && isFree(body, now) && rollout.since + limit.ms < now) {
    const message = `no deploy worker took it within ${limit.ms / 60_000} minutes: is one running for source ${body.source}?`
    await change(deps, row.id, async ({ body }) => {
      if (body.rollout?.revision_id !== rollout.revision_id || body.rollout.status !== rollout.status) return null
      if (!isFree(body, now)) return null
      const ended: Rollout = { ...body.rollout, status: limit.to, since: now, message }
      return {
        body: { ...body, rollout: ended, lease: null },
        after: await outcomeSteps(deps.store, ended),
        visible: true,
      }
    }).catch(ignoreNotFound)
  }
  await promote(deps, row.id)
  const task = taskOf(body)
  if (task !== null) wakeDeployers(deps, task, row.id, body.latest)
}

/** Removes revisions, secrets and projects of changes that were never made. */
export async function sweepOrphans({ store }: Deps, now = clock.now()): Promise<void> {
  for (const kind of ['revision', 'secrets', 'project'] as const)
    for (const row of await store.records.due(kind, now, BATCH)) {
      const owner = await store.records.get('deployment', kind === 'project' ? row.id : row.parent)
      const body = owner === null ? null : parseRow<DeploymentBody>(owner).body
      const isReferred =
        body !== null && (kind === 'project' || (kind === 'revision' ? body.latest : body.secrets) === row.id)
      await store.apply([
        isReferred
          ? { step: 'records.patch', kind, id: row.id, where: { rev: row.rev }, set: { due_at: null } }
          : { step: 'records.remove', kind, id: row.id, where: { rev: row.rev } },
      ])
    }
}
