/** The answers for deployments and revisions (docs/spec/control-plane.md#deployment). */
import type { Deployment, Revision, Source, SourceRevisionConfig } from '../../../schemas/deployments.js'
import { fail } from '../../../schemas/errors.js'
import { time } from '../../../schemas/json.js'
import type { Deps } from '../context.js'
import { secretsPlace } from '../keys/ring.js'
import { type DeploymentBody, type Parsed, type RevisionBody, type SecretsBody, statusOf } from './row.js'
import { isOver } from './status.js'

/** Replaces the value of a secret in answers (docs/spec/control-plane.md#secrets). */
export const MASK = '********'

interface ViewOptions {
  tenant_id: string
  /** The server's URL for the client: `http://host:port`. */
  origin: string
  /** Values of secrets with WEFT_SECRETS_READ, else null: answers show the mask. */
  secrets: { [name: string]: string } | null
}

/** The URL of a deployment without a custom one. */
export const urlOf = (origin: string, slug: string): string => `${origin}/deployments/${slug}`

export function deploymentOut(
  { id, name, body, created_at, updated_at }: Parsed<DeploymentBody>,
  { tenant_id, origin, secrets }: ViewOptions,
): Deployment {
  const { source_config, source_revision_config: config, serving, slug } = body
  return {
    id,
    tenant_id,
    name: name!,
    source: body.source,
    source_config: { ...source_config, custom_url: source_config.custom_url ?? urlOf(origin, slug) },
    source_revision_config: revisionConfigOut(body.source, config),
    secrets: body.secret_names.map(name => ({ name, value: secrets?.[name] ?? MASK })),
    secret_references: body.secret_references,
    created_at: time(created_at),
    updated_at: time(updated_at),
    status: body.status,
    latest_revision_id: body.latest,
    active_revision_id: serving?.revision_id ?? null,
    image_version: body.image_version,
  }
}

/** With the second name of the path, for clients that know only that one. */
const revisionConfigOut = (source: Source, config: SourceRevisionConfig): SourceRevisionConfig => ({
  ...config,
  langgraph_config_path: config.graph_config_path,
  ...(source === 'internal_source' ? { source_tarball_path: config.source_tarball_path ?? null } : {}),
})

export function revisionOut(row: Parsed<RevisionBody>, deployment: Parsed<DeploymentBody>): Revision {
  const { status, status_message, started_at, finished_at, updated_at, config } = rolloutState(row, deployment.body)
  return {
    id: row.id,
    deployment_id: deployment.id,
    created_at: time(row.created_at),
    updated_at: time(updated_at),
    status,
    status_message,
    source: row.body.source,
    source_revision_config: revisionConfigOut(row.body.source, config),
    redeploy_of: row.body.redeploy_of,
    started_at: started_at === null ? null : time(started_at),
    finished_at: finished_at === null ? null : time(finished_at),
  }
}

/** The members of a revision that depend on whether it is the rollout. */
function rolloutState(row: Parsed<RevisionBody>, deployment: DeploymentBody) {
  const { rollout } = deployment
  const { id, body, updated_at } = row
  const config = body.source_revision_config
  if (rollout?.revision_id === id)
    return {
      status: rollout.status,
      status_message: rollout.message,
      started_at: rollout.started_at,
      finished_at: isOver(rollout.status) ? rollout.since : null,
      updated_at: Math.max(updated_at, rollout.since),
      config: { ...config, repo_commit_sha: rollout.repo_commit_sha ?? config.repo_commit_sha },
    }
  const { status_message, started_at, finished_at } = body
  return { status: statusOf(row, deployment), status_message, started_at, finished_at, updated_at, config }
}

/** The values of a version of secrets. Throws unavailable when no configured key decrypts it. */
export async function secretsOf({ store, ring }: Deps, deployment_id: string, secrets_id: string) {
  const row = await store.records.get('secrets', secrets_id)
  if (row === null) throw fail('not_found', 'The deployment was removed')
  const { sealed } = JSON.parse(row.body) as SecretsBody
  let text: string
  try {
    text = ring.open(sealed, secretsPlace(deployment_id, secrets_id))
  } catch (error) {
    throw fail('unavailable', `The secrets cannot be read: ${(error as Error).message}`)
  }
  return JSON.parse(text) as { [name: string]: string }
}
