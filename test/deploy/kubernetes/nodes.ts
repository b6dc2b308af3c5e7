/**
 * The controllers of a cluster for the Deployments of an API server of tests: it replaces pods step by step, starts their
 * containers, restarts those that exit, and ends pods with their grace. What a container does is the program of its image.
 */
import type { FakeObject, Objects } from './objects.js'

export interface FakePod {
  name: string
  namespace: string
  image: string
  /** Variables of the container, with those it takes from Secrets and ConfigMaps. */
  env: { [name: string]: string }
  labels: { [name: string]: string }
  /** It writes a line to its output. */
  say(line: string): void
  /** Its readiness probe succeeds, or fails. */
  ready(isReady?: boolean): void
  /** Its program ends. */
  exit(code: number, how?: { oom?: boolean }): void
}

/** Runs when a container of the image starts; receives the signals that it gets. */
export type Program = (pod: FakePod) => (signal: string) => void

export interface PodOutput {
  lines: string[]
  previous: string[]
  followers: Set<(line: string | null) => void>
}

export interface Nodes {
  /** Pods whose graph worker runs. */
  running(): FakePod[]
  output(pod: FakeObject): PodOutput
  /** Begins to end a pod; a shorter grace counts. */
  end(pod: FakeObject, grace_seconds?: number): void
  /** Looks at all Deployments. Call it after each change. */
  look(): void
  /** Pods that were created so far. */
  started: number
  /** Why pods cannot be created; null when they can. */
  quota: string | null
  /** False: no node has room. */
  hasRoom: boolean
  close(): void
}

interface Container {
  name: string
  image: string
  restartPolicy?: string
  envFrom?: { secretRef?: { name: string }; configMapRef?: { name: string } }[]
  env?: {
    name: string
    value?: string
    valueFrom?: { secretKeyRef?: { name: string; key: string }; fieldRef?: { fieldPath: string } }
  }[]
}
interface PodSpec {
  terminationGracePeriodSeconds: number
  initContainers?: Container[]
  containers: Container[]
}
interface Template {
  metadata: { labels: { [name: string]: string } }
  spec: PodSpec
}
interface ContainerStatus {
  name: string
  ready: boolean
  restartCount: number
  image: string
  imageID: string
  state: { waiting?: object; running?: object; terminated?: object }
  lastState?: { terminated?: object }
}
interface Running {
  pod: FakePod
  object: FakeObject
  signal: ((signal: string) => void) | null
  output: PodOutput
  killer: NodeJS.Timeout | null
}

const BACK_OFF_MS = 10
/** Until the garbage collector comes to a Deployment that is deleted: pods that end meanwhile are replaced. */
const COLLECTOR_MS = 20

