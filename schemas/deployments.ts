/**
 * Deployments and revisions on the wire (docs/spec/control-plane.md#deployment). Members of user-given
 * objects that are free in form keep their names and meaning: nothing here re-cases or reorders what is inside.
 */
import typia, { type tags } from 'typia'
import type { JsonObject } from './json.js'

/** internal_source is an archive that the client uploads (decision 054). */
export type Source = 'github' | 'external_docker' | 'internal_source'
export type DeploymentType = 'dev_free' | 'dev' | 'prod'
/** Scale to zero, for source internal_source only; stored and answered as `dev` with a resource_spec (decision 054). */
export const SCALE_TO_ZERO = 'dev_zero'

export const DEPLOYMENT_STATUSES = ['AWAITING_DATABASE', 'READY', 'UNUSED', 'AWAITING_DELETE', 'UNKNOWN'] as const
export type DeploymentStatus = (typeof DEPLOYMENT_STATUSES)[number]

export const REVISION_STATUSES = [
  'CREATING',
  'QUEUED',
  'AWAITING_BUILD',
  'BUILDING',
  'AWAITING_DEPLOY',
  'DEPLOYING',
  'DEPLOYED',
  'CREATE_FAILED',
  'BUILD_FAILED',
  'DEPLOY_FAILED',
  'SKIPPED',
  'INTERRUPTED',
  'UNKNOWN',
] as const
export type RevisionStatus = (typeof REVISION_STATUSES)[number]

type Id = string & tags.Pattern<'^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$'>
type Whole = number & tags.Type<'uint32'>
type Scale = Whole & tags.Maximum<100>
type Cpu = number & tags.Minimum<0.1> & tags.Maximum<8>
type CpuLimit = number & tags.Minimum<0.1> & tags.Maximum<16>
type Megabytes = Whole & tags.Minimum<64> & tags.Maximum<1048576>
type Positive = Whole & tags.Minimum<1>
type Label = string & tags.Pattern<'^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$'>
type Text = string & tags.MaxLength<4096>

