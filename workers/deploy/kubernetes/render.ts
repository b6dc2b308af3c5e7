/**
 * The objects of a revision in a cluster (docs/spec/control-plane.md#kubernetes-driver). Each generation of a revision
 * has a Deployment of graph workers of its own, so that it starts beside what serves and nothing is lost when it does
 * not become ready. The cutover is a change of pool. There is no Service, because clients reach the edge, and replicas
 * connect to the broker. Pure.
 */
import { hash } from 'node:crypto'
import { ROLES_ACCOUNT } from '../../../bus/rights.js'
import type { Container, ResourceSpec, SecretReference } from '../../../schemas/deployments.js'
import { token } from '../../../schemas/ids.js'
import { consumerOf, RUNS_STREAM } from '../../../schemas/subjects.js'
import type { ImageSize } from '../images/size.js'
import type { ImageRevision } from '../images/start.js'
import { isScaled } from '../scaling.js'

type Strings = { [name: string]: string }

/** An object of the cluster, as it is applied. */
export interface Manifest {
  apiVersion: string
  kind: string
  metadata: { name: string; namespace: string; labels: Strings; annotations: Strings }
  [member: string]: unknown
}

export const LABEL = {
  manager: 'app.kubernetes.io/managed-by',
  deployment: 'weft.dev/deployment',
  revision: 'weft.dev/revision',
  generation: 'weft.dev/generation',
} as const
export const MANAGER = 'weft'
/** Epoch of the task that has applied the object; `active` when it belonged to the active revision. */
export const EPOCH = 'weft.dev/epoch'
export const CONTAINER = 'graphs'
const HEALTH_PORT = 8_000
/** A roll-out that makes no progress for this long has failed. */
const PROGRESS_SECONDS = 600

export interface RevisionInCluster extends ImageRevision {
  namespace: string
}

export interface Workload {
  revision: RevisionInCluster
  spec: ResourceSpec | null
  size: ImageSize
  /** Variables without secrets; they override secrets of the same name. */
  env: Strings
  /** Secrets of the deployment and the address of the broker: they are in a Secret only. */
  secrets: Strings
  secret_references: readonly SecretReference[]
  /** Time for a replica to finish its runs when it is stopped. */
  grace_seconds: number
  scaling: {
    /** Runs for each replica. */
    runs_each: number
    down_ms: number
    /** host:port of the monitoring pages of the NATS server, which KEDA reads; empty: no KEDA. */
    keda: string
  }
}

/** The slug is a DNS label with a hash of the deployment's id. */
export const workloadName = ({
  slug,
  seq,
  generation,
}: Pick<RevisionInCluster, 'slug' | 'seq' | 'generation'>): string => `${slug}-r${seq}-g${generation}`

/** In the order of their creation: the ConfigMap is the record that the others may exist. */
export function renderManifests(workload: Workload): Manifest[] {
  const { revision, spec, size, env, secrets, scaling } = workload
  const name = workloadName(revision)
  const object = (apiVersion: string, kind: string, name: string, members: object): Manifest => ({
    apiVersion,
    kind,
    metadata: {
      name,
      namespace: revision.namespace,
      labels: { ...textsIn(spec?.labels), ...labelsOf(revision) },
      annotations: { ...textsIn(spec?.annotations), [EPOCH]: String(revision.epoch) },
    },
    ...members,
  })
  const base64 = (text: string) => Buffer.from(text).toString('base64')
  const data = Object.fromEntries(Object.entries(secrets).map(([key, value]) => [key, base64(value)]))
  const names = { config: nameByContent(name, env), secret: nameByContent(name, secrets) }
  const { min } = size.range
  return [
    object('v1', 'ConfigMap', names.config, { immutable: true, data: env }),
    object('v1', 'Secret', names.secret, { type: 'Opaque', immutable: true, data }),
    object('apps/v1', 'Deployment', name, { spec: deploymentSpec(workload, names) }),
    ...(isScaled(size.range) && scaling.keda !== ''
      ? [object('keda.sh/v1alpha1', 'ScaledObject', name, { spec: scaledObject(workload, name) })]
      : []),
    ...(min > 1
      ? [
          object('policy/v1', 'PodDisruptionBudget', name, {
            spec: { minAvailable: 1, selector: { matchLabels: selectorOf(revision) } },
          }),
        ]
      : []),
  ]
}

/** Another content is another object, so that pods are replaced with it, and those that run keep theirs. */
const nameByContent = (name: string, content: Strings): string =>
  `${name}-${hash('sha256', JSON.stringify(Object.entries(content).sort())).slice(0, 8)}`

const labelsOf = ({ deployment_id, revision_id, generation }: RevisionInCluster): Strings => ({
  [LABEL.manager]: MANAGER,
  [LABEL.deployment]: deployment_id,
  [LABEL.revision]: revision_id,
  [LABEL.generation]: String(generation),
})

export const selectorOf = ({
  revision_id,
  generation,
}: Pick<RevisionInCluster, 'revision_id' | 'generation'>): Strings => ({
  [LABEL.revision]: revision_id,
  [LABEL.generation]: String(generation),
})

const textsIn = (given: { [name: string]: unknown } | null | undefined): Strings =>
  Object.fromEntries(
    Object.entries(given ?? {}).map(([name, value]) => [
      name,
      typeof value === 'string' ? value : JSON.stringify(value),
    ]),
  )

