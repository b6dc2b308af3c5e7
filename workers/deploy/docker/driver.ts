/**
 * The docker driver (docs/spec/control-plane.md#docker-driver): serves images as containers of an engine. The
 * containers are the record of what runs: their labels name deployment, revision, generation and epoch, and they
 * outlive the deploy worker, which finds them again. Nothing is written on this machine.
 */
import { EventEmitter } from 'node:events'
import type { ContainerInfo } from 'dockerode'
import type { ActiveDeployment, DeployTask, Graph } from '../../../schemas/deploy-calls.js'
import type { Driver, Step } from '../driver.js'
import { Fault, throwIfStopped } from '../fault.js'
import { keepEach, openDrains, surplus } from '../fleet.js'
import { labelPolicy } from '../images/allowed.js'
import { askedByTask } from '../images/asked.js'
import { loopbackHosts } from '../images/environment.js'
import { openGenerations } from '../images/generations.js'
import { startByTask } from '../images/start.js'
import { LABEL } from './container.js'
import { ensure, inspectImage, listContainers } from './engine.js'
import { openExits } from './exits.js'
import { emptyGroup, type Group, namesOf } from './group.js'
import { openImages } from './images.js'
import { openKeep } from './keep.js'
import type { DockerOptions, Shared } from './options.js'
import { openOutputs } from './output.js'
import { planOf } from './plan.js'
import { problemsOf } from './problems.js'
import { openReady } from './ready.js'
import { complete, endReplicas, keepRunning, listMains, nameOf } from './replicas.js'

export function openDockerDriver(options: DockerOptions): Driver {
  const { engine, config, log } = options
  const labels = labelPolicy(config)
  const groups = new Map<string, Group>()
  const changes = new EventEmitter()
  changes.setMaxListeners(0)
  const stop = new AbortController()
  const stopping = stop.signal
  const shared: Shared = { ...options, groups, changes, outputs: openOutputs(engine, options.logOf), stopping }
  const exits = openExits(shared)
  const ready = openReady(shared, exits)
  const generations = openGenerations({
    ...options,
    problemsOf: asked => problemsOf(asked, labels),
    planOf: start => planOf(options, start),
  })
  const keep = openKeep(shared, generations, ready)
  const beginDrain = openDrains(log)
  const mains = (labels: { [name: string]: string }) => listMains(engine, labels)
  /** Their runs are handed back at once. */
  const ending = { signal: 'SIGINT', ms: config.stop_ms } as const

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
    const plan = planOf(options, startByTask(task, artefact))
    // Its graphs must be loaded once.
    const group = emptyGroup(plan, Math.max(1, plan.size.range.min), true)
    groups.set(revision_id, group)
    await complete(shared, group, signal)
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
    await endReplicas(engine, earlier, ending)
  }

  function drain(revision_id: string, containers: readonly ContainerInfo[]): void {
    const { [LABEL.pool]: pool, [LABEL.deployment]: deployment_id } = containers[0]!.Labels
    beginDrain({ deployment_id: deployment_id!, revision_id }, async () => {
      const group = groups.get(revision_id)
      if (group !== undefined) group.draining = true
      await endReplicas(engine, containers, {
        signal: 'SIGTERM',
        ms: config.drain_ms + config.stop_ms + 2_000,
        async beforeRemoval() {
          // The next deploy worker finds them.
          throwIfStopped(stopping)
          await options.retire(pool!)
        },
      })
      groups.delete(revision_id)
    })
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
    await endReplicas(engine, containers, {
      ...ending,
      async beforeRemoval() {
        for (const pool of new Set(containers.map(({ Labels }) => Labels[LABEL.pool]!))) await options.retire(pool)
      },
    })
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
        const above = (await mains({ [LABEL.revision]: revision_id })).filter(one => !names.has(nameOf(one)))
        const start = async () => {
          await complete(shared, group, stopping)
          await ready(group, 0, stopping)
          await keepRunning(engine, revision_id)
        }
        await Promise.all([endReplicas(engine, above, ending), start()])
      },
    },
    /** The containers go on; the next deploy worker finds them. */
    async stop() {
      stop.abort()
      exits.close()
      shared.outputs.close()
    },
  }
}