/** A name of an image, as engines take it. */
export const IMAGE_REFERENCE =
  /^(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::\d{1,5})?\/)?[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:\/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?$/

export interface VolumeMount {
  name?: Text | null
  mountPath?: Text | null
  subPath?: Text | null
  mountPropagation?: Text | null
  subPathExpr?: Text | null
  readOnly?: boolean | null
}

/** Exactly one of the free-form objects says where it comes from. */
interface Volume {
  name: Label
  configMap?: JsonObject | null
  secret?: JsonObject | null
  emptyDir?: JsonObject | null
  persistentVolumeClaim?: JsonObject | null
  nfs?: JsonObject | null
  projected?: JsonObject | null
  downwardAPI?: JsonObject | null
  csi?: JsonObject | null
}

export interface Container {
  name: Label
  image: Text & tags.MinLength<1>
  imagePullPolicy?: 'Always' | 'Never' | 'IfNotPresent' | null
  command?: Text[] | null
  args?: Text[] | null
  workingDir?: Text | null
  env?: { name: Text & tags.MinLength<1>; value?: string | null; valueFrom?: JsonObject | null }[] | null
  envFrom?: JsonObject[] | null
  resources?: { limits?: JsonObject | null; requests?: JsonObject | null } | null
  volumeMounts?: VolumeMount[] | null
  securityContext?: JsonObject | null
  restartPolicy?: 'Always' | 'OnFailure' | null
}

/** Cores, megabytes (`_mb`), gibibytes (`_gi`), replicas (`_scale`). Absent or null: the default. */
export interface ResourceSpec {
  min_scale?: Scale | null
  max_scale?: Scale | null
  cpu?: Cpu | null
  cpu_limit?: CpuLimit | null
  memory_mb?: Megabytes | null
  memory_limit_mb?: Megabytes | null
  queue_min_scale?: Scale | null
  queue_max_scale?: Scale | null
  queue_cpu?: Cpu | null
  queue_cpu_limit?: CpuLimit | null
  queue_memory_mb?: Megabytes | null
  queue_memory_limit_mb?: Megabytes | null
  orchestrator_cpu?: Cpu | null
  orchestrator_cpu_limit?: CpuLimit | null
  orchestrator_memory_mb?: Megabytes | null
  orchestrator_memory_limit_mb?: Megabytes | null
  orchestrator_min_scale?: Scale | null
  orchestrator_max_scale?: Scale | null
  redis_cpu?: Cpu | null
  redis_cpu_limit?: CpuLimit | null
  redis_memory_mb?: Megabytes | null
  redis_memory_limit_mb?: Megabytes | null
  db_cpu?: Cpu | null
  db_cpu_limit?: CpuLimit | null
  db_memory_mb?: Megabytes | null
  db_memory_limit_mb?: Megabytes | null
  db_storage_gi?: Positive | null
  db_max_connections?: Positive | null
  labels?: JsonObject | null
  annotations?: JsonObject | null
  service_account_name?: (Text & tags.MinLength<1>) | null
  image_pull_secrets?: { name: Text & tags.MinLength<1> }[] | null
  volumes?: Volume[] | null
  volume_mounts?: VolumeMount[] | null
  init_containers?: Container[] | null
  sidecars?: Container[] | null
}

/** Members of resource_spec that ask for containers or a cluster. */
export const CLUSTER_ONLY = [
  'volumes',
  'volume_mounts',
  'init_containers',
  'sidecars',
  'service_account_name',
  'image_pull_secrets',
] as const satisfies (keyof ResourceSpec)[]

interface ListenerConfig {
  k8s_namespace?: Label | null
}

export interface SourceConfigInput {
  integration_id?: Id | null
  repo_url?: (string & tags.MaxLength<2048>) | null
  deployment_type?: DeploymentType | typeof SCALE_TO_ZERO | null
  build_on_push?: boolean | null
  custom_url?: (string & tags.MaxLength<2048>) | null
  resource_spec?: ResourceSpec | null
  listener_id?: Id | null
  listener_config?: ListenerConfig | null
  install_command?: Text | null
  build_command?: Text | null
}

export interface SourceRevisionConfigInput {
  repo_ref?: (string & tags.MaxLength<1024>) | null
  graph_config_path?: (string & tags.MaxLength<1024>) | null
  /** The name of graph_config_path in other descriptions of this API; both, when they differ, are refused. */
  langgraph_config_path?: (string & tags.MaxLength<1024>) | null
  image_uri?: (string & tags.MaxLength<1024>) | null
  /** internal_source: the `object_path` of an upload to this deployment. */
  source_tarball_path?: (string & tags.MaxLength<1024>) | null
}

export interface Secret {
  name: string & tags.Pattern<'^[A-Za-z_][A-Za-z0-9_]{0,254}$'>
  value: string
}

/** An existing secret of the cluster as an environment variable; external_docker only. */
export interface SecretReference {
  name: string & tags.Pattern<'^[A-Za-z_][A-Za-z0-9_]{0,254}$'>
  secret_name: Text & tags.MinLength<1>
  secret_key: Text & tags.MinLength<1>
}

export interface DeploymentCreate {
  name: string & tags.Pattern<'^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$'>
  source: Source
  source_config: SourceConfigInput
  source_revision_config: SourceRevisionConfigInput
  secrets?: Secret[] | null
  secret_references?: SecretReference[] | null
}

export interface DeploymentPatch {
  source_config?: SourceConfigInput | null
  source_revision_config?: SourceRevisionConfigInput | null
  secrets?: Secret[] | null
  secret_references?: SecretReference[] | null
}

/** The answered and stored form, with every member. */
export interface SourceConfig {
  integration_id: string | null
  repo_url: string | null
  deployment_type: DeploymentType | null
  build_on_push: boolean | null
  custom_url: string | null
  resource_spec: ResourceSpec | null
  listener_id: string | null
  listener_config: ListenerConfig | null
  install_command: string | null
  build_command: string | null
}

export interface SourceRevisionConfig {
  repo_ref: string | null
  graph_config_path: string | null
  image_uri: string | null
  repo_commit_sha: string | null
  /** In answers only, beside graph_config_path. */
  langgraph_config_path?: string | null
  /** Set for source internal_source only. */
  source_tarball_path?: string | null
}

export interface Deployment {
  id: string
  tenant_id: string
  name: string
  source: Source
  source_config: SourceConfig
  /** The values of the latest revision, active or not. */
  source_revision_config: SourceRevisionConfig
  secrets: { name: string; value: string }[]
  secret_references: SecretReference[]
  created_at: string
  updated_at: string
  status: DeploymentStatus
  latest_revision_id: string | null
  active_revision_id: string | null
  image_version: string | null
}

export interface Revision {
  id: string
  deployment_id: string
  created_at: string
  updated_at: string
  status: RevisionStatus
  status_message: string | null
  source: Source
  source_revision_config: SourceRevisionConfig
  redeploy_of: string | null
  started_at: string | null
  finished_at: string | null
}

/** Body of the log queries (docs/spec/control-plane.md#logs). */
export interface LogQuery {
  order?: 'asc' | 'desc' | null
  limit?: (number & tags.Type<'uint32'> & tags.Minimum<1> & tags.Maximum<1000>) | null
  offset?: string | null
  level?: string | null
  query?: string | null
  /** Milliseconds since the epoch, or a date-time. */
  start_time?: number | string | null
  end_time?: number | string | null
}

/** The members of the webhook of a push that are read: `ref` is its branch, `after` the commit it points to now. */
interface GithubPush {
  ref: string
  after: string
  repository: { clone_url?: string | null; ssh_url?: string | null; git_url?: string | null; html_url?: string | null }
}

/** The same members in the webhook of GitLab. */
interface GitlabPush {
  ref: string
  after: string
  project: { git_http_url?: string | null; git_ssh_url?: string | null; web_url?: string | null }
}

export const validateDeploymentCreate = typia.createValidate<DeploymentCreate>()
export const validateDeploymentPatch = typia.createValidate<DeploymentPatch>()
export const validateLogQuery = typia.createValidate<LogQuery>()
export const validateGithubPush = typia.createValidate<GithubPush>()
export const validateGitlabPush = typia.createValidate<GitlabPush>()