export function openNodes(objects: Objects, images: { [name: string]: Program }): Nodes {
  const pods = new Map<string, Running>()
  const templates = new Map<string, number>()
  const collected = new Set<FakeObject>()
  let isOpen = true
  const templateOf = (deployment: FakeObject) => deployment.spec!.template as Template
  /** Equal templates have equal names. */
  const hashOf = (deployment: FakeObject) => {
    const text = JSON.stringify(templateOf(deployment))
    if (!templates.has(text)) templates.set(text, templates.size + 1)
    return `t${templates.get(text)}`
  }
  const ownPods = ({ metadata }: FakeObject) => [...pods.values()].filter(({ object }) => object.owner === metadata.uid)
  const statusOf = (object: FakeObject) =>
    object.status as { containerStatuses: ContainerStatus[]; conditions: object[] }
  const isReady = ({ object }: Running) => statusOf(object).containerStatuses[0]?.ready === true
  const isEnding = ({ object }: Running) => object.metadata.deletionTimestamp !== undefined

  function look(): void {
    if (!isOpen) return
    for (const deployment of objects.all('Deployment')) {
      const all = ownPods(deployment)
      if (deployment.metadata.deletionTimestamp !== undefined) {
        if (!collected.has(deployment)) {
          rollOut(deployment, all)
          setTimeout(() => {
            collected.add(deployment)
            look()
          }, COLLECTOR_MS)
          continue
        }
        for (const one of all) if (!isEnding(one)) end(one.object)
        if (ownPods(deployment).length === 0) objects.remove(deployment)
        continue
      }
      rollOut(deployment, all)
    }
  }

  function rollOut(deployment: FakeObject, all: Running[]): void {
    const wanted = (deployment.spec!.replicas ??= 1) as number
    const template = hashOf(deployment)
    const present = all.filter(one => !isEnding(one))
    const fresh = present.filter(({ object }) => object.template === template)
    for (let n = fresh.length; n < wanted && nodes.quota === null; n++) fresh.push(create(deployment, template))
    for (const { object } of fresh.slice(wanted)) end(object)
    const readyOnes = fresh.slice(0, wanted).filter(isReady)
    if (readyOnes.length === wanted)
      for (const { object } of present.filter(({ object }) => object.template !== template)) end(object)
    const left = ownPods(deployment).filter(one => !isEnding(one))
    deployment.status = {
      observedGeneration: deployment.metadata.generation,
      replicas: left.length,
      updatedReplicas: left.filter(({ object }) => object.template === template).length,
      readyReplicas: left.filter(isReady).length,
      conditions: [
        ...((deployment.status as { conditions?: { type: string }[] })?.conditions ?? []).filter(
          ({ type }) => type === 'Progressing',
        ),
        ...(nodes.quota === null ? [] : [{ type: 'ReplicaFailure', status: 'True', message: nodes.quota }]),
      ],
    }
  }

  function create(deployment: FakeObject, template: string): Running {
    const { metadata, spec } = structuredClone(templateOf(deployment))
    const { namespace, name: owner, uid } = deployment.metadata
    const name = `${owner}-${template}-${++nodes.started}`
    const object = objects.put({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, namespace, labels: metadata.labels },
      spec: spec as unknown as { [name: string]: unknown },
      owner: uid,
      template,
      status: { phase: 'Pending', containerStatuses: [], conditions: [] },
    })
    const main = spec.containers[0]!
    const output: PodOutput = { lines: [], previous: [], followers: new Set() }
    const one: Running = { pod: null!, object, signal: null, output, killer: null }
    one.pod = {
      name,
      namespace,
      image: main.image,
      env: {},
      labels: metadata.labels,
      say(line) {
        output.lines.push(line)
        for (const follower of output.followers) follower(line)
      },
      ready(ready = true) {
        const status = statusOf(object).containerStatuses[0]
        if (status?.state.running === undefined || status.ready === ready) return
        status.ready = ready
        look()
      },
      exit: (code, { oom = false } = {}) => onExit(one, code, oom),
    }
    pods.set(object.metadata.uid, one)
    setImmediate(() => begin(one, spec))
    return one
  }

  function begin(one: Running, spec: PodSpec): void {
    if (!pods.has(one.object.metadata.uid) || !isOpen) return
    if (!nodes.hasRoom) {
      const message = '0/3 nodes are available: 3 Insufficient cpu.'
      statusOf(one.object).conditions = [{ type: 'PodScheduled', status: 'False', message }]
      return
    }
    const init = (spec.initContainers ?? []).filter(({ restartPolicy }) => restartPolicy !== 'Always')
    const runInit = (n: number): void => {
      const container = init[n]
      if (container === undefined) return startMain(one, spec.containers[0]!, 0)
      const program = images[container.image]
      if (program === undefined) return wait(one, container, pullFault(container), 0)
      const pod: FakePod = {
        ...one.pod,
        image: container.image,
        exit(code) {
          if (code === 0) return runInit(n + 1)
          wait(one, container, { reason: 'CrashLoopBackOff' }, 3, { exitCode: code, reason: 'Error' }, true)
        },
      }
      setImmediate(() => program(pod))
    }
    runInit(0)
  }

  const pullFault = ({ image }: Container) => ({
    reason: 'ErrImagePull',
    message: `failed to pull and unpack image "${image}": not found`,
  })

  function wait(
    one: Running,
    { name, image }: Container,
    waiting: object,
    restartCount: number,
    terminated?: object,
    isInit = false,
  ): void {
    const lastState = terminated === undefined ? {} : { terminated }
    const status = { name, image, imageID: '', ready: false, restartCount, state: { waiting }, lastState }
    const { conditions } = statusOf(one.object)
    one.object.status = isInit
      ? { phase: 'Pending', initContainerStatuses: [status], containerStatuses: [], conditions }
      : { phase: 'Pending', containerStatuses: [status], conditions }
    look()
  }

  function startMain(one: Running, container: Container, restartCount: number): void {
    if (!pods.has(one.object.metadata.uid) || !isOpen) return
    const program = images[container.image]
    if (program === undefined) return wait(one, container, pullFault(container), restartCount)
    const env = envOf(one.object, container)
    if (typeof env === 'string')
      return wait(one, container, { reason: 'CreateContainerConfigError', message: env }, restartCount)
    one.pod.env = env
    const { name, image } = container
    const imageID = `${image}@sha256:${'0'.repeat(64)}`
    const status: ContainerStatus = { name, image, imageID, ready: false, restartCount, state: { running: {} } }
    one.object.status = { phase: 'Running', containerStatuses: [status], conditions: [] }
    one.signal = program(one.pod)
    look()
  }

  function envOf(object: FakeObject, { envFrom = [], env = [] }: Container): { [name: string]: string } | string {
    const { namespace, name } = object.metadata
    const values: { [name: string]: string } = {}
    const dataOf = (kind: string, name: string) => {
      const data = objects.find(kind, namespace, name)?.data
      const decode = (text: string) => (kind === 'Secret' ? Buffer.from(text, 'base64').toString() : text)
      return data && Object.fromEntries(Object.entries(data).map(([key, value]) => [key, decode(value)]))
    }
    for (const { secretRef, configMapRef } of envFrom) {
      const found = secretRef ? dataOf('Secret', secretRef.name) : dataOf('ConfigMap', configMapRef!.name)
      if (found === undefined)
        return `${secretRef ? 'secret' : 'configmap'} "${(secretRef ?? configMapRef)!.name}" not found`
      Object.assign(values, found)
    }
    for (const { name: variable, value, valueFrom } of env) {
      const { secretKeyRef } = valueFrom ?? {}
      const found = secretKeyRef && dataOf('Secret', secretKeyRef.name)?.[secretKeyRef.key]
      if (secretKeyRef && found === undefined) return `secret "${secretKeyRef.name}" not found`
      values[variable] = found ?? (valueFrom?.fieldRef ? name : (value ?? ''))
    }
    return values
  }

  function onExit(one: Running, code: number, oom: boolean): void {
    const { object, output } = one
    if (one.signal === null) return
    one.signal = null
    for (const follower of output.followers) follower(null)
    output.followers.clear()
    output.previous = output.lines.splice(0)
    if (isEnding(one)) return forget(one)
    const restarts = statusOf(object).containerStatuses[0]!.restartCount + 1
    const terminated = { exitCode: code, reason: oom ? 'OOMKilled' : code === 0 ? 'Completed' : 'Error' }
    const container = (object.spec as unknown as PodSpec).containers[0]!
    wait(
      one,
      container,
      { reason: 'CrashLoopBackOff', message: 'back-off restarting failed container' },
      restarts,
      terminated,
    )
    setTimeout(() => !isEnding(one) && startMain(one, container, restarts), BACK_OFF_MS)
  }

  function forget(one: Running): void {
    if (one.killer !== null) clearTimeout(one.killer)
    pods.delete(one.object.metadata.uid)
    objects.remove(one.object)
    look()
  }

  function end(object: FakeObject, grace_seconds?: number): void {
    const one = pods.get(object.metadata.uid)
    if (one === undefined) return
    const grace = grace_seconds ?? (object.spec as unknown as PodSpec).terminationGracePeriodSeconds
    const isFirst = !isEnding(one)
    object.metadata.deletionTimestamp ??= new Date().toISOString()
    object.metadata.deletionGracePeriodSeconds = grace
    if (one.signal === null) return forget(one)
    if (one.killer !== null) clearTimeout(one.killer)
    one.killer = setTimeout(() => one.signal?.('SIGKILL'), grace * 1_000)
    if (isFirst) one.signal('SIGTERM')
  }

  const nodes: Nodes = {
    running: () => [...pods.values()].flatMap(({ pod, signal }) => (signal === null ? [] : [pod])),
    output: object => pods.get(object.metadata.uid)!.output,
    end,
    look,
    started: 0,
    quota: null,
    hasRoom: true,
    close() {
      isOpen = false
      for (const one of pods.values()) {
        if (one.killer !== null) clearTimeout(one.killer)
        one.signal?.('SIGKILL')
      }
    },
  }
  return nodes
}
