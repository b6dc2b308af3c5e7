/**
 * Whether a roll-out is ready, has failed, or goes on (docs/spec/control-plane.md#kubernetes-driver). Pure, except for
 * the looks it counts.
 */
import type { V1ContainerStatus, V1Deployment, V1Pod } from '@kubernetes/client-node'
import { CONTAINER } from './render.js'

export type Verdict =
  | { kind: 'ready' }
  | { kind: 'waiting'; reason: string }
  /** `pod`: its output may say why. */
  | { kind: 'failed'; reason: string; pod: string | null }

/** A container with one of these never starts. */
const FINAL = ['InvalidImageName', 'CreateContainerConfigError', 'CreateContainerError', 'ErrImageNeverPull']
/** A registry may be slow for a moment. */
const PULL = ['ErrImagePull', 'ImagePullBackOff', 'RegistryUnavailable']
const MAX_LOOKS = 3
const MAX_RESTARTS = 3

/** Looks at one roll-out again and again. Pods without a node wait until the deadline of the caller. */
export function openObserver(): (deployment: V1Deployment | null, pods: readonly V1Pod[]) => Verdict {
  /** How often something was seen that may pass. */
  const looks = new Map<string, number>()
  const isLasting = (what: string) => {
    looks.set(what, (looks.get(what) ?? 0) + 1)
    return looks.get(what)! >= MAX_LOOKS
  }

  function failureOf(name: string, status: V1ContainerStatus): string | null {
    const { reason = '', message } = status.state?.waiting ?? {}
    const detail = message === undefined ? reason : `${reason}: ${message}`
    if (FINAL.includes(reason)) return detail
    if (PULL.includes(reason) && isLasting(`${name} ${status.name}`)) return detail
    const ended = status.state?.terminated ?? status.lastState?.terminated
    if (ended?.reason === 'OOMKilled') return 'it needed more memory than its limit (resource_spec.memory_limit_mb)'
    // The same files would fail to load again.
    if (status.name === CONTAINER && ended?.exitCode === 2) return 'it exited with code 2'
    if (reason === 'CrashLoopBackOff' && status.restartCount >= MAX_RESTARTS)
      return `it exits repeatedly, with code ${ended?.exitCode ?? 'unknown'}`
    return null
  }

  return (deployment, pods) => {
    if (deployment === null) return { kind: 'failed', reason: 'its Deployment was deleted', pod: null }
    const { status = {}, spec, metadata } = deployment
    let waiting: string | null = null
    for (const { metadata, status } of pods) {
      if (metadata?.deletionTimestamp !== undefined) continue
      const pod = metadata!.name!
      for (const one of [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])]) {
        const failure = failureOf(pod, one)
        const what = one.name === CONTAINER ? '' : `container ${one.name}: `
        if (failure !== null) return { kind: 'failed', reason: `${what}${failure}`, pod }
      }
      const unscheduled = status?.conditions?.find(({ type, status }) => type === 'PodScheduled' && status === 'False')
      waiting ??= unscheduled?.message ?? null
    }
    const isRead = (status.observedGeneration ?? 0) >= (metadata?.generation ?? 0)
    const condition = (type: string, value: string) =>
      status.conditions?.find(one => one.type === type && one.status === value)
    const stuck = isRead ? condition('Progressing', 'False') : undefined
    if (stuck !== undefined)
      return { kind: 'failed', reason: waiting ?? stuck.message ?? 'it makes no progress', pod: null }
    const refused = condition('ReplicaFailure', 'True')
    if (refused !== undefined && isLasting('pods are refused'))
      return { kind: 'failed', reason: `its pods are refused: ${refused.message}`, pod: null }
    const wanted = spec?.replicas ?? 1
    const { updatedReplicas = 0, readyReplicas = 0, replicas = 0 } = status
    if (isRead && [updatedReplicas, readyReplicas, replicas].every(n => n === wanted)) return { kind: 'ready' }
    return { kind: 'waiting', reason: waiting ?? `${readyReplicas} of ${wanted} pods are ready` }
  }
}
