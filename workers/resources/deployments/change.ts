import type { DeploymentPatch, SourceRevisionConfig } from '../../../schemas/deployments.js'
import { fail } from '../../../schemas/errors.js'
import type { Deps } from '../context.js'
import { merge } from './merge.js'
import { newRevision, nextSecrets } from './revision.js'
import { type DeploymentBody, newRollout, type Parsed, type RevisionBody, revisionOf, statusOf } from './row.js'
import { checkForm, checkValues, checkVariables } from './rules.js'
import { deploymentAfter, isOver } from './status.js'
import { ignoreNotFound } from './tasks.js'
import { urlOf } from './text.js'
import { findUpload, releaseUploads, useUpload } from './upload-rows.js'
import { type Change, change, commit, outcomeSteps, wakeFor } from './write.js'

/** docs/spec/control-plane.md#patch. `version`: the If-Match of the request, or ''. */
export async function patchDeployment(
  deps: Deps,
  id: string,
  body: DeploymentPatch,
  origin: string,
  version: string,
): Promise<Parsed<DeploymentBody>> {
  checkForm(body)
  const after = await change(deps, id, async now => {
    checkVersion(now, version)
    if (now.body.status === 'AWAITING_DELETE') throw fail('bad_request', 'The deployment is being deleted')
    const merged = merge(now.body, body, urlOf(origin, now.body.slug))
    if (typeof merged === 'string') throw fail('bad_request', merged)
    if (!merged.configured && !merged.revises) return null
    const { source } = now.body
    const { source_config, source_revision_config } = merged
    checkValues({ source, source_config, source_revision_config }, deps)
    const next: DeploymentBody = {
      ...now.body,
      source_config,
      status: deploymentAfter(now.body.status, 'work'),
      generation: now.body.generation + (merged.resized ? 1 : 0),
    }
    if (!merged.revises) return { body: next, visible: true }
    return revise(deps, { ...now, body: next }, { source_revision_config, given: body })
  })
  wakeFor(deps, after)
  await releaseUploads(deps.store, after.id)
  return after
}

/** A new revision: given members, and the latest revision for the others (docs/spec/control-plane.md#revisions). */
export async function createRevision(deps: Deps, id: string, body: DeploymentPatch): Promise<Parsed<DeploymentBody>> {
  checkForm(body)
  const { source_revision_config, secrets, secret_references } = body
  const given: DeploymentPatch = { source_revision_config, secrets, secret_references }
  const after = await change(deps, id, async now => {
    if (now.body.status === 'AWAITING_DELETE') throw fail('bad_request', 'The deployment is being deleted')
    const merged = merge(now.body, given, '')
    if (typeof merged === 'string') throw fail('bad_request', merged)
    checkValues({ source: now.body.source, ...merged }, deps)
    return revise(deps, now, { source_revision_config: merged.source_revision_config, given })
  })
  wakeFor(deps, after)
  await releaseUploads(deps.store, after.id)
  return after
}

/** A new revision that repeats an older one: its configuration, commit, commands, secrets and artefact. */
export async function redeploy(deps: Deps, id: string, revision_id: string): Promise<Parsed<DeploymentBody>> {
  const after = await change(deps, id, async now => {
    if (now.body.status === 'AWAITING_DELETE') throw fail('bad_request', 'The deployment is being deleted')
    const old = await revisionOf(deps.store, now, revision_id)
    const { rollout } = now.body
    const isRollout = rollout?.revision_id === old.id
    const status = statusOf(old, now.body)
    if (!isOver(status)) throw fail('bad_request', `The revision is ${status}: it cannot be redeployed yet`)
    if (status === 'SKIPPED') throw fail('bad_request', 'The revision was skipped: it cannot be redeployed')
    const commit = (isRollout ? rollout.repo_commit_sha : null) ?? old.body.source_revision_config.repo_commit_sha
    return revise(deps, now, {
      source_revision_config: { ...old.body.source_revision_config, repo_commit_sha: commit },
      given: {},
      old: { ...old.body, artefact: (isRollout ? rollout.artefact : null) ?? old.body.artefact },
      redeploy_of: old.id,
    })
  })
  wakeFor(deps, after)
  return after
}

