/**
 * The calls between deploy workers and resource workers: `rpc.deployments.<verb>`. The rows are the truth. The wake-up
 * `deploy.task.<kind>.<deployment>` carries ids only, reaches every deploy worker and may be lost: tasks without a
 * lease are announced again every 10 s. A worker that receives a wake-up claims tasks until there are none.
 *
 * A task is held by a lease of 30 s under an `epoch`, which each claim raises. A call with an older epoch is answered
 * 409 `fenced`: another worker holds the task, and the caller stops without further calls. Only connections of the
 * role `deployer` may claim, renew, advance and log.
 */
import typia, { type tags } from 'typia'
import type { Deployment, ResourceSpec, Revision, RevisionStatus, SecretReference, Source } from './deployments.js'
import type { JsonObject } from './json.js'
import type { Build } from './protocol.js'

/** The pool of a revision's graph workers. Each revision has its own pool, so a cutover is a change of pool. */
export const poolOf = (revision_id: string): string => `rev_${revision_id}`
/** Null for a pool that belongs to no revision. */
export const revisionOfPool = (pool: string): string | null => (pool.startsWith('rev_') ? pool.slice(4) : null)

/** Lease of a claim or a renewal; renew about every 10 s. */
export const LEASE_MS = 30_000

/** `deploy`: take the revision from `stage` to DEPLOYED. `interrupt`: undo it. `delete`: remove the deployment. */
export type DeployTaskKind = 'deploy' | 'delete' | 'interrupt'

/** Body of `deploy.task.<kind>.<deployment>`. */
export interface DeployWakeUp {
  deployment_id: string
  revision_id: string | null
}

/** Body of rpc.deployments.claim; answered at once by Claimed. */
export interface DeployClaim {
  worker: string
  /** Absent: an older Weft. */
  weft?: Build
  wait?: false
  /** Also tasks held by workers with this name prefix: their process has ended, and this one replaces it. */
  takes_over?: string & tags.MinLength<1>
  /** Only tasks of these sources; all when absent. */
  sources?: Source[]
}
export interface Claimed {
  task: DeployTask | null
}

export interface DeployTask {
  deployment_id: string
  /** A unique DNS label, from which all names of the deployment's resources derive. */
  slug: string
  /** The revision to work on; for `delete` the latest one. */
  revision_id: string
  epoch: number
  kind: DeployTaskKind
  /** Status of the revision. A claim does not change it, `advance` does. */
  stage: RevisionStatus
  /** Number of the revision within its deployment, from 1. */
  seq: number
  /** Grows when resource_spec changes. */
  generation: number
  /** Pool of this revision (poolOf). It receives no run before the cutover. */
  pool: string
  /** `secrets` is empty here: their values are in `env`. */
  deployment: Deployment
  /** Commands at the time the revision was created; `status` is `stage`. */
  revision: Revision & { install_command: string | null; build_command: string | null }
  /** The active revision, which serves until this one is DEPLOYED. */
  previous_revision_id: string | null
  /** Decrypted secrets, for the environment of the application only: no log, no argument, no plain file. */
  env: { [name: string]: string }
  pool_user: PoolUser | null
  secret_references: SecretReference[]
  /** Artefact from before a crash, or of the revision that this one redeploys; null when none is known. */
  artefact: string | null
  repo_commit_sha: string | null
}

interface Held {
  deployment_id: string
  revision_id: string
  epoch: number & tags.Type<'uint32'>
}

/** Body of rpc.deployments.renew; answered by Renewed. */
export interface DeployRenew extends Held {}
export interface Renewed {
  /** An interrupt or a DELETE was requested: stop, undo, advance to INTERRUPTED. */
  interrupt: boolean
}

/**
 * Body of rpc.deployments.advance; answered by `{}`. A transition outside the state machine is 409; the present status
 * again succeeds. The call also renews the lease. A terminal status ends the task instead.
 *
 * DEPLOYED is the cutover. DELETED ends a task of kind `delete` and removes the deployment. INTERRUPTED ends a task of
 * kind `interrupt`, and one of kind `deploy` after a renewal answered `interrupt`.
 */
export interface DeployAdvance extends Held {
  status: RevisionStatus | 'DELETED'
  /** One line for clients: stage, cause, hint. Cut at 1,000 characters, secrets redacted. */
  message?: (string & tags.MaxLength<4000>) | null
  /** 40 hex digits; set before the installation, so that a retry builds the same commit. */
  repo_commit_sha?: (string & tags.Pattern<'^[0-9a-f]{40}([0-9a-f]{24})?$'>) | null
  artefact?: string | null
  /** With DEPLOYED: the graphs of the revision. */
  graphs?: Graph[] | null
  image_version?: string | null
}
export interface Graph {
  graph_id: string
  description?: string | null
  /** Defaults of its system assistant. */
  config?: JsonObject
  context?: JsonObject
}

