/** The Kubernetes API by its official client, which is loaded only when this driver is selected: its modules take 1.6 s. */
import type { Writable } from 'node:stream'
import type { KubernetesObject } from '@kubernetes/client-node'
import pTimeout from 'p-timeout'
import type { Config } from '../../../schemas/config.js'
import { Fault } from '../fault.js'
import { CONTAINER, type Manifest } from './render.js'

const FIELD_MANAGER = 'weft'
const ANSWER_MS = 30_000

type Kind = readonly [apiVersion: string, kind: string]
export const CONFIG_MAP = ['v1', 'ConfigMap'] as const
export const SECRET = ['v1', 'Secret'] as const
export const DEPLOYMENT = ['apps/v1', 'Deployment'] as const
export const DISRUPTION_BUDGET = ['policy/v1', 'PodDisruptionBudget'] as const
export const SCALED_OBJECT = ['keda.sh/v1alpha1', 'ScaledObject'] as const
export const POD = ['v1', 'Pod'] as const

export interface RemoveOptions {
  grace_seconds?: number
  /** The object stays until what it owns has ended. */
  foreground?: boolean
}

/** All methods throw a Fault; it is retryable when the cluster did not answer. */
export interface Cluster {
  /** Server-side apply with force: it overwrites other managers' values of our fields, and leaves their own fields. */
  apply(manifest: Manifest): Promise<void>
  get<T extends KubernetesObject>(kind: Kind, namespace: string, name: string): Promise<T | null>
  /** A kind that the cluster does not know has no objects. */
  list<T extends KubernetesObject>(kind: Kind, namespace: string, labels: { [name: string]: string }): Promise<T[]>
  /** One that is missing is no error. */
  remove(kind: Kind, namespace: string, name: string, options?: RemoveOptions): Promise<void>
  scale(namespace: string, name: string, replicas: number): Promise<void>
  /** The last lines of a pod, of its process before the present one when that has written nothing. Empty when unknown. */
  lastLines(namespace: string, pod: string): Promise<string>
  /** Writes the output from now on to the stream, and ends it. Resolves to how to stop that. */
  follow(namespace: string, pod: string, out: Writable): Promise<() => void>
}

/** The cluster of KUBECONFIG, else of ~/.kube/config, else the one this runs in. Throws one sentence. */
export async function openCluster({ kubeconfig }: Pick<Config, 'kubeconfig'>): Promise<Cluster> {
  const client = await import('@kubernetes/client-node').catch(() => {
    throw new Error(
      'WEFT_IMAGE_DRIVER is kubernetes, but @kubernetes/client-node is not installed: npm install @kubernetes/client-node@1',
    )
  })
  const config = new client.KubeConfig()
  try {
    if (kubeconfig === '') config.loadFromDefault()
    else config.loadFromFile(kubeconfig)
  } catch (error) {
    throw new Error(`KUBECONFIG cannot be read: ${(error as Error).message}`)
  }
  const objects = client.KubernetesObjectApi.makeApiClient(config)
  const apps = config.makeApiClient(client.AppsV1Api)
  const core = config.makeApiClient(client.CoreV1Api)
  const logs = new client.Log(config)
  const merge = client.setHeaderOptions('Content-Type', client.PatchStrategy.MergePatch)
  const headerOf = ([apiVersion, kind]: Kind, namespace: string, name: string) => ({
    apiVersion,
    kind,
    metadata: { name, namespace },
  })
  return {
    async apply(manifest) {
      const { ServerSideApply } = client.PatchStrategy
      await answered(objects.patch(manifest, undefined, undefined, FIELD_MANAGER, true, ServerSideApply)).catch(
        error => {
          if (isMissing(error) && manifest.kind === SCALED_OBJECT[1])
            throw new Fault('deploy: the cluster has no KEDA, which WEFT_KUBERNETES_KEDA needs')
          throw error
        },
      )
    },
    async get<T extends KubernetesObject>(kind: Kind, namespace: string, name: string) {
      return unlessMissing(answered(objects.read(headerOf(kind, namespace, name)) as Promise<T>))
    },
    async list<T extends KubernetesObject>(
      [apiVersion, kind]: Kind,
      namespace: string,
      labels: { [name: string]: string },
    ) {
      const selector = Object.entries(labels)
        .map(([name, value]) => `${name}=${value}`)
        .join(',')
      const found = await unlessMissing(
        answered(objects.list<T>(apiVersion, kind, namespace, undefined, undefined, undefined, undefined, selector)),
      )
      return found?.items ?? []
    },
    async remove(kind, namespace, name, { grace_seconds, foreground = false } = {}) {
      const object = headerOf(kind, namespace, name)
      const policy = foreground ? 'Foreground' : 'Background'
      await unlessMissing(answered(objects.delete(object, undefined, undefined, grace_seconds, undefined, policy)))
    },
    scale: async (namespace, name, replicas) =>
      void (await answered(
        apps.patchNamespacedDeploymentScale({ name, namespace, body: { spec: { replicas } } }, merge),
      )),
    async lastLines(namespace, name) {
      const read = (previous: boolean) =>
        core.readNamespacedPodLog({ name, namespace, container: CONTAINER, tailLines: 20, previous }).catch(() => '')
      return (await answered(read(false))) || (await answered(read(true)))
    },
    async follow(namespace, pod, out) {
      const stop = await logs.log(namespace, pod, CONTAINER, out, { follow: true, sinceSeconds: 1 })
      return () => stop.abort()
    },
  }
}

class ClusterFault extends Fault {
  constructor(
    message: string,
    /** Status of the answer; null without one. */
    readonly code: number | null,
  ) {
    // 409: somebody has changed the object at the same time.
    super(message, code === null || code >= 500 || code === 429 || code === 409)
  }
}

const answered = <T>(work: Promise<T>): Promise<T> =>
  pTimeout(work, { milliseconds: ANSWER_MS, message: `no answer within ${ANSWER_MS / 1_000} s` }).catch(error => {
    throw faultOf(error)
  })

function faultOf(error: unknown): Error {
  const { code, body, message } = error as { code?: number | string; body?: unknown; message: string }
  if (typeof code !== 'number') return new ClusterFault(`deploy: the cluster does not answer: ${message}`, null)
  return new ClusterFault(`deploy: the cluster refuses it: ${sentenceIn(body) ?? `status ${code}`}`, code)
}

/** The message of a Status, which arrives as text or as an object. */
function sentenceIn(body: unknown): string | null {
  try {
    const status = (typeof body === 'string' ? JSON.parse(body) : body) as { message?: string } | null
    return status?.message ?? null
  } catch {
    return null
  }
}

async function unlessMissing<T>(work: Promise<T>): Promise<T | null> {
  return work.catch(error => {
    if (isMissing(error)) return null
    throw error
  })
}

const isMissing = (error: unknown): boolean => error instanceof ClusterFault && error.code === 404
