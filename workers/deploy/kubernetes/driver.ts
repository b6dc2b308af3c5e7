/**
 * The kubernetes driver (docs/spec/control-plane.md#kubernetes-driver): serves images as Deployments of a cluster. The
 * objects in the cluster are the record of what runs: their labels name deployment, revision and generation, and they
 * outlive the deploy worker, which finds them again. Nothing is written on this machine. The kubelet restarts what exits.
 */
import type { KubernetesObject, V1Deployment } from '@kubernetes/client-node'
import { type ActiveDeployment, poolOf } from '../../../schemas/deploy-calls.js'
import type { Driver, Step } from '../driver.js'
import { Fault, retry, Stopped } from '../fault.js'
import { keepEach, openDrains, surplus } from '../fleet.js'
import { askedByTask } from '../images/asked.js'
import { loopbackHosts, platformEnv } from '../images/environment.js'
import { openGenerations } from '../images/generations.js'
import type { ImageDriverOptions } from '../images/options.js'
import { imageSizeOf } from '../images/size.js'
import { type ImageStart, startByTask } from '../images/start.js'
import { natsUrlOf } from '../nats-url.js'
import { isScaled, within } from '../scaling.js'
import { applyManifests, endWorkloads, ofRevision, pruneManifests } from './apply.js'
import { type Cluster, CONFIG_MAP, DEPLOYMENT } from './cluster.js'
import { findDeployment, openPods } from './pods.js'
import { policyOf, problemsOf } from './problems.js'
import { EPOCH, LABEL, MANAGER, renderManifests, selectorOf, type Workload, workloadName } from './render.js'

const LOOK_MS = 2_000
/** Before a request is repeated that the cluster did not answer. */
const PAUSES_MS = [1_000, 2_000, 5_000, 15_000]
/** Beyond its grace a pod ends soon, unless its node does not answer. */
const PATIENCE_MS = 60_000

export interface KubernetesOptions extends ImageDriverOptions {
  cluster: Cluster
  look_ms?: number
  pauses_ms?: readonly number[]
}

/** A generation of a revision that this worker has applied or found. */
interface Group {
  workload: Workload
  count: number
  /** Before its cutover, or before it has replaced an earlier generation. */
  deploying: boolean
}

