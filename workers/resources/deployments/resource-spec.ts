/** resource_spec (API: control-plane 4.3): what its members say of each other, its defaults, and its stored form. */
import type { Container, DeploymentType, ResourceSpec, Source, VolumeMount } from '../../../schemas/deployments.js'

interface Mistake {
  loc: (string | number)[]
  msg: string
}

const PAIRS = [
  ['min_scale', 'max_scale'],
  ['queue_min_scale', 'queue_max_scale'],
  ['orchestrator_min_scale', 'orchestrator_max_scale'],
  ...['', 'queue_', 'orchestrator_', 'redis_', 'db_'].flatMap(part => [
    [`${part}cpu`, `${part}cpu_limit`],
    [`${part}memory_mb`, `${part}memory_limit_mb`],
  ]),
] as [keyof ResourceSpec, keyof ResourceSpec][]

/** Where members contradict each other; the path begins within resource_spec. */
export function specProblems(spec: ResourceSpec): Mistake[] {
  const found: Mistake[] = []
  for (const [low, high] of PAIRS) {
    const [least, most] = [spec[low], spec[high]] as [number | null | undefined, number | null | undefined]
    if (typeof least === 'number' && typeof most === 'number' && most < least)
      found.push({ loc: [high], msg: `expected at least ${low}` })
  }
  const volumes = new Set<string>()
  for (const [i, volume] of (spec.volumes ?? []).entries()) {
    const { name, ...rest } = volume
    const sources = VOLUME_SOURCES.filter(source => rest[source] !== undefined && rest[source] !== null)
    if (volumes.has(name)) found.push({ loc: ['volumes', i, 'name'], msg: 'expected a name that is given once' })
    if (sources.length !== 1)
      found.push({ loc: ['volumes', i], msg: `expected exactly one of ${VOLUME_SOURCES.join(', ')}` })
    volumes.add(name)
  }
  found.push(...mountProblems(spec.volume_mounts, ['volume_mounts'], volumes))
  const containers = new Set<string>()
  for (const list of ['init_containers', 'sidecars'] as const)
    for (const [i, container] of (spec[list] ?? []).entries()) {
      if (containers.has(container.name))
        found.push({ loc: [list, i, 'name'], msg: 'expected a name that is given once' })
      containers.add(container.name)
      found.push(...containerProblems(container, [list, i], volumes))
    }
  return found
}

const VOLUME_SOURCES = [
  'configMap',
  'secret',
  'emptyDir',
  'persistentVolumeClaim',
  'nfs',
  'projected',
  'downwardAPI',
  'csi',
] as const

function containerProblems({ env, volumeMounts }: Container, at: Mistake['loc'], volumes: Set<string>): Mistake[] {
  const both = (env ?? []).flatMap(({ value, valueFrom }, i) =>
    typeof value === 'string' && valueFrom
      ? [{ loc: [...at, 'env', i], msg: 'expected value or valueFrom, not both' }]
      : [],
  )
  return [...both, ...mountProblems(volumeMounts, [...at, 'volumeMounts'], volumes)]
}

function mountProblems(
  mounts: readonly VolumeMount[] | null | undefined,
  at: Mistake['loc'],
  volumes: Set<string>,
): Mistake[] {
  return (mounts ?? []).flatMap(({ name, mountPath, subPath, subPathExpr }, i) => {
    const found: Mistake[] = []
    if (!name || !volumes.has(name))
      found.push({ loc: [...at, i, 'name'], msg: 'expected the name of one of the volumes' })
    if (!mountPath) found.push({ loc: [...at, i, 'mountPath'], msg: 'expected a path' })
    if (subPath && subPathExpr) found.push({ loc: [...at, i], msg: 'expected subPath or subPathExpr, not both' })
    return found
  })
}

/** The members this server knows, in its task, as given; `cpu` values with one decimal. */
export function storedSpec(given: ResourceSpec): ResourceSpec {
  const out: { [name: string]: unknown } = {}
  for (const name of MEMBERS) {
    const value = given[name]
    if (value === undefined || value === null) continue
    out[name] = CPU.test(name) ? Math.round((value as number) * 10) / 10 : value
  }
  return out
}

const CPU = /cpu(_limit)?$/
const sized = (part: string): string[] =>
  ['cpu', 'cpu_limit', 'memory_mb', 'memory_limit_mb'].map(member => `${part}${member}`)
const scaled = (part: string): string[] => [`${part}min_scale`, `${part}max_scale`]
const MEMBERS = [
  ...['', 'queue_', 'orchestrator_'].flatMap(part => [...scaled(part), ...sized(part)]),
  ...sized('redis_'),
  ...sized('db_'),
  'db_storage_gi',
  'db_max_connections',
  'labels',
  'annotations',
  'service_account_name',
  'image_pull_secrets',
  'volumes',
  'volume_mounts',
  'init_containers',
  'sidecars',
] as (keyof ResourceSpec)[]

export const DEFAULT_STORAGE_GI = 10

/** Sizes with every default filled in (API: control-plane 4.3, 8.5): what a driver goes by. */
export interface Sizes {
  min_scale: number
  max_scale: number
  cpu: number
  cpu_limit: number
  memory_mb: number
  memory_limit_mb: number
  queue_min_scale: number
  queue_max_scale: number
  queue_cpu: number
  queue_cpu_limit: number
  queue_memory_mb: number
  queue_memory_limit_mb: number
  db_storage_gi: number
}

export function sizesOf(spec: ResourceSpec | null, source: Source, type: DeploymentType | null): Sizes {
  const given = spec ?? {}
  const prod = type === 'prod'
  const min_scale = given.min_scale ?? Math.min(1, given.max_scale ?? 1)
  const max_scale = given.max_scale ?? Math.max(min_scale, prod ? 10 : 1)
  const cpu = given.cpu ?? Math.min(prod ? 2 : 1, given.cpu_limit ?? 16)
  const memory_mb =
    given.memory_mb ?? Math.min(source === 'external_docker' || prod ? 2048 : 1024, given.memory_limit_mb ?? Infinity)
  const queue_cpu = given.queue_cpu ?? Math.min(cpu, given.queue_cpu_limit ?? 16)
  const queue_memory_mb = given.queue_memory_mb ?? Math.min(memory_mb, given.queue_memory_limit_mb ?? Infinity)
  const queue_min_scale = given.queue_min_scale ?? Math.min(min_scale, given.queue_max_scale ?? min_scale)
  return {
    min_scale,
    max_scale,
    cpu,
    cpu_limit: given.cpu_limit ?? 2 * cpu,
    memory_mb,
    memory_limit_mb: given.memory_limit_mb ?? 2 * memory_mb,
    queue_min_scale,
    queue_max_scale: given.queue_max_scale ?? Math.max(queue_min_scale, max_scale),
    queue_cpu,
    queue_cpu_limit: given.queue_cpu_limit ?? 2 * queue_cpu,
    queue_memory_mb,
    queue_memory_limit_mb: given.queue_memory_limit_mb ?? 2 * queue_memory_mb,
    db_storage_gi: given.db_storage_gi ?? DEFAULT_STORAGE_GI,
  }
}
