/**
 * The docker driver (docs/spec/control-plane.md#docker-driver): serves images as containers of an engine. The
 * containers are the record of what runs: their labels name deployment, revision, generation and epoch, and they
 * outlive the deploy worker, which finds them again. Nothing is written on this machine.
 */
import { EventEmitter } from 'node:events'
import type { ContainerInfo } from 'dockerode'
import type { Figures } from '../../../bus/figures.js'
import type { ActiveDeployment, DeployTask, Graph } from '../../../schemas/deploy-calls.js'
import { openRedactor } from '../../../schemas/redact.js'
import type { Driver, Step } from '../driver.js'
import { Fault, Stopped, throwIfStopped } from '../fault.js'
import { keepEach, openDrains, surplus } from '../fleet.js'
import { labelPolicy } from '../images/allowed.js'
import { askedByTask } from '../images/asked.js'
import { loopbackHosts, platformEnv } from '../images/environment.js'
import { openGenerations } from '../images/generations.js'
import type { ImageDriverOptions } from '../images/options.js'
import { imageSizeOf } from '../images/size.js'
import { type ImageStart, startByTask } from '../images/start.js'
import { natsUrlOf } from '../nats-url.js'
import { within } from '../scaling.js'
import { nextChange } from '../wait.js'
import { LABEL, type ReplicaPlan, replicaName } from './container.js'
import { type EngineEvent, ensure, followEvents, inspectImage, listContainers, unlessMissing } from './engine.js'
import { type ImageOptions, openImages } from './images.js'
import { followOutput, lastOutput } from './output.js'
import { problemsOf } from './problems.js'
import { createReplica, endMain, removeReplica } from './replica.js'

const READY_MS = 10 * 60_000
/** Events and beats wake the loop; one that was missed costs this long. */
const LOOK_MS = 2_000
const LOOP_EXITS = 3
const LOOP_MS = 60_000
const RESTART_MS = [1_000, 2_000, 4_000, 8_000, 15_000]

export interface DockerOptions extends ImageDriverOptions, Omit<ImageOptions, 'config'> {
  figures: Figures
}

/** The replicas of a revision that this worker keeps running. */
interface Group {
  plan: ReplicaPlan
  /** Replicas 1 to n. */
  count: number
  deploying: boolean
  /** Times of exits. */
  exits: number[]
  /** Main containers whose exit is known, and that were not started since. */
  down: Set<string>
  /** Reason for which it can never become ready. */
  broken: string | null
  draining: boolean
}

