/** The merge rule of PATCH (docs/spec/control-plane.md#patch): null never clears a member. Pure. */
import {
  type DeploymentPatch,
  SCALE_TO_ZERO,
  type Source,
  type SourceConfig,
  type SourceConfigInput,
  type SourceRevisionConfig,
  type SourceRevisionConfigInput,
} from '../../../schemas/deployments.js'
import { DEFAULT_STORAGE_GI, normalizeSpec } from './resource-spec.js'

export interface Merged {
  source_config: SourceConfig
  source_revision_config: SourceRevisionConfig
  /** The patch changes a member of source_config. */
  configured: boolean
  /** The patch changes resource_spec. */
  resized: boolean
  /** The patch makes a new revision, also with equal values. */
  revises: boolean
}

const NOTHING: SourceConfig = {
  integration_id: null,
  repo_url: null,
  deployment_type: null,
  build_on_push: null,
  custom_url: null,
  resource_spec: null,
  listener_id: null,
  listener_config: null,
  install_command: null,
  build_command: null,
}

const IMMUTABLE = [
  'integration_id',
  'repo_url',
  'deployment_type',
  'listener_id',
  'listener_config',
] as const satisfies (keyof SourceConfig)[]

/** The stored source_config of a create: every member, "" as null, defaults by source. */
export function initialConfig(given: SourceConfigInput, source: Source): SourceConfig {
  const isZero = given.deployment_type === SCALE_TO_ZERO
  const config = shallow(NOTHING, isZero ? { ...given, deployment_type: 'dev' } : given)
  if (source === 'external_docker') return config
  return {
    ...config,
    deployment_type: config.deployment_type ?? 'dev',
    build_on_push: config.build_on_push ?? false,
    resource_spec: isZero ? { min_scale: 0, max_scale: 1, ...config.resource_spec } : config.resource_spec,
  }
}

export const initialRevisionConfig = (given: SourceRevisionConfigInput): SourceRevisionConfig => ({
  repo_ref: given.repo_ref || null,
  graph_config_path: given.graph_config_path || given.langgraph_config_path || null,
  image_uri: given.image_uri || null,
  repo_commit_sha: null,
  ...(given.source_tarball_path ? { source_tarball_path: given.source_tarball_path } : {}),
})

/**
 * The deployment after the patch, or the sentence that refuses the patch. `url` is the custom_url that the server
 * answers for a deployment without one; a patch with that value changes nothing.
 */
export function merge(
  now: {
    source: Source
    source_config: SourceConfig
    source_revision_config: SourceRevisionConfig
  },
  { source_config: config, source_revision_config: revision, secrets, secret_references }: DeploymentPatch,
  url: string,
): Merged | string {
  const before = now.source_config
  const after = shallow(before, config ?? {})
  const fixed = IMMUTABLE.find(name => !same(before[name], after[name]))
  if (fixed !== undefined) return `source_config.${fixed} cannot be changed after creation`
  if (before.custom_url === null && after.custom_url === url) after.custom_url = null
  if (now.source !== 'external_docker' && after.custom_url !== null)
    return `source_config.custom_url is set by the server for source ${now.source}`
  if (storage(after) < storage(before)) return 'source_config.resource_spec.db_storage_gi cannot shrink'
  const empty = REVISION_MEMBERS.find(name => revision?.[name] === '')
  if (empty !== undefined) return `source_revision_config.${empty} cannot be cleared`
  const tarball = revision?.source_tarball_path ?? now.source_revision_config.source_tarball_path
  return {
    source_config: after,
    source_revision_config: {
      repo_ref: revision?.repo_ref ?? now.source_revision_config.repo_ref,
      graph_config_path:
        revision?.graph_config_path ?? revision?.langgraph_config_path ?? now.source_revision_config.graph_config_path,
      image_uri: revision?.image_uri ?? now.source_revision_config.image_uri,
      repo_commit_sha: null,
      ...(tarball ? { source_tarball_path: tarball } : {}),
    },
    configured: !same(before, after),
    resized: !same(before.resource_spec, after.resource_spec),
    revises:
      REVISION_MEMBERS.some(name => revision?.[name] !== undefined && revision[name] !== null) ||
      Array.isArray(secrets) ||
      Array.isArray(secret_references),
  }
}

const REVISION_MEMBERS = [
  'repo_ref',
  'graph_config_path',
  'langgraph_config_path',
  'image_uri',
  'source_tarball_path',
] as const satisfies (keyof SourceRevisionConfigInput)[]

/** Merges each member: absent and null keep the value, "" clears it, resource_spec is replaced as a whole. */
function shallow(before: SourceConfig, given: SourceConfigInput): SourceConfig {
  const out: { [name: string]: unknown } = { ...before }
  for (const name of Object.keys(NOTHING) as (keyof SourceConfig)[]) {
    const value = given[name]
    if (value === undefined || value === null) continue
    if (name === 'resource_spec') out[name] = normalizeSpec(given.resource_spec!)
    else if (name === 'listener_config') out[name] = { k8s_namespace: given.listener_config!.k8s_namespace ?? null }
    else if (name === 'integration_id' || name === 'listener_id') out[name] = (value as string).toLowerCase()
    else out[name] = value === '' ? null : value
  }
  return out as unknown as SourceConfig
}

const storage = ({ resource_spec }: SourceConfig): number => resource_spec?.db_storage_gi ?? DEFAULT_STORAGE_GI

/** Deep equality; the order of keys does not count. */
export function same(a: unknown, b: unknown): boolean {
  if (a === b) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  if (Array.isArray(a) || Array.isArray(b))
    return Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((one, i) => same(one, b[i]))
  const [left, right] = [Object.entries(a), Object.entries(b)]
  return (
    left.length === right.length &&
    left.every(([key, value]) => Object.hasOwn(b, key) && same(value, (b as never)[key]))
  )
}
