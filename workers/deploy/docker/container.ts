/**
 * The objects that the engine creates for one replica (docs/spec/control-plane.md#docker-driver): its containers,
 * networks and volumes. All names derive from the slug, the revision's number and the generation, so that a repeated
 * creation meets itself. Labels say whose each of them is; they carry no secret. Pure.
 */
import type { ContainerCreateOptions, MountSettings, NetworkCreateOptions, VolumeCreateOptions } from 'dockerode'
import type { Container, ResourceSpec, VolumeMount } from '../../../schemas/deployments.js'
import type { ImageSize } from '../images/size.js'
import type { ImageRevision } from '../images/start.js'
import { megabytesOf, millicoresOf } from './quantity.js'

export const LABEL = {
  manager: 'weft.managed-by',
  deployment: 'weft.deployment',
  slug: 'weft.slug',
  revision: 'weft.revision',
  pool: 'weft.pool',
  generation: 'weft.generation',
  /** Epoch of the task that has created it; `active` when an active revision was completed. */
  epoch: 'weft.epoch',
  /** `main`, `init`, `sidecar`. */
  part: 'weft.part',
  /** Name of the main container of the replica. */
  replica: 'weft.replica',
} as const
export const MANAGER = 'weft'
/** A fork bomb ends there; graph hosts for Python have up to 256 threads each. */
const MAX_PIDS = 4_096
const MB = 2 ** 20

export interface ReplicaPlan extends ImageRevision {
  /** The environment of the main container, with secrets. */
  env: { [name: string]: string }
  size: ImageSize
  spec: ResourceSpec | null
  /** Cores of the engine. */
  cores: number
  /** `host`: no network of its own. */
  network: string
  /** Time between SIGTERM and SIGKILL when the engine stops. */
  stop_seconds: number
}

export const replicaName = ({ slug, seq, generation }: Pick<ReplicaPlan, 'slug' | 'seq' | 'generation'>, n: number) =>
  `dep-${slug}-r${seq}-g${generation}-${n}`
export const networkName = ({ slug }: { slug: string }) => `dep-${slug}`

export const deploymentLabels = ({ deployment_id, slug }: { deployment_id: string; slug: string }) => ({
  [LABEL.manager]: MANAGER,
  [LABEL.deployment]: deployment_id,
  [LABEL.slug]: slug,
})

function labelsOf(plan: ReplicaPlan, part: 'main' | 'init' | 'sidecar', replica: string): { [name: string]: string } {
  const given = { ...plan.spec?.annotations, ...plan.spec?.labels }
  return {
    ...Object.fromEntries(Object.entries(given).map(([name, value]) => [name, textOf(value)])),
    ...deploymentLabels(plan),
    [LABEL.revision]: plan.revision_id,
    [LABEL.pool]: plan.pool,
    [LABEL.generation]: String(plan.generation),
    [LABEL.epoch]: String(plan.epoch),
    [LABEL.part]: part,
    [LABEL.replica]: replica,
  }
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value))

export function mainContainer(plan: ReplicaPlan, n: number): ContainerCreateOptions & { name: string } {
  const { size, network } = plan
  const name = replicaName(plan, n)
  return {
    name,
    Image: plan.image,
    Env: Object.entries({ ...plan.env, ...probesOf(network), WEFT_REPLICA: name }).map(
      ([key, value]) => `${key}=${value}`,
    ),
    // On the network of the machine it would ask another container, or the server.
    ...(network === 'host' ? { Healthcheck: { Test: ['NONE'] } } : {}),
    Labels: labelsOf(plan, 'main', name),
    StopSignal: 'SIGTERM',
    StopTimeout: plan.stop_seconds,
    HostConfig: {
      ...limits(plan.cores, size.cpu, size.cpu_limit, size.memory_mb, size.memory_limit_mb),
      ...ISOLATION,
      // No restart while it is deployed, so that a crash is seen; an active revision gets another policy.
      RestartPolicy: { Name: 'no' },
      NetworkMode: network === 'host' ? 'host' : networkName(plan),
      Mounts: mountsOf(plan, name, plan.spec?.volume_mounts),
    },
  }
}

/** The HEALTHCHECK of our image, and of those made from it, asks PORT for `/ok`. */
const probesOf = (network: string): { [name: string]: string } =>
  network === 'host' ? {} : { PORT: '8000', WEFT_HEALTH_PORT: '8000' }

/** `main`: the id of the main container, whose network a sidecar shares. */
export function sidecarContainer(
  plan: ReplicaPlan,
  n: number,
  container: Container,
  main: string,
): ContainerCreateOptions & { name: string } {
  const replica = replicaName(plan, n)
  const { Name, options } = partOf(plan, replica, container, 'sidecar')
  return {
    ...options,
    name: Name,
    HostConfig: {
      ...options.HostConfig,
      NetworkMode: `container:${main}`,
      RestartPolicy: { Name: container.restartPolicy === 'OnFailure' ? 'on-failure' : 'always' },
    },
  }
}

