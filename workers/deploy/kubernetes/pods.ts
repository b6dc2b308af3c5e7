/** The pods of a generation: whether they are ready, why they are not, and what they write. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { V1Deployment, V1Pod } from '@kubernetes/client-node'
import type { Graph } from '../../../schemas/deploy-calls.js'
import { openRedactor } from '../../../schemas/redact.js'
import { Fault, throwIfStopped } from '../fault.js'
import type { Beats } from '../images/beats.js'
import type { RevisionLog } from '../log.js'
import { type Cluster, DEPLOYMENT, POD } from './cluster.js'
import { openObserver, type Verdict } from './observe.js'
import { openPodLogs } from './pod-logs.js'
import { CONTAINER, selectorOf, type Workload, workloadName } from './render.js'

const READY_MS = 10 * 60_000

export interface PodsOptions {
  cluster: Cluster
  beats: Beats
  logOf(ids: { deployment_id: string; revision_id: string }): RevisionLog
  look_ms: number
}

export interface Pods {
  /**
   * Resolves to the graphs when all pods were ready for `stable_ms`. Throws Stopped, or a Fault, which is retryable when the
   * cluster did not answer.
   */
  ready(workload: Workload, stable_ms: number, signal: AbortSignal): Promise<Graph[]>
  /** Follows the output of those that run and are not followed yet. */
  follow(workload: Workload): Promise<void>
  close(): void
}

export const findDeployment = (cluster: Cluster, { revision }: Workload): Promise<V1Deployment | null> =>
  cluster.get<V1Deployment>(DEPLOYMENT, revision.namespace, workloadName(revision))

export function openPods({ cluster, beats, logOf, look_ms }: PodsOptions): Pods {
  const logs = openPodLogs(cluster)
  const podsOf = ({ revision }: Workload) => cluster.list<V1Pod>(POD, revision.namespace, selectorOf(revision))
  const redactorOf = ({ secrets }: Workload) => openRedactor(Object.values(secrets))

  async function ready(workload: Workload, stable_ms: number, signal: AbortSignal): Promise<Graph[]> {
    const look = openObserver()
    const until = performance.now() + READY_MS
    let reason = ''
    let since: number | null = null
    let restarts = 0
    for (;;) {
      throwIfStopped(signal)
      const seen = await Promise.all([findDeployment(cluster, workload), podsOf(workload)]).catch(error => {
        if (!(error instanceof Fault) || !error.retryable) throw error
        reason = error.message
        return null
      })
      let graphs: Graph[] | null = null
      if (seen !== null) {
        const [deployment, pods] = seen
        followLogs(workload, pods)
        const verdict = look(deployment, pods)
        if (verdict.kind === 'failed') throw new Fault(`deploy: ${await explain(workload, verdict)}`)
        if (verdict.kind === 'ready') graphs = graphsOf(workload, pods)
        reason = verdict.kind === 'waiting' ? verdict.reason : 'its pods did not report to the NATS server'
        const before = restarts
        restarts = pods.flatMap(mainOf).reduce((sum, { restartCount }) => sum + restartCount, 0)
        if (graphs === null || restarts !== before) since = null
      }
      if (graphs !== null) {
        since ??= performance.now()
        if (since + stable_ms <= performance.now()) return graphs
      }
      if (performance.now() >= until)
        throw new Fault(
          `deploy: it was not ready within ${READY_MS / 1_000} s: ${reason}; the image must run \`weft graphs\``,
          seen === null,
        )
      await sleep(
        graphs === null ? look_ms : Math.max(1, Math.min(look_ms, since! + stable_ms - performance.now())),
        null,
        {
          signal,
        },
      ).catch(() => {})
    }
  }

  /** The graphs when every pod has said them; null before. None without a pod. */
  function graphsOf({ revision }: Workload, pods: readonly V1Pod[]): Graph[] | null {
    const said = pods.filter(isAlive).map(pod => beats.graphsOf(revision.revision_id, pod.metadata!.name!))
    return said.includes(null) ? null : (said[0] ?? [])
  }

  async function explain(workload: Workload, { reason, pod }: Verdict & { kind: 'failed' }): Promise<string> {
    if (pod === null) return reason
    const { redact } = redactorOf(workload)
    const text = await cluster.lastLines(workload.revision.namespace, pod).catch(() => '')
    const last = text.split('\n').findLast(line => line.trim() !== '')
    return [`pod ${pod}: ${reason}`, ...(last === undefined ? [] : [redact(last.trim())])].join(': ')
  }

  function followLogs(workload: Workload, pods: readonly V1Pod[]): void {
    const { revision_id, namespace } = workload.revision
    const running = pods.filter(pod => mainOf(pod).some(({ state }) => state?.running !== undefined))
    logs.follow(
      revision_id,
      namespace,
      running.map(pod => pod.metadata!.name!),
      { redactor: () => redactorOf(workload), say: logOf(workload.revision).of('runtime') },
    )
  }

  return {
    ready,
    follow: async workload => followLogs(workload, await podsOf(workload)),
    close: () => logs.close(),
  }
}

const isAlive = ({ metadata }: V1Pod) => metadata!.deletionTimestamp === undefined
const mainOf = ({ status }: V1Pod) => status?.containerStatuses?.filter(({ name }) => name === CONTAINER) ?? []
