/** A new deployment (API: control-plane 6.1): its first revision, its secrets and its project, then itself. */

import { v7 } from 'uuid'
import type { DeploymentCreate } from '../../../schemas/deployments.js'
import { fail } from '../../../schemas/errors.js'
import type { Step } from '../../../store/port.js'
import type { Deps } from '../context.js'
import { newRecord } from '../rows/record.js'
import { onceRecord, recallDeployment } from './idempotency.js'
import { createdConfig, createdRevision } from './merge.js'
import { checkForm, checkVariables, newRevision, policyOf, refuse, sealed } from './parts.js'
import { type DeploymentBody, dueAt, keysOfDeployment, newRollout, ORPHAN_MS, type Parsed, slugOf } from './row.js'
import { refusalOf } from './rules.js'
import { deploymentAfter } from './status.js'
import { MASK } from './text.js'
import { announce, commit, wakeDeployers } from './write.js'

/** Checks all of it, then stores it; nothing is left of a create that is refused. `key`: the Idempotency-Key, if any. */
export async function createDeployment(
  deps: Deps,
  body: DeploymentCreate,
  key?: string,
): Promise<Parsed<DeploymentBody>> {
  checkForm(body)
  const { name, source } = body
  if (source !== 'github' && source !== 'external_docker')
    throw fail('bad_request', `source ${source} is not available: give github or external_docker`)
  const source_config = createdConfig(body.source_config, source)
  const source_revision_config = createdRevision(body.source_revision_config)
  if (source === 'github' && source_config.custom_url !== null)
    throw fail('bad_request', 'source_config.custom_url is set by the server for source github')
  refuse(refusalOf({ source, source_config, source_revision_config }, policyOf(deps)))
  const references = body.secret_references ?? []
  checkVariables(source, body.secrets ?? [], references)
  if (body.secrets?.some(({ value }) => value === MASK))
    throw fail('bad_request', `a secret has the value ${MASK}, which stands for one that is stored already`)

  const id = v7()
  const once = key === undefined ? null : onceRecord(deps, key, body, id)
  const before = once === null ? null : await recallDeployment(deps, once, body)
  if (before !== null) return before
  const secrets = sealed(deps, id, body.secrets ?? [])
  const made = newRevision(id, {
    seq: 1,
    source,
    source_revision_config,
    install_command: source_config.install_command,
    build_command: source_config.build_command,
    secrets: secrets.id,
    secret_names: secrets.names,
    secret_references: references,
  })
  // Rows carry the deployment they belong to, so there is no database to wait for (API: control-plane 10.3).
  const value: DeploymentBody = {
    slug: slugOf(name, id),
    source,
    source_config,
    status: deploymentAfter('AWAITING_DATABASE', 'provisioned'),
    generation: 1,
    seq: 1,
    latest: made.id,
    source_revision_config,
    secrets: secrets.id,
    secret_names: secrets.names,
    secret_references: references,
    serving: null,
    rollout: newRollout(made.id, made.body),
    queued: null,
    epoch: 0,
    lease: null,
    image_version: null,
    delete_project: false,
  }
  const now = Date.now()
  const project = newRecord('project', id, { name, body: '{}', due_at: now + ORPHAN_MS })
  const row = newRecord('deployment', id, {
    name,
    body: JSON.stringify(value),
    keys: keysOfDeployment(value),
    due_at: dueAt(value, now),
  })
  const steps: Step[] = [
    ...(once === null ? [] : [{ step: 'records.insert', row: once } as const]),
    { step: 'records.insert', row: project },
    ...secrets.insert,
    made.insert,
    { step: 'records.insert', row },
    commit('project', id),
    ...secrets.commit,
    made.commit,
  ]
  const failed = await deps.store.apply(steps)
  if (failed !== -1 && failed <= steps.findIndex(step => step.step === 'records.insert' && step.row === row)) {
    await undo(deps, steps.slice(0, failed))
    // Two with the same key at once: the other one was faster.
    if (once !== null && failed === 0) return createDeployment(deps, body, key)
    throw fail('conflict', `A deployment or tracing project named ${name} exists already.`)
  }
  announce(deps, id)
  wakeDeployers(deps, 'deploy', id, made.id)
  return { ...row, body: value }
}

async function undo({ store }: Deps, steps: readonly Step[]): Promise<void> {
  for (const step of steps)
    if (step.step === 'records.insert')
      await store.apply([{ step: 'records.remove', kind: step.row.kind, id: step.row.id, where: {} }])
}
