/** resource_spec (docs/spec/control-plane.md#resource-spec): contradictions between its members, and its stored form. */
import type { Container, ResourceSpec, VolumeMount } from '../../../schemas/deployments.js'

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

/** Contradictions between members; paths are relative to resource_spec. */
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

/** The known members in a fixed order; `cpu` values with one decimal. */
export function normalizeSpec(given: ResourceSpec): ResourceSpec {
  const out: { [name: string]: unknown } = {}
  for (const name of MEMBERS) {
    const value = given[name]
    if (value === undefined || value === null) continue
    out[name] = CPU.test(name) ? Math.round((value as number) * 10) / 10 : value
  }
  return out
}

const CPU = /cpu(_limit)?$/
const sizeMembers = (part: string): string[] =>
  ['cpu', 'cpu_limit', 'memory_mb', 'memory_limit_mb'].map(member => `${part}${member}`)
const scaleMembers = (part: string): string[] => [`${part}min_scale`, `${part}max_scale`]
const MEMBERS = [
  ...['', 'queue_', 'orchestrator_'].flatMap(part => [...scaleMembers(part), ...sizeMembers(part)]),
  ...sizeMembers('redis_'),
  ...sizeMembers('db_'),
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
