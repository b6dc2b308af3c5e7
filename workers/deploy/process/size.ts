/** Size of the replicas of a deployment, as far as processes of one machine have a size (API: control-plane 4.3). */
import { availableParallelism } from 'node:os'
import type { Config } from '../../../schemas/config.js'
import { CLUSTER_ONLY, type ResourceSpec } from '../../../schemas/deployments.js'

export interface Size {
  /** Graph workers. */
  replicas: number
  /** Graph hosts of each. */
  hosts: number
  /** JavaScript heap of each host, in megabytes. */
  memory_mb: number
}

/** Queue workers execute runs: `queue_*` counts, with the members without the prefix as defaults. */
export function sizeOf(spec: ResourceSpec | null, { host_memory_mb }: Pick<Config, 'host_memory_mb'>): Size {
  const replicas = Math.max(1, spec?.queue_min_scale ?? spec?.min_scale ?? 1)
  const cpu = spec?.queue_cpu ?? spec?.cpu ?? 1
  const hosts = Math.max(1, Math.min(Math.ceil(cpu), availableParallelism()))
  const memory = spec?.queue_memory_mb ?? spec?.memory_mb ?? null
  const limit = spec?.queue_memory_limit_mb ?? spec?.memory_limit_mb ?? (memory === null ? null : memory * 2)
  return { replicas, hosts, memory_mb: limit === null ? host_memory_mb : Math.max(64, Math.floor(limit / hosts)) }
}

/** Members of the spec that this driver does not support, one sentence each. */
export const problemsOf = (spec: ResourceSpec | null): string[] =>
  CLUSTER_ONLY.filter(name => {
    const value = spec?.[name]
    return value !== undefined && value !== null && value.length > 0
  }).map(name => `resource_spec.${name} needs containers, which the process driver does not have`)
