/**
 * Size of the replicas of a deployment, as far as processes of one machine have a size
 * (docs/spec/control-plane.md#resource-spec).
 */
import { availableParallelism } from 'node:os'
import type { Config } from '../../../schemas/config.js'
import { CLUSTER_ONLY, type ResourceSpec } from '../../../schemas/deployments.js'
import { rangeOf } from '../scaling.js'
import type { Limits } from './cgroups.js'

export interface Size {
  /** Graph workers without load. */
  replicas: number
  /** Graph hosts of each. */
  hosts: number
  /** JavaScript heap of each host, or its memory with Python, in megabytes. */
  memory_mb: number
  /** The limits of a whole replica, where cgroups can be made. */
  limits: Limits
  /** The number of replicas follows the length of the work queue. */
  isScaled: boolean
}

/** Queue workers execute runs: `queue_*` counts, as for their number (scaling.ts). */
export function sizeOf(spec: ResourceSpec | null, { host_memory_mb }: Pick<Config, 'host_memory_mb'>): Size {
  const { min: replicas, max } = rangeOf(spec)
  const cpu = spec?.queue_cpu ?? spec?.cpu ?? 1
  const hosts = Math.max(1, Math.min(Math.ceil(cpu), availableParallelism()))
  const memory = spec?.queue_memory_mb ?? spec?.memory_mb ?? null
  const limit = spec?.queue_memory_limit_mb ?? spec?.memory_limit_mb ?? (memory === null ? null : memory * 2)
  const wanted = spec?.queue_cpu ?? spec?.cpu ?? null
  const cpu_limit = spec?.queue_cpu_limit ?? spec?.cpu_limit ?? (wanted === null ? null : wanted * 2)
  return {
    replicas,
    hosts,
    memory_mb: limit === null ? host_memory_mb : Math.max(64, Math.floor(limit / hosts)),
    limits: { cpu: cpu_limit, memory_mb: limit, memory_low_mb: memory },
    isScaled: max > replicas,
  }
}

/** Members of the spec that this driver does not support, one sentence each. */
export const problemsOf = (spec: ResourceSpec | null): string[] =>
  CLUSTER_ONLY.filter(name => {
    const value = spec?.[name]
    return value !== undefined && value !== null && value.length > 0
  }).map(name => `resource_spec.${name} needs containers, which the process driver does not have`)