/** A new revision of the branch after a push; null when the latest one is of this commit, or the deployment does not build it. */
export async function buildPush(
  deps: Deps,
  id: string,
  commit: string,
  isMeant: (body: DeploymentBody) => boolean,
): Promise<string | null> {
  let made = false
  const after = await change(deps, id, async now => {
    const { body } = now
    const { source_revision_config: latest, status, pushed } = body
    made = status !== 'AWAITING_DELETE' && isMeant(body) && pushed !== commit && latest.repo_commit_sha !== commit
    if (!made) return null
    const revised = await revise(deps, now, { source_revision_config: { ...latest, repo_commit_sha: null }, given: {} })
    return { ...revised, body: { ...revised.body, pushed: commit } }
  }).catch(ignoreNotFound)
  if (!made || after === null) return null
  wakeFor(deps, after)
  return after.body.latest
}

interface NewRevision {
  source_revision_config: SourceRevisionConfig
  given: DeploymentPatch
  old?: RevisionBody
  redeploy_of?: string
}

/** The change that adds a revision. It becomes the rollout when none is in progress, else the queued revision. */
async function revise(deps: Deps, now: Parsed<DeploymentBody>, wanted: NewRevision): Promise<Change> {
  const { body } = now
  const { given, old, source_revision_config } = wanted
  const references = old?.secret_references ?? given.secret_references ?? body.secret_references
  const secrets = await nextSecrets(deps, now, given.secrets ?? null, old)
  checkVariables(body.source, given.secrets ?? [], references, secrets.names)
  const upload = await uploadSteps(deps, now, wanted)
  const made = newRevision(now.id, {
    seq: body.seq + 1,
    source: body.source,
    source_revision_config,
    install_command: old === undefined ? body.source_config.install_command : old.install_command,
    build_command: old === undefined ? body.source_config.build_command : old.build_command,
    secrets: secrets.id,
    secret_names: secrets.names,
    secret_references: references,
    artefact: old?.artefact ?? null,
    redeploy_of: wanted.redeploy_of ?? null,
  })
  const starts = body.rollout === null || isOver(body.rollout.status)
  return {
    visible: true,
    before: [
      ...upload.before,
      // Commit the previous latest revision before replacing it.
      ...(body.latest === null ? [] : [commit('revision', body.latest)]),
      commit('secrets', body.secrets),
      ...(starts && body.rollout !== null ? await outcomeSteps(deps.store, body.rollout) : []),
      ...secrets.insert,
      made.insert,
    ],
    body: {
      ...body,
      seq: body.seq + 1,
      latest: made.id,
      source_revision_config,
      secrets: secrets.id,
      secret_names: secrets.names,
      secret_references: references,
      rollout: starts ? newRollout(made.id, made.body) : body.rollout,
      // The previous queued revision is skipped: only the newest continues (T6).
      queued: starts ? null : made.id,
    },
    after: [made.commit, ...secrets.commit, ...upload.after],
  }
}

/** The steps by which a revision of source internal_source keeps its upload. */
async function uploadSteps({ store }: Deps, now: Parsed<DeploymentBody>, wanted: NewRevision) {
  const none = { before: [], after: [] }
  if (now.body.source !== 'internal_source') return none
  const { source_tarball_path: path, graph_config_path } = wanted.source_revision_config
  if (!path)
    throw fail(
      'bad_request',
      'source_revision_config.source_tarball_path is required for the first revision of source internal_source: send the archive to the upload_url of POST …/upload-url, and give its object_path',
    )
  if (graph_config_path === null)
    throw fail('bad_request', 'source_revision_config.graph_config_path is required for source internal_source')
  const row = await findUpload(store, now.id, path)
  if (row !== null) return useUpload(row)
  // Its artefact may still exist: the build says so if not.
  if (wanted.old !== undefined) return none
  throw fail(
    'bad_request',
    'source_revision_config.source_tarball_path names no upload of this deployment: send the archive to the upload_url of POST …/upload-url, and give its object_path',
  )
}

/** Checks If-Match (docs/spec/control-plane.md#patch). Throws precondition_failed. */
function checkVersion(now: Parsed<DeploymentBody>, version: string): void {
  if (version === '' || version === '*') return
  if (!version.split(',').some(one => one.trim() === etagOf(now)))
    throw fail('precondition_failed', 'The deployment was changed since it was read')
}

/** Identifies one version of a deployment. */
export const etagOf = ({ updated_at }: Pick<Parsed<DeploymentBody>, 'updated_at'>): string => `"${updated_at}"`
