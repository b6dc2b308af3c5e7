/**
 * The kubernetes driver (docs/spec/control-plane.md#kubernetes-driver): serves images as Deployments of a cluster. The
 * objects in the cluster are the record of what runs: their labels name deployment, revision and generation, and they
 * outlive the deploy worker, which finds them again. Nothing is written on this machine. The kubelet restarts what exits.
 */
import type { V1Deployment } from '@kubernetes/client-node'
import type { ActiveDeployment } from '../../../schemas/deploy-calls.js'
import type { Driver, Step } from '../driver.js'
import { retry } from '../fault.js'
import { keepEach, openDrains, surplus } from '../fleet.js'
import { askedByTask } from '../images/asked.js'
import { loopbackHosts } from '../images/environment.js'
import { openGenerations } from '../images/generations.js'
import { startByTask } from '../images/start.js'
import { isScaled } from '../scaling.js'
import { ofRevision, pruneManifests } from './apply.js'
import { DEPLOYMENT } from './cluster.js'
import { openEndings } from './endings.js'
import { openKeep } from './keep.js'
import type { Group, KubernetesOptions, Shared } from './options.js'
import { namespaceOf, workloadOf } from './plan.js'
import { openPods } from './pods.js'
import { policyOf, problemsOf } from './problems.js'
import { openRecords, type Recorded } from './records.js'
import { LABEL, MANAGER, renderManifests, type Workload, workloadName } from './render.js'
import { openReplace, start } from './settle.js'

const LOOK_MS = 2_000
/** Before a request is repeated that the cluster did not answer. */
const PAUSES_MS = [1_000, 2_000, 5_000, 15_000]

export function openKubernetesDriver(options: KubernetesOptions): Driver {
  const { cluster, config, log, look_ms = LOOK_MS, pauses_ms = PAUSES_MS } = options
  const policy = policyOf(config)
  const groups = new Map<string, Group>()
  const stop = new AbortController()
  const stopping = stop.signal
  const pods = openPods({ ...options, look_ms })
  const endings = openEndings(cluster, config, look_ms, stopping)
  const shared: Shared = { ...options, groups, pods, endings, stopping }
  const generations = openGenerations({
    ...options,
    problemsOf: asked => problemsOf(asked, policy),
    planOf: start => workloadOf(options, policy, start),
  })
  const keep = openKeep(shared, generations, openReplace(shared, generations))
  const records = openRecords(shared)
  const beginDrain = openDrains(log)

  async function deploy({ task, signal, log: logOf }: Step, artefact: string) {
    const say = logOf('deploy')
    const local = loopbackHosts(options.nats_url)
    if (local.length > 0)
      say('WARNING', `pods reach ${local.join(', ')} only when a sidecar answers there; see WEFT_GRAPHS_NATS_URL`)
    const workload = workloadOf(options, policy, startByTask(task, artefact))
    // Its graphs must be loaded once.
    const group: Group = { workload, count: Math.max(1, workload.size.range.min), deploying: true }
    groups.set(task.revision_id, group)
    const repeat = (work: () => Promise<void>) => retry(pauses_ms, signal, line => say('WARNING', line), work)
    await repeat(() => start(shared, group, signal))
    const { namespace } = workload.revision
    say('INFO', `applied Deployment ${workloadName(workload.revision)} in namespace ${namespace}`)
    const graphs = await pods.ready(workload, config.deploy_stable_ms, signal)
    await repeat(() => pruneManifests(cluster, renderManifests(workload), namespace, ofRevision(task.revision_id)))
    say('INFO', `ready: ${graphs.map(({ graph_id }) => graph_id).join(', ')}`)
    return { graphs, image_version: null }
  }

  const drain = (record: Recorded): void =>
    beginDrain(record, async () => {
      groups.delete(record.revision_id)
      await endings.gracefully(record.namespace, ofRevision(record.revision_id))
      await records.forget(record)
    })

  async function reconcile(active: readonly ActiveDeployment[], held: ReadonlySet<string>): Promise<void> {
    const isSurplus = surplus(active, held)
    const namespaces = new Set([...policy.namespaces, ...active.map(one => namespaceOf(policy, one.namespace))])
    const results = await Promise.allSettled(
      [...namespaces].map(async namespace => {
        const [found, deployments] = await Promise.all([
          records.list(namespace),
          cluster.list<V1Deployment>(DEPLOYMENT, namespace, { [LABEL.manager]: MANAGER }),
        ])
        for (const record of found) if (isSurplus(record.revision_id)) drain(record)
        const here = active.filter(one => namespaceOf(policy, one.namespace) === namespace)
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
      const namespace = namespaceOf(policy, deployment.source_config.listener_config?.k8s_namespace)
      const found = await records.list(namespace, ofRevision(revision_id))
      // Objects of a later holder of the task stay.
      await records.remove(found.filter(({ epochs }) => epochs.every(one => Number(one) <= epoch)))
    },
    reconcile,
    async destroy({ deployment_id, deployment }) {
      const namespace = namespaceOf(policy, deployment.source_config.listener_config?.k8s_namespace)
      await records.remove(await records.list(namespace, { [LABEL.deployment]: deployment_id }))
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
        if (n > 0) await pods.ready(group.workload, 0, stopping)
      },
    },
    /** The pods go on; the next deploy worker finds them. */
    async stop() {
      stop.abort()
      pods.close()
    },
  }
}

const isScaledByKeda = ({ scaling, size }: Workload) => scaling.keda !== '' && isScaled(size.range)
