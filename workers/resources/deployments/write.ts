/** Writes of deployments: one compare-and-set per change, the steps before and after it, and its announcements. */
import type { DeployTaskKind, LogStage } from '../../../schemas/deploy-calls.js'
import type { RevisionStatus } from '../../../schemas/deployments.js'
import { fail } from '../../../schemas/errors.js'
import { token } from '../../../schemas/ids.js'
import { deployTask, event } from '../../../schemas/subjects.js'
import type { Store } from '../../../store/port.js'
import type { Step } from '../../../store/steps.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import {
  type DeploymentBody,
  deploymentOf,
  dueAt,
  keysOfDeployment,
  type Parsed,
  parseRow,
  type RevisionBody,
  type Rollout,
  taskOf,
} from './row.js'
import { removeUpload, uploadsOf } from './upload-rows.js'

export interface Change {
  body: DeploymentBody
  /** Inserted before the deployment refers to them. */
  before?: Step[]
  /** Changes of existing records that follow from it; repeats and losses are harmless. */
  after?: Step[]
  /** Clients see the change: `updated_at` increases. */
  visible: boolean
}

const TRIES = 20

/**
 * Changes the deployment by compare-and-set. `decide` runs again after a lost race; it returns null for no change, and
 * may throw. Resolves to the changed deployment. Throws not_found.
 */
export async function change(
  deps: Deps,
  id: string,
  decide: (now: Parsed<DeploymentBody>) => Promise<Change | null> | Change | null,
): Promise<Parsed<DeploymentBody>> {
  return deps.serialize(`deployment ${id}`, async () => {
    for (let i = 0; i < TRIES; i++) {
      const found = await deploymentOf(deps.store, id)
      const wanted = await decide(found)
      if (wanted === null) return found
      const { body, before = [], after = [], visible } = wanted
      // Strictly increasing, so that it also identifies versions.
      const updated_at = visible ? Math.max(clock.now(), found.updated_at + 1) : found.updated_at
      const set = {
        body: JSON.stringify(body),
        keys: keysOfDeployment(body),
        due_at: dueAt(body, clock.now()),
        updated_at,
      }
      const failed = await deps.store.apply([
        ...before,
        { step: 'records.patch', kind: 'deployment', id: found.id, where: { rev: found.rev }, set },
        ...after,
      ])
      if (failed > before.length) throw new Error(`step ${failed} of a change of deployment ${id} failed`)
      if (failed === -1) {
        announce(deps, found.id)
        return { ...found, body, rev: found.rev + 1, updated_at, due_at: set.due_at }
      }
      await removeInserted(deps.store, before)
    }
    throw fail('unavailable', 'The deployment has too many concurrent changes')
  })
}

/** Removes the records of a change that lost its race: a store without transactions has inserted them. */
export async function removeInserted(store: Store, steps: readonly Step[]): Promise<void> {
  for (const step of steps)
    if (step.step === 'records.insert')
      await store.apply([{ step: 'records.remove', kind: step.row.kind, id: step.row.id, where: {} }])
}

/** Announces a change to all workers; this one drops its cached applications at once. */
export function announce({ apps, link }: Deps, deployment_id: string): void {
  apps.forget()
  link.nc.publish(event('deployments', 'changed'), JSON.stringify({ deployment_id }))
}

/** Wakes deploy workers. The message may be lost: the sweep announces tasks without a lease again. */
export const wakeDeployers = (
  { link }: Deps,
  kind: DeployTaskKind,
  deployment_id: string,
  revision_id: string | null,
): void =>
  link.nc.publish(deployTask(kind, token('deployment', deployment_id)), JSON.stringify({ deployment_id, revision_id }))

/** Marks an inserted record as referred to. */
export const commit = (kind: 'revision' | 'secrets' | 'project', id: string): Step => ({
  step: 'records.patch',
  kind,
  id,
  where: {},
  set: { due_at: null },
})

/** Steps that write the outcome of a rollout to the revision's own record, before another rollout replaces it. */
export async function outcomeSteps(store: Store, rollout: Rollout): Promise<Step[]> {
  const row = await store.records.get('revision', rollout.revision_id)
  if (row === null) return []
  return [endStep(parseRow(row), rollout.status, rollout)]
}

/** The step that writes the outcome to a revision's own record. */
export function endStep(row: Parsed<RevisionBody>, status: RevisionStatus, rollout?: Rollout): Step {
  const { source_revision_config: config, artefact } = row.body
  const body: RevisionBody = {
    ...row.body,
    status,
    status_message: rollout?.message ?? null,
    artefact: rollout?.artefact ?? artefact,
    source_revision_config: { ...config, repo_commit_sha: rollout?.repo_commit_sha ?? config.repo_commit_sha },
    started_at: rollout?.started_at ?? null,
    finished_at: rollout?.since ?? clock.now(),
  }
  const set = { body: JSON.stringify(body), updated_at: body.finished_at!, due_at: null }
  return { step: 'records.patch', kind: 'revision', id: row.id, where: {}, set }
}

const STAGES: readonly LogStage[] = ['build', 'deploy', 'runtime']

/** Parent of the log records of a stage. */
export const logParent = (revision_id: string, stage: LogStage): string => `${revision_id}.${stage}`

/** Removes the deployment with all its records; its own record last, so that a repeat finishes after a crash. */
export async function removeDeployment(deps: Deps, { id, body }: Parsed<DeploymentBody>): Promise<void> {
  const { store } = deps
  for (;;) {
    const rows = await store.records.list({ kind: 'revision', parent: id, limit: 50 })
    if (rows.length === 0) break
    await store.apply(
      rows.flatMap((row): Step[] => [
        ...STAGES.map((stage): Step => ({ step: 'records.clear', kind: 'log', parent: logParent(row.id, stage) })),
        { step: 'records.remove', kind: 'revision', id: row.id, where: {} },
      ]),
    )
  }
  await store.apply([{ step: 'records.clear', kind: 'secrets', parent: id }])
  for (const row of await uploadsOf(store, id)) await removeUpload(store, row)
  if (body.delete_project) await store.apply([{ step: 'records.remove', kind: 'project', id, where: {} }])
  await store.apply([{ step: 'records.remove', kind: 'deployment', id, where: {} }])
  announce(deps, id)
}

/** Wakes deploy workers when the deployment has a task. */
export const wakeFor = (deps: Deps, { id, body }: Parsed<DeploymentBody>): void => {
  const task = taskOf(body)
  if (task !== null) wakeDeployers(deps, task, id, body.latest)
}
