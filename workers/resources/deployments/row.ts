/**
 * The stored form of a deployment (decision 017). The record `deployment` is the aggregate and the truth.
 * Revisions and versions of secrets are separate records, inserted before the one compare-and-set that refers to them.
 * Until then `due_at` marks them as uncommitted, and the sweep removes them.
 *
 * The revision in progress is part of the aggregate (`rollout`), so claim, fence and cutover are compare-and-sets of
 * one record. The revision's own record receives the outcome afterwards; while it is the rollout, the rollout counts.
 */
import { hash } from 'node:crypto'
import type { DeployTaskKind, Graph } from '../../../schemas/deploy-calls.js'
import type {
  DeploymentStatus,
  RevisionStatus,
  SecretReference,
  Source,
  SourceConfig,
  SourceRevisionConfig,
} from '../../../schemas/deployments.js'
import { fail } from '../../../schemas/errors.js'
import type { Store } from '../../../store/port.js'
import type { RecordRow } from '../../../store/rows/records.js'
import { clock } from '../clock.js'
import { firstStage, isOver } from './status.js'

/** The revision that is in progress, or was last. */
export interface Rollout {
  revision_id: string
  seq: number
  status: RevisionStatus
  message: string | null
  /** Time of the last change of status. */
  since: number
  started_at: number | null
  interrupt: boolean
  artefact: string | null
  repo_commit_sha: string | null
  image_uri: string | null
  secrets: string
}

interface Serving {
  revision_id: string
  artefact: string | null
  image_uri: string | null
  secrets: string
  graphs: Graph[]
  /** The epoch of the task that deployed it. */
  epoch?: number
}

export interface DeploymentBody {
  slug: string
  source: Source
  source_config: SourceConfig
  status: DeploymentStatus
  /** Grows when resource_spec changes. */
  generation: number
  /** Number of the latest revision. */
  seq: number
  /** Null: no source was uploaded yet. */
  latest: string | null
  /** The config of the latest revision. The id and names of secrets, and references, are its own, too. */
  source_revision_config: SourceRevisionConfig
  secrets: string
  secret_names: string[]
  secret_references: SecretReference[]
  serving: Serving | null
  rollout: Rollout | null
  /** The revision that follows the rollout. */
  queued: string | null
  /** Raised by each claim; every call of the holder carries it. */
  epoch: number
  lease: { worker: string; until: number } | null
  image_version: string | null
  /** Commit of the last push that made a revision. */
  pushed?: string
  /** DELETE was called with delete_tracing_project. */
  delete_project: boolean
}

export interface RevisionBody {
  seq: number
  source: Source
  source_revision_config: SourceRevisionConfig
  install_command: string | null
  build_command: string | null
  secrets: string
  secret_names: string[]
  secret_references: SecretReference[]
  status: RevisionStatus
  status_message: string | null
  artefact: string | null
  redeploy_of: string | null
  started_at: number | null
  finished_at: number | null
}

/** Values, encrypted for `secretsPlace`. */
export interface SecretsBody {
  sealed: string
}

/** A record with its parsed body. */
export type Parsed<Body> = Omit<RecordRow, 'body'> & { body: Body }

export const parseRow = <Body>(row: RecordRow): Parsed<Body> => ({ ...row, body: JSON.parse(row.body) as Body })

export async function findDeployment(store: Store, id: string): Promise<Parsed<DeploymentBody> | null> {
  const row = await store.records.get('deployment', id.toLowerCase())
  return row === null ? null : parseRow(row)
}

/** Throws not_found with the sentence that the API documents. */
export async function deploymentOf(store: Store, id: string): Promise<Parsed<DeploymentBody>> {
  const found = await findDeployment(store, id)
  if (found === null) throw fail('not_found', `Deployment ID ${id} not found.`)
  return found
}

/** A committed revision of the deployment. Throws not_found. */
export async function revisionOf(
  store: Store,
  deployment: Parsed<DeploymentBody>,
  id: string,
): Promise<Parsed<RevisionBody>> {
  const row = await store.records.get('revision', id.toLowerCase())
  if (row === null || row.parent !== deployment.id || isUncommitted(row, deployment.body))
    throw fail('not_found', `Revision ID ${id} not found.`)
  return parseRow(row)
}

/** True for a record of a change that was not made, or not yet. */
export const isUncommitted = (row: RecordRow, { latest }: DeploymentBody): boolean =>
  row.due_at !== null && row.id !== latest

/** Age after which an uncommitted record belongs to a change that was never made. */
export const ORPHAN_MS = 60_000

/** A unique DNS label of at most 49 characters, which never changes. */
export const slugOf = (name: string, id: string): string =>
  `${
    name
      .toLowerCase()
      .replace(/[^a-z0-9]+/g, '-')
      .slice(0, 40)
      .replace(/^-+|-+$/g, '') || 'd'
  }-${hash('sha256', id).slice(0, 8)}`

/** The rollout of a revision that starts now. */
export const newRollout = (revision_id: string, body: RevisionBody): Rollout => ({
  revision_id,
  seq: body.seq,
  status: firstStage(body.source, body.artefact),
  message: null,
  since: clock.now(),
  started_at: null,
  interrupt: false,
  artefact: body.artefact,
  repo_commit_sha: body.source_revision_config.repo_commit_sha,
  image_uri: body.source_revision_config.image_uri,
  secrets: body.secrets,
})

/** Status of a revision: that of the rollout, QUEUED, or the outcome in its own record. */
export function statusOf({ id, body }: Parsed<RevisionBody>, { rollout, queued }: DeploymentBody): RevisionStatus {
  if (rollout?.revision_id === id) return rollout.status
  if (queued === id) return 'QUEUED'
  return isOver(body.status) ? body.status : 'SKIPPED'
}

/** The task of the deployment for a deploy worker; null when there is none. */
export function taskOf({ status, rollout }: DeploymentBody): DeployTaskKind | null {
  if (rollout !== null && !isOver(rollout.status)) return rollout.interrupt ? 'interrupt' : 'deploy'
  return status === 'AWAITING_DELETE' ? 'delete' : null
}

/** Time of the next sweep of the deployment: now, at the end of the lease, or never (null). */
export function dueAt({ status, rollout, queued, lease }: DeploymentBody, now: number): number | null {
  const open = status === 'AWAITING_DELETE' || (rollout !== null && !isOver(rollout.status)) || queued !== null
  return open ? (lease?.until ?? now) : null
}

export const slugKey = (slug: string): string => `slug=${slug}`

/** Keys that searches filter by; image versions are too long for a key. */
export const keysOfDeployment = ({ slug, status, source_config }: DeploymentBody): string[] => [
  `status=${status}`,
  slugKey(slug),
  ...(source_config.deployment_type === null ? [] : [`deployment_type=${source_config.deployment_type}`]),
  ...(source_config.listener_id === null ? [] : ['remote']),
]