export function openKubernetesDriver(options: KubernetesOptions): Driver {
  const { cluster, config, log, look_ms = LOOK_MS, pauses_ms = PAUSES_MS } = options
  const policy = policyOf(config)
  const groups = new Map<string, Group>()
  const generations = openGenerations({
    ...options,
    problemsOf: asked => problemsOf(asked, policy),
    planOf: workloadOf,
  })
  const beginDrain = openDrains(log)
  const stopping = new AbortController()
  const pods = openPods({ ...options, look_ms })
  const stop_seconds = Math.ceil(config.stop_ms / 1_000) + 2
  const grace_seconds = Math.ceil(config.drain_ms / 1_000) + stop_seconds

  const namespaceOf = (given: string | null | undefined): string => given || policy.namespaces[0]!

  function workloadOf({ revision, namespace, spec, secrets, pool_user, secret_references }: ImageStart): Workload {
    const size = imageSizeOf(spec)
    return {
      revision: { ...revision, namespace: namespaceOf(namespace) },
      spec,
      size,
      env: platformEnv(options, revision, size),
      secrets: { ...secrets, NATS_URL: natsUrlOf(options.nats_url, pool_user) },
      secret_references,
      grace_seconds,
      scaling: { runs_each: config.scale_runs, down_ms: config.scale_down_ms, keda: config.kubernetes_keda },
    }
  }

  async function start({ workload, count }: Group, signal: AbortSignal): Promise<void> {
    const { revision } = workload
    const present = await findDeployment(cluster, workload)
    // An earlier attempt is being removed.
    if (present?.metadata?.deletionTimestamp !== undefined)
      await endQuickly(revision.namespace, selectorOf(revision), signal)
    await applyManifests(cluster, renderManifests(workload), signal)
    if (isScaled(workload.size.range) && (present?.spec?.replicas ?? 1) !== count)
      await cluster.scale(revision.namespace, workloadName(revision), count)
  }

  async function deploy({ task, signal, log: logOf }: Step, artefact: string) {
    const say = logOf('deploy')
    const local = loopbackHosts(options.nats_url)
    if (local.length > 0)
      say('WARNING', `pods reach ${local.join(', ')} only when a sidecar answers there; see WEFT_GRAPHS_NATS_URL`)
    const workload = workloadOf(startByTask(task, artefact))
    // Its graphs must be loaded once.
    const group: Group = { workload, count: Math.max(1, workload.size.range.min), deploying: true }
    groups.set(task.revision_id, group)
    const repeat = (work: () => Promise<void>) => retry(pauses_ms, signal, line => say('WARNING', line), work)
    await repeat(() => start(group, signal))
    const { namespace } = workload.revision
    say('INFO', `applied Deployment ${workloadName(workload.revision)} in namespace ${namespace}`)
    const graphs = await pods.ready(workload, config.deploy_stable_ms, signal)
    await repeat(() => pruneManifests(cluster, renderManifests(workload), namespace, ofRevision(task.revision_id)))
    say('INFO', `ready: ${graphs.map(({ graph_id }) => graph_id).join(', ')}`)
    return { graphs, image_version: null }
  }

  /** Adopts what runs, starts what is missing, replaces what has another size. */
  async function keep(active: ActiveDeployment, deployments: readonly V1Deployment[]): Promise<void> {
    const { revision_id, generation } = active
    const of = (generation: number) =>
      deployments.find(({ metadata }) => metadata!.labels![LABEL.generation] === String(generation))
    const group = groups.get(revision_id)
    const isTried = generations.hasFailed(active)
    if (group !== undefined && (isTried || group.workload.revision.generation === generation)) {
      const found = of(group.workload.revision.generation)
      const isReplacing = group.deploying && group.workload.revision.epoch === 'active'
      if (isReplacing) return
      if (found !== undefined) {
        group.deploying = false
        group.count = found.spec?.replicas ?? 1
        return pods.follow(group.workload)
      }
    } else if (isTried && deployments.length > 0) return
    const earlier = deployments.find(one => one !== of(generation))
    const workload = await generations.plan(active, {
      isThere: of(generation) !== undefined,
      isServed: earlier !== undefined,
    })
    if (workload === null) return
    const present = (of(generation) ?? earlier)?.spec?.replicas ?? Math.max(1, workload.size.range.min)
    const next: Group = {
      workload,
      count: within(workload.size.range, present),
      deploying: earlier !== undefined,
    }
    const previous = earlier === undefined ? null : (group ?? null)
    groups.set(revision_id, next)
    try {
      await start(next, stopping.signal)
    } catch (error) {
      if (earlier !== undefined && error instanceof Fault && !error.retryable) return giveUp(next, previous, error)
      restore(revision_id, previous)
      throw error
    }
    void settle(next, previous).catch(error =>
      log.warn({ err: error, revision_id }, 'an active revision could not be checked'),
    )
  }

  function restore(revision_id: string, previous: Group | null): void {
    if (previous === null) groups.delete(revision_id)
    else groups.set(revision_id, previous)
  }

  /** The generation is not tried again; what it has made is removed. */
  async function giveUp({ workload }: Group, previous: Group | null, error: unknown): Promise<void> {
    const { revision_id, namespace } = workload.revision
    generations.giveUp(workload.revision, error)
    restore(revision_id, previous)
    await endQuickly(namespace, selectorOf(workload.revision), stopping.signal)
    await pruneManifests(cluster, [], namespace, selectorOf(workload.revision))
  }

  /** Waits until the generation is ready and removes earlier ones; if it fails, it is removed and they stay. */
  async function settle(group: Group, previous: Group | null): Promise<void> {
    const { workload } = group
    const { revision_id, generation, namespace } = workload.revision
    try {
      await pods.ready(group.workload, 0, stopping.signal)
    } catch (error) {
      if (error instanceof Stopped || groups.get(revision_id) !== group) return
      // The cluster did not answer: it is looked at again.
      if (error instanceof Fault && error.retryable) return restore(revision_id, previous)
      // Nothing else serves.
      if (!group.deploying) return log.error({ err: error, revision_id }, 'an active revision is not ready')
      return giveUp(group, previous, error)
    }
    if (groups.get(revision_id) !== group) return
    group.deploying = false
    // Their runs go on with the new pods.
    for (const { metadata } of await cluster.list<V1Deployment>(DEPLOYMENT, namespace, ofRevision(revision_id)))
      if (metadata!.name !== workloadName(workload.revision))
        await endGracefully(namespace, {
          ...ofRevision(revision_id),
          [LABEL.generation]: metadata!.labels![LABEL.generation]!,
        })
    await pruneManifests(cluster, renderManifests(workload), namespace, ofRevision(revision_id))
    log.info({ revision_id, generation, replicas: group.count }, 'active revision is ready')
  }

  const endGracefully = (namespace: string, labels: { [name: string]: string }) =>
    endWorkloads(cluster, {
      namespace,
      labels,
      grace_seconds: null,
      patience_ms: grace_seconds * 1_000 + PATIENCE_MS,
      look_ms,
      signal: stopping.signal,
    })
  const endQuickly = (namespace: string, labels: { [name: string]: string }, signal = new AbortController().signal) =>
    endWorkloads(cluster, {
      namespace,
      labels,
      grace_seconds: stop_seconds,
      patience_ms: stop_seconds * 1_000 + PATIENCE_MS,
      look_ms,
      signal,
    })

  /** A revision that has objects in the cluster. */
  interface Recorded {
    deployment_id: string
    revision_id: string
    namespace: string
    epochs: string[]
  }

  /** `labels`: of these only. */
  async function listRecords(namespace: string, labels: { [name: string]: string } = {}): Promise<Recorded[]> {
    const found = await cluster.list<KubernetesObject>(CONFIG_MAP, namespace, { [LABEL.manager]: MANAGER, ...labels })
    const records = new Map<string, Recorded>()
    for (const { metadata } of found) {
      const { [LABEL.deployment]: deployment_id, [LABEL.revision]: revision_id } = metadata!.labels!
      if (deployment_id === undefined || revision_id === undefined) continue
      const one = records.get(revision_id) ?? { deployment_id, revision_id, namespace, epochs: [] }
      one.epochs.push(metadata!.annotations?.[EPOCH] ?? '')
      records.set(revision_id, one)
    }
    return [...records.values()]
  }

  /** The pool first, the record last: what was interrupted is repeated. */
  async function forget({ revision_id, namespace }: Recorded): Promise<void> {
    await options.retire(poolOf(revision_id))
    await pruneManifests(cluster, [], namespace, ofRevision(revision_id))
    groups.delete(revision_id)
  }

  const drain = (record: Recorded): void =>
    beginDrain(record, async () => {
      groups.delete(record.revision_id)
      await endGracefully(record.namespace, ofRevision(record.revision_id))
      await forget(record)
    })

  async function removeAll(records: readonly Recorded[]): Promise<void> {
    await Promise.all(
      records.map(async record => {
        groups.delete(record.revision_id)
        await endQuickly(record.namespace, ofRevision(record.revision_id))
        await forget(record)
      }),
    )
  }

  async function reconcile(active: readonly ActiveDeployment[], held: ReadonlySet<string>): Promise<void> {
    const isSurplus = surplus(active, held)
    const namespaces = new Set([...policy.namespaces, ...active.map(one => namespaceOf(one.namespace))])
    const results = await Promise.allSettled(
      [...namespaces].map(async namespace => {
        const [records, deployments] = await Promise.all([
          listRecords(namespace),
          cluster.list<V1Deployment>(DEPLOYMENT, namespace, { [LABEL.manager]: MANAGER }),
        ])
        for (const record of records) if (isSurplus(record.revision_id)) drain(record)
        const here = active.filter(one => namespaceOf(one.namespace) === namespace)
        const present = deployments.filter(({ metadata }) => metadata!.deletionTimestamp === undefined)
        await keepEach(here, log, one =>
          keep(
            one,
            present.filter(({ metadata }) => metadata!.labels![LABEL.revision] === one.revision_id),
          ),
        )
      }),
    )
    // A namespace that is missing or closed stops no other one.
    for (const result of results) if (result.status === 'rejected') throw result.reason
  }

  return {
    sources: ['external_docker'],
    problems: task => problemsOf(askedByTask(task), policy),
    /** The kubelet pulls the image. */
    build: async ({ task }) => ({ artefact: task.artefact ?? task.revision.source_revision_config.image_uri! }),
    has: async () => true,
    deploy,
    async undo({ revision_id, epoch, deployment }) {
      const namespace = namespaceOf(deployment.source_config.listener_config?.k8s_namespace)
      const records = await listRecords(namespace, ofRevision(revision_id))
      // Objects of a later holder of the task stay.
      await removeAll(records.filter(({ epochs }) => epochs.every(one => Number(one) <= epoch)))
    },
    reconcile,
    async destroy({ deployment_id, deployment }) {
      const namespace = namespaceOf(deployment.source_config.listener_config?.k8s_namespace)
      await removeAll(await listRecords(namespace, { [LABEL.deployment]: deployment_id }))
    },
    scaling: {
      replicas(revision_id) {
        const group = groups.get(revision_id)
        return group === undefined || group.deploying || isScaledByKeda(group.workload) ? null : group.count
      },
      async scale(revision_id, n) {
        const group = groups.get(revision_id)
        if (group === undefined || group.deploying) return
        group.count = n
        const { revision } = group.workload
        await cluster.scale(revision.namespace, workloadName(revision), n)
        if (n > 0) await pods.ready(group.workload, 0, stopping.signal)
      },
    },
    /** The pods go on; the next deploy worker finds them. */
    async stop() {
      stopping.abort()
      pods.close()
    },
  }
}

const isScaledByKeda = ({ scaling, size }: Workload) => scaling.keda !== '' && isScaled(size.range)