export function openDockerDriver(options: DockerOptions): Driver {
  const { engine, config, beats, log } = options
  const labels = labelPolicy(config)
  const groups = new Map<string, Group>()
  const beginDrain = openDrains(log)
  const outputs = new Map<string, () => void>()
  /** Containers whose last end was for want of memory. */
  const oom = new Set<string>()
  const changes = new EventEmitter()
  changes.setMaxListeners(0)
  const wake = () => void changes.emit('change')
  const stopping = new AbortController()
  let cores = Number.POSITIVE_INFINITY
  const generations = openGenerations({ ...options, problemsOf: asked => problemsOf(asked, labels), planOf })
  const unfollow = followEvents(engine, log, { onOpen: wake, onEvent })

  function onEvent({ action, id, labels, exit_code }: EngineEvent): void {
    if (labels[LABEL.part] !== 'main') return
    const group = groups.get(labels[LABEL.revision] ?? '')
    if (action === 'oom') oom.add(id)
    else if (action === 'die') onExit(id, labels, group, exit_code)
    else if (action === 'start' && group !== undefined) {
      group.down.delete(id)
      follow(id, group)
      if (!group.deploying)
        void restartSidecars(labels[LABEL.replica]!).catch(error =>
          log.warn({ err: error }, 'sidecars could not be restarted'),
        )
    }
    wake()
  }

  function onExit(id: string, labels: EngineEvent['labels'], group: Group | undefined, code: number | null): void {
    const replica = labels[LABEL.replica]!
    const isOom = oom.delete(id)
    outputs.get(id)?.()
    outputs.delete(id)
    beats.forget(labels[LABEL.revision]!, replica)
    if (group === undefined || group.draining || labels[LABEL.generation] !== String(group.plan.generation)) return
    if (group.down.has(id)) return
    group.down.add(id)
    const { memory_limit_mb } = group.plan.size
    const reason = isOom
      ? `it needed more memory than its limit of ${memory_limit_mb} MB (resource_spec.memory_limit_mb)`
      : `it exited with code ${code}`
    options.figures.count('weft_replica_exits_total')
    log.warn({ revision_id: group.plan.revision_id, replica, reason }, 'a replica exited')
    options.logOf(group.plan).of('runtime')('ERROR', `a replica exited: ${reason}`)
    const now = performance.now()
    group.exits = [...group.exits.filter(at => at > now - LOOP_MS), now]
    // The same files would fail to load again.
    if (group.deploying && (code === 2 || isOom)) return void explain(id, group, reason)
    // An engine restarts the replicas of an active revision earlier than this, but Podman does not know that it should.
    setTimeout(
      () => {
        group.down.delete(id)
        if (isWanted(group, replica)) ensure(engine.getContainer(id).start()).catch(() => {})
      },
      RESTART_MS[Math.min(group.exits.length, RESTART_MS.length) - 1],
    ).unref()
  }

  /** It is not being stopped. */
  const isWanted = (group: Group, replica: string): boolean =>
    !stopping.signal.aborted &&
    !group.draining &&
    groups.get(group.plan.revision_id) === group &&
    namesOf(group).includes(replica)

  const namesOf = ({ plan, count }: Group): string[] =>
    Array.from({ length: count }, (_, i) => replicaName(plan, i + 1))

  async function explain(id: string, group: Group, reason: string): Promise<void> {
    const said = await lastOutput(engine, id, redactorOf(group.plan), 5)
    group.broken = [reason, ...said.slice(-1)].join(': ')
    wake()
  }

  const redactorOf = ({ env }: ReplicaPlan) => openRedactor(Object.values(env))

  function follow(id: string, { plan }: Group): void {
    outputs.get(id)?.()
    const since = Math.floor(Date.now() / 1_000)
    const say = options.logOf(plan).of('runtime')
    outputs.set(id, followOutput(engine, id, { since, redactor: redactorOf(plan), say }))
  }

  /** Their network was that of a container that has ended. */
  async function restartSidecars(replica: string): Promise<void> {
    for (const { Id } of await listContainers(engine, { [LABEL.replica]: replica, [LABEL.part]: 'sidecar' }))
      await ensure(engine.getContainer(Id).restart({ t: 5 }))
  }

  const mains = (labels: { [name: string]: string }) => listContainers(engine, { ...labels, [LABEL.part]: 'main' })
  const isRunning = ({ State }: ContainerInfo) => State === 'running' || State === 'restarting'
  const nameOf = ({ Labels }: ContainerInfo) => Labels[LABEL.replica]!

  function planOf({ revision, spec, secrets, pool_user }: ImageStart): ReplicaPlan {
    const size = imageSizeOf(spec)
    return {
      ...revision,
      size,
      spec,
      env: {
        ...secrets,
        ...platformEnv(options, revision, size),
        NATS_URL: natsUrlOf(options.nats_url, pool_user),
      },
      cores,
      network: config.docker_network,
      stop_seconds: Math.ceil((config.drain_ms + config.stop_ms) / 1_000) + 2,
    }
  }

  /** Creates the replicas of the group that are missing. */
  async function complete(group: Group, signal: AbortSignal): Promise<void> {
    const { plan } = group
    cores = plan.cores = (await engine.info()).NCPU as number
    const present = await mains({ [LABEL.revision]: plan.revision_id, [LABEL.generation]: String(plan.generation) })
    const running = new Map(present.filter(isRunning).map(one => [nameOf(one), one.Id]))
    const say = options.logOf(plan).of('deploy')
    for (let n = 1; n <= group.count; n++) {
      const id =
        running.get(replicaName(plan, n)) ??
        (await createReplica({ engine, plan, redactor: redactorOf(plan), say, signal }, n))
      if (!outputs.has(id)) follow(id, group)
    }
  }

  /** Resolves to the graphs when all replicas were ready for `stable_ms`. Throws a Fault or Stopped. */
  async function ready(group: Group, stable_ms: number, signal: AbortSignal): Promise<Graph[]> {
    const { plan } = group
    const until = performance.now() + READY_MS
    let since: number | null = null
    const unlisten = beats.on(plan.revision_id, wake)
    try {
      for (;;) {
        throwIfStopped(signal)
        if (group.broken !== null) throw new Fault(`deploy: a replica cannot start: ${group.broken}`)
        if (group.exits.filter(at => at > performance.now() - LOOP_MS).length >= LOOP_EXITS)
          throw new Fault('deploy: the replicas exit repeatedly; see the runtime log')
        const graphs = await graphsOf(group).catch(() => null)
        since = graphs === null ? null : Math.max(since ?? performance.now(), ...group.exits)
        if (graphs !== null && since! + stable_ms <= performance.now()) return graphs
        if (performance.now() >= until) throw new Fault(`deploy: ${NOT_READY}`)
        const wait = since === null ? LOOK_MS : Math.min(LOOK_MS, since + stable_ms - performance.now())
        await nextChange(changes, Math.max(1, wait), signal)
      }
    } finally {
      unlisten()
    }
  }

  /** An engine may lose events, above all when it restarts. */
  async function noteExits(group: Group, present: readonly ContainerInfo[]): Promise<void> {
    for (const { Id, Labels, State } of present) {
      if (State !== 'exited' || group.down.has(Id)) continue
      const found = await unlessMissing(engine.getContainer(Id).inspect())
      if (found === null || found.State.Status !== 'exited') continue
      if (found.State.OOMKilled) oom.add(Id)
      onExit(Id, Labels, group, found.State.ExitCode)
    }
  }

  /** The graphs when every replica runs, has said that it is ready, and is not unhealthy; else null. */
  async function graphsOf(group: Group): Promise<Graph[] | null> {
    const { plan, count } = group
    const present = await mains({ [LABEL.revision]: plan.revision_id, [LABEL.generation]: String(plan.generation) })
    if (group.deploying) await noteExits(group, present)
    const good = new Set(
      present
        .filter(one => one.State === 'running' && !/\((unhealthy|health: starting)\)/.test(one.Status))
        .map(nameOf),
    )
    let graphs: Graph[] | null = null
    for (let n = 1; n <= count; n++) {
      const replica = replicaName(plan, n)
      const said = beats.graphsOf(plan.revision_id, replica)
      if (!good.has(replica) || said === null) return null
      graphs = said
    }
    return graphs ?? []
  }

  /** Ends these replicas and removes them. */
  async function end(containers: readonly ContainerInfo[], signal: 'SIGTERM' | 'SIGINT', ms: number): Promise<void> {
    await Promise.all(containers.map(({ Id }) => endMain(engine, Id, signal, ms)))
    for (const replica of new Set(containers.map(nameOf))) await removeReplica(engine, replica)
  }

  async function deploy(step: Step, artefact: string): Promise<{ graphs: Graph[]; image_version: string | null }> {
    const { task, signal, log: logOf } = step
    const say = logOf('deploy')
    const local = config.docker_network === 'host' ? [] : loopbackHosts(options.nats_url)
    if (local.length > 0)
      throw new Fault(
        `deploy: containers do not reach the NATS server at ${local.join(', ')}; give WEFT_GRAPHS_NATS_URL an address of the network, or WEFT_DOCKER_NETWORK the value host`,
      )
    const { revision_id } = task
    await removeEarlier(task)
    const plan = planOf(startByTask(task, artefact))
    // Its graphs must be loaded once.
    const group: Group = {
      plan,
      count: Math.max(1, plan.size.range.min),
      deploying: true,
      exits: [],
      down: new Set(),
      broken: null,
      draining: false,
    }
    groups.set(revision_id, group)
    await complete(group, signal)
    say('INFO', `started ${group.count} container${group.count === 1 ? '' : 's'} of ${artefact}`)
    const graphs = await ready(group, config.deploy_stable_ms, signal)
    say('INFO', `ready: ${graphs.map(({ graph_id }) => graph_id).join(', ')}`)
    const image = await inspectImage(engine, artefact)
    return { graphs, image_version: image?.Config.Labels?.['org.opencontainers.image.version'] ?? null }
  }

  /** Replicas that an earlier holder of the task has started: they may be half made. */
  async function removeEarlier({ revision_id, epoch }: DeployTask): Promise<void> {
    const earlier = (await mains({ [LABEL.revision]: revision_id })).filter(
      one => Number(one.Labels[LABEL.epoch]) < epoch,
    )
    await end(earlier, 'SIGINT', config.stop_ms)
  }

  function drain(revision_id: string, containers: readonly ContainerInfo[]): void {
    const { [LABEL.pool]: pool, [LABEL.deployment]: deployment_id } = containers[0]!.Labels
    beginDrain({ deployment_id: deployment_id!, revision_id }, async () => {
      const group = groups.get(revision_id)
      if (group !== undefined) group.draining = true
      await Promise.all(
        containers.map(({ Id }) => endMain(engine, Id, 'SIGTERM', config.drain_ms + config.stop_ms + 2_000)),
      )
      if (stopping.signal.aborted) return
      // The containers are the record that the pool exists.
      await options.retire(pool!)
      for (const one of containers) await removeReplica(engine, nameOf(one))
      groups.delete(revision_id)
    })
  }

  /** Adopts what runs, starts what is missing, replaces what has another size. */
  async function keep(active: ActiveDeployment, containers: readonly ContainerInfo[]): Promise<void> {
    const { revision_id, generation } = active
    let group = groups.get(revision_id)
    const present = containers.filter(isRunning)
    const isOfIt = ({ Labels }: ContainerInfo) => Labels[LABEL.generation] === String(generation)
    const earlier = present.filter(one => !isOfIt(one))
    if (group === undefined || (!group.deploying && group.plan.generation !== generation)) {
      const isServed = group !== undefined || earlier.length > 0
      if (isServed && generations.hasFailed(active)) return
      const plan = await generations.plan(active, { isThere: present.some(isOfIt), isServed })
      if (plan === null) return
      if (group !== undefined) return resize(group, plan, active, containers)
      // An earlier worker may have replaced some of them.
      if (earlier.length > 0) {
        const old = { ...plan, generation: Number(earlier[0]!.Labels[LABEL.generation]) }
        const count = Math.max(earlier.length, countOf(plan, present))
        const before = {
          plan: old,
          count,
          deploying: false,
          exits: [],
          down: new Set<string>(),
          broken: null,
          draining: false,
        }
        groups.set(revision_id, before)
        return resize(before, plan, active, containers)
      }
      const count = within(plan.size.range, countOf(plan, present) || 1)
      group = { plan, count, deploying: false, exits: [], down: new Set<string>(), broken: null, draining: false }
      groups.set(revision_id, group)
      log.info(
        { deployment_id: active.deployment_id, revision_id, replicas: present.length },
        'active revision adopted',
      )
    }
    group.deploying = false
    await complete(group, stopping.signal)
    await keepRunning(revision_id)
  }

  /** The greatest number of these replicas: those below it that are missing are started again. */
  function countOf(plan: ReplicaPlan, present: readonly ContainerInfo[]): number {
    const names = new Set(present.map(nameOf))
    let n = plan.size.range.max
    while (n > 0 && !names.has(replicaName(plan, n))) n--
    return n
  }

  /** From now on the engine restarts its replicas. */
  async function keepRunning(revision_id: string): Promise<void> {
    for (const { Id } of await mains({ [LABEL.revision]: revision_id }))
      await ensure(engine.getContainer(Id).update({ RestartPolicy: { Name: 'unless-stopped' } }))
  }

  /** Starts replicas of the new size, then ends the old ones, which hand back their runs. */
  async function resize(
    group: Group,
    plan: ReplicaPlan,
    active: ActiveDeployment,
    containers: readonly ContainerInfo[],
  ): Promise<void> {
    const next: Group = {
      plan,
      count: within(plan.size.range, group.count),
      deploying: true,
      exits: [],
      down: new Set(),
      broken: null,
      draining: false,
    }
    groups.set(active.revision_id, next)
    const old = containers.filter(one => one.Labels[LABEL.generation] !== String(plan.generation))
    void (async () => {
      try {
        await complete(next, stopping.signal)
        await ready(next, 0, stopping.signal)
      } catch (error) {
        if (error instanceof Stopped) return
        generations.giveUp(active, error)
        groups.set(active.revision_id, group)
        const made = await mains({ [LABEL.revision]: active.revision_id, [LABEL.generation]: String(plan.generation) })
        return end(made, 'SIGINT', config.stop_ms)
      }
      next.deploying = false
      await keepRunning(active.revision_id)
      log.info({ revision_id: active.revision_id, replicas: next.count }, 'revision resized')
      await end(old, 'SIGINT', config.stop_ms)
    })().catch(error => log.warn({ err: error, revision_id: active.revision_id }, 'a revision could not be resized'))
  }

  async function reconcile(active: readonly ActiveDeployment[], held: ReadonlySet<string>): Promise<void> {
    const all = await mains({})
    const of = (revision_id: string) => all.filter(one => one.Labels[LABEL.revision] === revision_id)
    const isSurplus = surplus(active, held)
    for (const revision_id of new Set(all.map(({ Labels }) => Labels[LABEL.revision]!)))
      if (isSurplus(revision_id)) drain(revision_id, of(revision_id))
    await keepEach(active, log, one => keep(one, of(one.revision_id)))
  }

  async function removeAll(labels: { [name: string]: string }, wanted: (one: ContainerInfo) => boolean): Promise<void> {
    const containers = (await mains(labels)).filter(wanted)
    for (const { Labels } of containers) groups.delete(Labels[LABEL.revision]!)
    await Promise.all(containers.map(({ Id }) => endMain(engine, Id, 'SIGINT', config.stop_ms)))
    // The containers are the record that the pools exist.
    for (const pool of new Set(containers.map(({ Labels }) => Labels[LABEL.pool]!))) await options.retire(pool)
    for (const replica of new Set(containers.map(nameOf))) await removeReplica(engine, replica)
  }

  return {
    sources: ['external_docker'],
    problems: task => problemsOf(askedByTask(task), labels),
    build: openImages(options).build,
    has: async artefact => (await inspectImage(engine, artefact)) !== null,
    deploy,
    async undo({ revision_id, epoch }) {
      // Containers of a later holder of the task stay.
      await removeAll({ [LABEL.revision]: revision_id }, one => Number(one.Labels[LABEL.epoch]) <= epoch)
    },
    reconcile,
    async destroy({ deployment_id }) {
      const label = { [LABEL.deployment]: deployment_id }
      await removeAll(label, () => true)
      for (const { Id } of await listContainers(engine, label))
        await ensure(engine.getContainer(Id).remove({ force: true, v: true }))
      const filters = JSON.stringify({ label: [`${LABEL.deployment}=${deployment_id}`] })
      for (const { Id } of await engine.listNetworks({ filters })) await ensure(engine.getNetwork(Id).remove())
      for (const { Name } of (await engine.listVolumes({ filters })).Volumes ?? [])
        await ensure(engine.getVolume(Name).remove())
    },
    scaling: {
      replicas(revision_id) {
        const group = groups.get(revision_id)
        return group === undefined || group.deploying || group.draining ? null : group.count
      },
      async scale(revision_id, n) {
        const group = groups.get(revision_id)
        if (group === undefined || group.deploying || group.draining) return
        group.count = n
        const names = new Set(namesOf(group))
        const surplus = (await mains({ [LABEL.revision]: revision_id })).filter(one => !names.has(nameOf(one)))
        const start = async () => {
          await complete(group, stopping.signal)
          await ready(group, 0, stopping.signal)
          await keepRunning(revision_id)
        }
        await Promise.all([end(surplus, 'SIGINT', config.stop_ms), start()])
      },
    },
    /** The containers go on; the next deploy worker finds them. */
    async stop() {
      stopping.abort()
      unfollow()
      for (const close of outputs.values()) close()
    },
  }
}

const NOT_READY = `the containers were not ready within ${READY_MS / 1000} s; the image must run \`weft graphs\``