export function initContainer(
  plan: ReplicaPlan,
  n: number,
  container: Container,
): ContainerCreateOptions & { name: string } {
  const { Name, options } = partOf(plan, replicaName(plan, n), container, 'init')
  const NetworkMode = plan.network === 'host' ? 'host' : networkName(plan)
  return { ...options, name: Name, HostConfig: { ...options.HostConfig, NetworkMode } }
}

function partOf(
  plan: ReplicaPlan,
  replica: string,
  container: Container,
  part: 'init' | 'sidecar',
): { Name: string; options: ContainerCreateOptions } {
  const { resources, securityContext: security } = container
  const cpu = millicoresOf(resources?.limits?.cpu ?? resources?.requests?.cpu ?? 1) ?? 1_000
  const memory = megabytesOf(resources?.limits?.memory ?? resources?.requests?.memory ?? '512Mi') ?? 512
  const user = [security?.runAsUser, security?.runAsGroup].filter(id => id !== undefined && id !== null)
  return {
    Name: `${replica}-${container.name}`,
    options: {
      Image: container.image,
      Labels: labelsOf(plan, part, replica),
      ...(container.command ? { Entrypoint: container.command } : {}),
      ...(container.args ? { Cmd: container.args } : {}),
      ...(container.workingDir ? { WorkingDir: container.workingDir } : {}),
      ...(user.length > 0 ? { User: user.join(':') } : {}),
      Env: (container.env ?? []).map(({ name, value }) => `${name}=${value ?? ''}`),
      HostConfig: {
        ...limits(plan.cores, cpu / 1_000, cpu / 1_000, memory, memory),
        ...ISOLATION,
        ...(security?.readOnlyRootFilesystem === true ? { ReadonlyRootfs: true } : {}),
        Mounts: mountsOf(plan, replica, container.volumeMounts),
      },
    },
  }
}

const ISOLATION = { PidsLimit: MAX_PIDS, SecurityOpt: ['no-new-privileges'] }

/** Swap equal to memory grants no swap. An engine refuses more cores than it has. */
const limits = (cores: number, cpu: number, cpu_limit: number, memory_mb: number, memory_limit_mb: number) => ({
  NanoCpus: Math.round(Math.min(cores, cpu_limit) * 1e9),
  CpuShares: Math.max(2, Math.round(cpu * 1_024)),
  Memory: memory_limit_mb * MB,
  MemoryReservation: memory_mb * MB,
  MemorySwap: memory_limit_mb * MB,
})

/** A claim belongs to the deployment, an emptyDir to the replica. */
const volumeName = (plan: ReplicaPlan, replica: string, volume: string): string => {
  const { persistentVolumeClaim: claim, nfs } = plan.spec!.volumes!.find(({ name }) => name === volume)!
  if (claim) return `dep-${plan.slug}-claim-${claim.claimName as string}`
  return nfs ? `dep-${plan.slug}-g${plan.generation}-${volume}` : `${replica}-${volume}`
}

const mountsOf = (
  plan: ReplicaPlan,
  replica: string,
  mounts: readonly VolumeMount[] | null | undefined,
): MountSettings[] =>
  (mounts ?? []).map(({ name, mountPath, readOnly }) => ({
    Type: 'volume' as const,
    Source: volumeName(plan, replica, name!),
    Target: mountPath!,
    ReadOnly: readOnly === true,
  }))

/** The volumes of a replica; those of claims and of NFS are shared by all replicas. */
export function volumesOf(plan: ReplicaPlan, n: number): VolumeCreateOptions[] {
  const replica = replicaName(plan, n)
  return (plan.spec?.volumes ?? []).map(({ name, emptyDir, nfs, persistentVolumeClaim }) => ({
    Name: volumeName(plan, replica, name),
    Driver: 'local',
    Labels: {
      ...deploymentLabels(plan),
      ...(persistentVolumeClaim || nfs ? {} : { [LABEL.revision]: plan.revision_id, [LABEL.replica]: replica }),
    },
    DriverOpts: nfs ? nfsOptions(nfs) : emptyDir?.medium === 'Memory' ? memoryOptions(emptyDir) : {},
  }))
}

const nfsOptions = (nfs: { [name: string]: unknown }) => ({
  type: 'nfs',
  o: `addr=${nfs.server},${nfs.readOnly === true ? 'ro' : 'rw'}`,
  device: `:${nfs.path}`,
})

const memoryOptions = ({ sizeLimit }: { [name: string]: unknown }) => ({
  type: 'tmpfs',
  device: 'tmpfs',
  o: `size=${megabytesOf(sizeLimit) ?? 64}m`,
})

export const networkOf = (plan: { deployment_id: string; slug: string }): NetworkCreateOptions => ({
  Name: networkName(plan),
  Driver: 'bridge',
  Labels: deploymentLabels(plan),
})
