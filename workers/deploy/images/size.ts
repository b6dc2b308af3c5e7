/** Size of the containers of a deployment (docs/spec/control-plane.md#resource-spec). Pure. */
import type { ResourceSpec } from '../../../schemas/deployments.js'
import { type Range, rangeOf } from '../scaling.js'

export interface ImageSize {
  /** Number of containers. */
  range: Range
  /** Cores. */
  cpu: number
  cpu_limit: number
  memory_mb: number
  memory_limit_mb: number
  /** Graph hosts in a container, and the megabytes of each. */
  hosts: number
  host_memory_mb: number
}

/** Memory of a container that its hosts do not get: the supervisor, and what is no heap. */
const OVERHEAD_MB = 256

/**
 * Graph workers execute runs, so `queue_*` counts, with the members without the prefix as defaults. `queue_max_scale: 0`
 * switches the queue workers off: then the members without the prefix count alone.
 */
export function imageSizeOf(given: ResourceSpec | null): ImageSize {
  const spec = given?.queue_max_scale === 0 ? withoutQueue(given) : given
  const cpu = spec?.queue_cpu ?? spec?.cpu ?? 1
  const memory_mb = spec?.queue_memory_mb ?? spec?.memory_mb ?? 2_048
  const cpu_limit = spec?.queue_cpu_limit ?? (spec?.queue_cpu == null ? spec?.cpu_limit : null) ?? 2 * cpu
  const memory_limit_mb =
    spec?.queue_memory_limit_mb ?? (spec?.queue_memory_mb == null ? spec?.memory_limit_mb : null) ?? 2 * memory_mb
  const hosts = Math.max(1, Math.ceil(cpu))
  return {
    range: rangeOf(spec),
    cpu,
    cpu_limit,
    memory_mb,
    memory_limit_mb,
    hosts,
    host_memory_mb: Math.max(64, Math.floor((memory_limit_mb - OVERHEAD_MB) / hosts)),
  }
}

const withoutQueue = (spec: ResourceSpec): ResourceSpec =>
  Object.fromEntries(Object.entries(spec).filter(([name]) => !name.startsWith('queue_')))