export type LogStage = 'build' | 'deploy' | 'runtime'
export interface LogLine {
  /** Milliseconds since the epoch. */
  t: number
  /** DEBUG, INFO, WARNING, ERROR or CRITICAL, in any case. */
  level: string
  text: string
}
/**
 * Body of rpc.deployments.log; answered by `{}`. Needs no lease: a running revision writes output long after its task
 * has ended. The resource worker redacts secrets and credentials in URLs, cuts lines at 16 KiB and ends a stage at
 * 50 MiB. A repeated batch (same lines, same times) is stored once.
 */
export interface DeployLog {
  deployment_id: string
  revision_id: string
  stage: LogStage
  lines: LogLine[] & tags.MaxItems<10000>
}

/** Answer of rpc.deployments.active `{}`: the revisions that must run, and that the edge may route to. */
export interface ActiveDeployments {
  deployments: ActiveDeployment[]
}
export interface ActiveDeployment {
  deployment_id: string
  slug: string
  /** The active revision. */
  revision_id: string
  /** A revision that is being deployed beside it: its instances must not be stopped. */
  deploying_revision_id: string | null
  source: Source
  artefact: string | null
  image_uri: string | null
  /** Changes with the environment. */
  env_version: string
  graphs: Graph[]
  resource_spec: ResourceSpec | null
  generation: number
  /** Pool of the active revision, which receives new runs. */
  pool: string
  name: string
  /** Number of the active revision, from 1. */
  seq: number
  secret_references: SecretReference[]
  /** `listener_config.k8s_namespace`. */
  namespace: string | null
}

/** Body of `event.replicas.beat`: a replica in a container is ready. Sent at once, then every REPLICA_BEAT_MS. */
export interface ReplicaBeat {
  revision_id: string & tags.MaxLength<64>
  /** Name of its container or pod. */
  replica: string & tags.MaxLength<253>
  graphs: Graph[] & tags.MaxItems<1000>
}
export const REPLICA_BEAT_MS = 5_000

/** The credentials of graph workers of one pool at the broker. Null: they share the user of WEFT_GRAPHS_NATS_URL. */
export interface PoolUser {
  user: string
  password: string
}

/** Body of `rpc.deployments.env`, for instances of an active revision that must be restarted; answered by EnvOf. */
export interface EnvAsk {
  deployment_id: string
  revision_id: string
}
export interface EnvOf {
  env: { [name: string]: string }
  pool_user: PoolUser | null
  env_version: string
}

/** Body of `rpc.deployments.source`, by the holder of a task of source internal_source; answered by SourceOf. */
export interface SourceAsk extends Held {}
/** An upload: a tar archive, compressed by gzip. */
export interface SourceOf {
  /** Bytes. */
  size: number
  /** Hex. */
  sha256: string
  parts: number
}
/** Body of `rpc.deployments.source_part`; answered by the bytes of this part, from 0. */
export interface SourcePartAsk extends Held {
  part: number & tags.Type<'uint32'>
}

/*
 * How an edge stores an upload (decision 054): it calls rpc.deployments.upload_begin, upload_part for each part in order,
 * and upload_end; or upload_abort.
 */

/** Bytes of each part but the last: with the head of a call it fits into one message. */
export const PART_BYTES = 512 * 1024
/** An upload without a new part for this time has ended, ms. */
export const PART_MS = 60_000

/** Answer of rpc.deployments.upload_begin. */
export interface UploadBegun {
  /** In the head of each further call: the calls of this one attempt. */
  token: string
}

/** Body of rpc.deployments.upload_end, once all parts are stored. */
export interface UploadEnd {
  /** Bytes. */
  size: number & tags.Type<'uint64'>
  sha256: string & tags.Pattern<'^[0-9a-f]{64}$'>
  parts: number & tags.Type<'uint32'> & tags.Minimum<1>
}

/** The name of an upload on the wire: `object_path` and `source_tarball_path`. */
export const uploadPath = (deployment_id: string, upload_id: string): string =>
  `uploads/${deployment_id}/${upload_id}.tar.gz`

export const validateUploadEnd = typia.createValidate<UploadEnd>()
export const validateSourceAsk = typia.createValidate<SourceAsk>()
export const validateSourcePartAsk = typia.createValidate<SourcePartAsk>()
export const validateDeployClaim = typia.createValidate<DeployClaim>()
export const validateDeployRenew = typia.createValidate<DeployRenew>()
export const validateDeployAdvance = typia.createValidate<DeployAdvance>()
export const validateDeployLog = typia.createValidate<DeployLog>()
export const validateReplicaBeat = typia.createValidate<ReplicaBeat>()
export const validateEnvAsk = typia.createValidate<EnvAsk>()