function deploymentSpec(workload: Workload, names: { config: string; secret: string }): object {
  const { revision, spec, size } = workload
  const { min } = size.range
  const init = initContainers(spec)
  return {
    // Whoever scales it owns the number: KEDA, or the deploy worker by the subresource.
    ...(isScaled(size.range) ? {} : { replicas: min }),
    progressDeadlineSeconds: PROGRESS_SECONDS,
    revisionHistoryLimit: 1,
    selector: { matchLabels: selectorOf(revision) },
    // A new template comes from other settings of the deploy worker, as another address of the broker.
    strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: '100%', maxUnavailable: 0 } },
    template: {
      metadata: {
        labels: { ...textsIn(spec?.labels), ...labelsOf(revision) },
        annotations: textsIn(spec?.annotations),
      },
      spec: {
        terminationGracePeriodSeconds: workload.grace_seconds,
        // Graphs need no access to the cluster, unless an account was given to them.
        ...(spec?.service_account_name
          ? { serviceAccountName: spec.service_account_name }
          : { automountServiceAccountToken: false }),
        ...(spec?.image_pull_secrets?.length ? { imagePullSecrets: spec.image_pull_secrets } : {}),
        securityContext: { seccompProfile: { type: 'RuntimeDefault' } },
        ...(init.length > 0 ? { initContainers: init } : {}),
        containers: [mainContainer(workload, names), ...plainSidecars(spec)],
        ...(spec?.volumes?.length ? { volumes: spec.volumes.map(withoutNulls) } : {}),
      },
    },
  }
}

function mainContainer(
  { revision, spec, size, secret_references }: Workload,
  names: { config: string; secret: string },
): object {
  const probe = (path: string, failureThreshold: number) => ({
    httpGet: { path, port: 'health' },
    periodSeconds: 5,
    timeoutSeconds: 3,
    failureThreshold,
  })
  return {
    name: CONTAINER,
    image: revision.image,
    ports: [{ name: 'health', containerPort: HEALTH_PORT }],
    envFrom: [{ secretRef: { name: names.secret } }, { configMapRef: { name: names.config } }],
    env: [
      { name: 'WEFT_HEALTH_PORT', value: String(HEALTH_PORT) },
      { name: 'WEFT_REPLICA', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } },
      ...secret_references.map(({ name, secret_name, secret_key }) => ({
        name,
        valueFrom: { secretKeyRef: { name: secret_name, key: secret_key } },
      })),
    ],
    resources: {
      requests: { cpu: millicores(size.cpu), memory: `${size.memory_mb}Mi` },
      limits: { cpu: millicores(size.cpu_limit), memory: `${size.memory_limit_mb}Mi` },
    },
    readinessProbe: probe('/ok', 3),
    livenessProbe: probe('/live', 6),
    // Five minutes until the process answers.
    startupProbe: probe('/live', 60),
    securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
    ...(spec?.volume_mounts?.length ? { volumeMounts: spec.volume_mounts.map(withoutNulls) } : {}),
  }
}

const millicores = (cores: number): string => `${Math.round(cores * 1_000)}m`

/** Clients send null for members that they do not give. What is inside free-form members stays as it is. */
const withoutNulls = (value: object): object =>
  Object.fromEntries(Object.entries(value).filter(([, member]) => member !== null && member !== undefined))

/** A cluster restarts a sidecar by itself only as an init container with `restartPolicy: Always`; it starts after the others. */
function initContainers(spec: ResourceSpec | null): object[] {
  const sidecars = (spec?.sidecars ?? []).filter(({ restartPolicy }) => restartPolicy === 'Always')
  return [
    ...(spec?.init_containers ?? []).map(one => partOf(one)),
    ...sidecars.map(one => ({ ...partOf(one), restartPolicy: 'Always' })),
  ]
}

const plainSidecars = (spec: ResourceSpec | null): object[] =>
  (spec?.sidecars ?? []).filter(({ restartPolicy }) => restartPolicy !== 'Always').map(partOf)

function partOf({ restartPolicy: _, env, volumeMounts, resources, ...rest }: Container): object {
  return {
    ...withoutNulls(rest),
    ...(env ? { env: env.map(withoutNulls) } : {}),
    ...(resources ? { resources: withoutNulls(resources) } : {}),
    ...(volumeMounts ? { volumeMounts: volumeMounts.map(withoutNulls) } : {}),
  }
}

/** Scales by the messages of the pool's consumer that are not acknowledged. */
function scaledObject({ revision, size, scaling }: Workload, name: string): object {
  const down_seconds = Math.round(scaling.down_ms / 1_000)
  return {
    scaleTargetRef: { name },
    // KEDA sees runs, but no questions that need a graph: one replica stays to answer them.
    minReplicaCount: Math.max(1, size.range.min),
    maxReplicaCount: size.range.max,
    advanced: {
      horizontalPodAutoscalerConfig: {
        // A cluster allows one hour.
        behavior: { scaleDown: { stabilizationWindowSeconds: Math.min(3_600, down_seconds) } },
      },
    },
    triggers: [
      {
        type: 'nats-jetstream',
        metadata: {
          natsServerMonitoringEndpoint: scaling.keda,
          account: ROLES_ACCOUNT,
          stream: RUNS_STREAM,
          consumer: consumerOf(token('pool', revision.pool)),
          lagThreshold: String(scaling.runs_each),
        },
      },
    ],
  }
}
