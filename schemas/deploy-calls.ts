/**
 * What deploy workers and resource workers say to each other: `rpc.deployments.<verb>`. The rows are the truth; the
 * wake-up `deploy.order.<kind>.<deployment>` carries ids only, reaches every deploy worker, and may be lost: orders
 * that nobody holds are announced again every 10 s. A worker that hears one claims until it gets none.
 *
 * An order is held by a lease of 30 s under an `epoch`; each claim raises it, and whoever comes with an older one is
 * answered 409 `fenced`: stop without a word, another has the order. Only connections of the role `deployer` may
 * claim, renew, advance and log.
 */
import typia, { type tags } from 'typia'
import type { Deployment, ResourceSpec, Revision, RevisionStatus, SecretReference, Source } from './deployments.js'

/** The pool of a revision's graph workers: its runs go nowhere else, so a cutover is a change of pool. */
export const poolOf = (revision_id: string): string => `rev_${revision_id}`

/** How long a claim or a renewal holds; renew about every 10 s. */
export const LEASE_MS = 30_000

/** `deploy`: bring the revision from `stage` on to DEPLOYED; `interrupt`: undo what it has begun; `delete`: all of it. */
export type OrderKind = 'deploy' | 'delete' | 'interrupt'

/** Body of `deploy.order.<kind>.<deployment>`. */
export interface DeployWakeUp {
  deployment_id: string
  revision_id: string | null
}

/** Body of rpc.deployments.claim; answered at once by Claimed. */
export interface DeployClaim {
  worker: string
  wait?: false
  /** Also orders that other workers hold whose names begin so: those processes have ended, this one took their place. */
  takes_over?: string & tags.MinLength<1>
  /** Only orders of these sources; all when absent. */
  sources?: Source[]
}
export interface Claimed {
  order: Order | null
}

export interface Order {
  deployment_id: string
  /** A DNS label, unique: names of all that is made for the deployment derive from it. */
  slug: string
  /** The revision to work on; for `delete` the latest one. */
  revision_id: string
  epoch: number
  kind: OrderKind
  /** Where the revision stands: a claim does not move it, `advance` does. */
  stage: RevisionStatus
  /** Number of the revision within its deployment, from 1. */
  seq: number
  /** Grows when resource_spec changes. */
  generation: number
  /** Of this revision alone (poolOf): what runs it serves no run before the cutover. */
  pool: string
  /** `secrets` is empty here: their values are in `env`. */
  deployment: Deployment
  /** Commands as they were when the revision was made; `status` is `stage`. */
  revision: Revision & { install_command: string | null; build_command: string | null }
  /** What serves now, and goes on serving until this revision is DEPLOYED. */
  previous_revision_id: string | null
  /** The secrets of this revision, decrypted: environment of what runs, never of logs, arguments or files in clear. */
  env: { [name: string]: string }
  secret_references: SecretReference[]
  /** Known already: built before a crash, or taken over from the revision that this one redeploys. */
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
  /** Stop, undo, advance to INTERRUPTED: an interrupt or a DELETE was asked for. */
  interrupt: boolean
}

/**
 * Body of rpc.deployments.advance; answered by `{}`. A pair that the state machine does not know is 409; a status that
 * the revision already has is done. Also renews the lease, unless the status is terminal: then the order is over.
 *
 * DEPLOYED is the cutover. DELETED ends an order of kind `delete`: the deployment is gone afterwards. INTERRUPTED ends
 * one of kind `interrupt`, and a `deploy` whose renewal said so.
 */
export interface DeployAdvance extends Held {
  status: RevisionStatus | 'DELETED'
  /** One line for people: stage, cause, hint; at most 1,000 characters, secrets are taken out. */
  message?: (string & tags.MaxLength<4000>) | null
  /** 40 hex digits; set before install, so that a retry builds the same. */
  repo_commit_sha?: (string & tags.Pattern<'^[0-9a-f]{40}([0-9a-f]{24})?$'>) | null
  artefact?: string | null
  /** With DEPLOYED: graph id → description. */
  graphs?: Graph[] | null
  image_version?: string | null
}
export interface Graph {
  graph_id: string
  description?: string | null
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
 * Body of rpc.deployments.log; answered by `{}`. Needs no lease: output of a running revision comes long after its
 * order. Secrets and credentials in URLs are taken out here, lines cut at 16 KiB, a stage ends at 50 MiB. A batch that
 * is sent again (same lines, same times) is stored once.
 */
export interface DeployLog {
  deployment_id: string
  revision_id: string
  stage: LogStage
  lines: LogLine[] & tags.MaxItems<10000>
}

/** Answer of rpc.deployments.active `{}`: what has to run, and what the edge may route to under /deployments/{slug}. */
export interface ActiveDeployments {
  deployments: ActiveDeployment[]
}
export interface ActiveDeployment {
  deployment_id: string
  slug: string
  /** The active revision. */
  revision_id: string
  /** A revision that is being deployed beside it: its instances are not stray. */
  deploying_revision_id: string | null
  source: Source
  artefact: string | null
  image_uri: string | null
  /** Changes when the environment does. */
  env_version: string
  graphs: Graph[]
  resource_spec: ResourceSpec | null
  generation: number
  /** Of the active revision: new runs go there. */
  pool: string
}

/** Body of `rpc.deployments.env`, for instances of an active revision that must be started anew; answered by EnvOf. */
export interface EnvAsk {
  deployment_id: string
  revision_id: string
}
export interface EnvOf {
  env: { [name: string]: string }
  env_version: string
}

/** Body of `event.deployments.changed`: published after every change; read the rows for what. */
export interface DeploymentChanged {
  deployment_id: string
}

export const validateDeployClaim = typia.createValidate<DeployClaim>()
export const validateDeployRenew = typia.createValidate<DeployRenew>()
export const validateDeployAdvance = typia.createValidate<DeployAdvance>()
export const validateDeployLog = typia.createValidate<DeployLog>()
export const validateEnvAsk = typia.createValidate<EnvAsk>()
