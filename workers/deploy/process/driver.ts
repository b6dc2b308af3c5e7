/**
 * The process driver (API: control-plane 11.2): a repository is built into an artefact on this machine's disk, and
 * runs as graph workers that are children of the deploy worker. Everything here may be repeated after a crash: the
 * folder of a try is its own, an artefact is whole or absent, and what runs is compared with what should.
 */
import { join } from 'node:path'
import type { ActiveDeployment, Graph } from '../../../schemas/deploy-calls.js'
import type { Driver, Step } from '../driver.js'
import { Fault } from '../fault.js'
import { openArtefacts } from './artefacts.js'
import { openBuilder } from './builder.js'
import { hostEnv, inheritedBy } from './environment.js'
import type { ProcessOptions } from './options.js'
import { openRecords } from './records.js'
import { type Replicas, startReplicas } from './replicas.js'
import { problemsOf, type Size, sizeOf } from './size.js'

const READY_MS = 10 * 60_000
const DRAIN_MS = 5 * 60_000
/** An artefact that nothing refers to stays this long: a build may be about to take it over. */
const ARTEFACT_AGE_MS = 60 * 60_000

interface Running {
  deployment_id: string
  slug: string
  revision_id: string
  pool: string
  generation: number
  replicas: Replicas
  /** It waits for its cutover. */
  deploying: boolean
  draining: Promise<void> | null
}

export async function openProcessDriver(options: ProcessOptions): Promise<Driver> {
  const { folder, config, ours, log, versions } = options
  const artefacts = await openArtefacts(join(folder, 'artefacts'))
  const builder = openBuilder(options, artefacts)
  const records = await openRecords(join(folder, 'deployments'))
  const running = new Map<string, Running>()
  let stopping = false

  interface Wanted {
    deployment_id: string
    slug: string
    revision_id: string
    pool: string
    generation: number
    artefact: string
    env: { [name: string]: string }
    size: Size
  }

  /** Null when the artefact is not on this disk. */
  async function start(wanted: Wanted): Promise<Replicas | null> {
    const { deployment_id, revision_id, pool, artefact, env, size } = wanted
    const found = await artefacts.find(artefact)
    if (found === null) return null
    await records.note(deployment_id, { revision_id, pool, artefact })
    return startReplicas({
      count: size.replicas,
      start: {
        config: {
          ...config,
          app: join(found.tree, found.note.config),
          app_id: deployment_id,
          pool,
          hosts: size.hosts,
          host_memory_mb: size.memory_mb,
          // Done before we are: what does not end in time is handed back, not lost.
          stop_ms: Math.floor(config.stop_ms / 2),
        },
        nats_url: options.nats_url,
        revision_id,
        env: hostEnv(options, wanted, env),
      },
      env: inheritedBy(ours),
      log,
      say: options.logOf(wanted).of('runtime'),
    })
  }

  async function deploy(
    { order, signal, log: logOf }: Step,
    artefact: string,
  ): Promise<{ graphs: Graph[]; image_version: string }> {
    const say = logOf('deploy')
    const { deployment_id, slug, revision_id, pool, generation } = order
    await ended(revision_id)
    const size = sizeOf(order.deployment.source_config.resource_spec, config)
    const replicas = await start({ deployment_id, slug, revision_id, pool, generation, artefact, env: order.env, size })
    if (replicas === null)
      throw new Fault(`deploy: the artefact ${artefact} is not on this machine; make a new revision`)
    running.set(revision_id, {
      deployment_id,
      slug,
      revision_id,
      pool,
      generation,
      replicas,
      deploying: true,
      draining: null,
    })
    say('INFO', `started ${size.replicas} replica${size.replicas === 1 ? '' : 's'}`)
    const graphs = await replicas.ready(config.deploy_stable_ms, READY_MS, signal)
    say('INFO', `ready: ${graphs.map(graph => graph.graph_id).join(', ')}`)
    return { graphs, image_version: `weft ${versions.weft}` }
  }

  /** Stops what runs of the revision. */
  async function ended(revision_id: string): Promise<void> {
    const one = running.get(revision_id)
    if (one === undefined) return
    await one.replicas.stop(config.stop_ms)
    running.delete(revision_id)
  }

  function drain(one: Running): void {
    if (one.draining !== null) return
    log.info(
      { deployment_id: one.deployment_id, revision_id: one.revision_id },
      'a revision no longer serves; draining',
    )
    one.draining = one.replicas.drain(DRAIN_MS).then(async () => {
      running.delete(one.revision_id)
      if (!stopping) await retire(one.deployment_id, one.revision_id, one.pool)
    })
    one.draining.catch(error => log.warn({ err: error, revision_id: one.revision_id }, 'a revision was not drained'))
  }

  async function retire(deployment_id: string, revision_id: string, pool: string): Promise<void> {
    await options.retire(pool)
    await records.retired(deployment_id, revision_id)
  }

  async function startActive(active: ActiveDeployment): Promise<void> {
    const { deployment_id, slug, revision_id, pool, generation, artefact, resource_spec } = active
    if (artefact === null) return
    const { env } = await options.env(deployment_id, revision_id)
    if (stopping || running.has(revision_id)) return
    const size = sizeOf(resource_spec, config)
    const replicas = await start({ deployment_id, slug, revision_id, pool, generation, artefact, env, size })
    if (replicas === null)
      return log.error({ deployment_id, revision_id, artefact }, 'an active revision cannot run: its artefact is gone')
    running.set(revision_id, {
      deployment_id,
      slug,
      revision_id,
      pool,
      generation,
      replicas,
      deploying: false,
      draining: null,
    })
    log.info({ deployment_id, revision_id, pids: replicas.pids() }, 'an active revision was started')
  }

  /** Another size: new replicas first, then the old ones hand over what they run. A size that fails is not tried again. */
  async function resize(one: Running, active: ActiveDeployment): Promise<void> {
    one.generation = active.generation
    const { env } = await options.env(one.deployment_id, one.revision_id)
    const replicas = await start({
      ...one,
      artefact: active.artefact!,
      env,
      size: sizeOf(active.resource_spec, config),
    })
    if (replicas === null) return
    try {
      await replicas.ready(0, READY_MS, new AbortController().signal)
    } catch (error) {
      log.error(
        { err: error, revision_id: one.revision_id },
        'a revision could not take its new size; it keeps the old one',
      )
      return replicas.stop(config.stop_ms)
    }
    if (stopping || one.draining !== null) return replicas.stop(config.stop_ms)
    const before = one.replicas
    one.replicas = replicas
    log.info({ revision_id: one.revision_id, pids: replicas.pids() }, 'a revision has its new size')
    await before.stop(config.stop_ms)
  }

  async function settle(active: readonly ActiveDeployment[]): Promise<void> {
    const serving = new Map(active.map(one => [one.revision_id, one]))
    const deploying = new Set(active.map(one => one.deploying_revision_id))
    for (const one of running.values()) {
      if (serving.has(one.revision_id)) one.deploying = false
      else if (!one.deploying && !deploying.has(one.revision_id)) drain(one)
    }
    for (const one of active) {
      const known = running.get(one.revision_id)
      if (known === undefined)
        await startActive(one).catch(error =>
          log.warn(
            { err: error, revision_id: one.revision_id },
            'an active revision could not be started; trying again later',
          ),
        )
      else if (known.generation !== one.generation && known.draining === null)
        void resize(known, one).catch(error =>
          log.warn({ err: error, revision_id: one.revision_id }, 'a new size failed'),
        )
    }
    // Revisions of an earlier life that serve no more.
    for (const { deployment_id, revision_id, pool } of await records.earlier())
      if (!serving.has(revision_id) && !deploying.has(revision_id) && !running.has(revision_id))
        await retire(deployment_id, revision_id, pool)
    const removed = await artefacts.collect(await records.artefacts(), ARTEFACT_AGE_MS)
    if (removed.length > 0) log.info({ artefacts: removed.length }, 'artefacts that nothing refers to were removed')
  }

  return {
    sources: ['github'],
    problems: order => problemsOf(order.deployment.source_config.resource_spec),
    build: builder.build,
    has: async artefact => (await artefacts.find(artefact)) !== null,
    deploy,
    async undo({ deployment_id, revision_id, pool }) {
      await builder.clear(deployment_id)
      if (!running.has(revision_id)) return
      await ended(revision_id)
      await retire(deployment_id, revision_id, pool)
    },
    settle,
    async destroy({ deployment_id }) {
      const own = [...running.values()].filter(one => one.deployment_id === deployment_id)
      await Promise.all(own.map(one => ended(one.revision_id)))
      for (const { revision_id, pool } of await records.of(deployment_id))
        await retire(deployment_id, revision_id, pool)
      await builder.forget(deployment_id)
      await records.forget(deployment_id)
    },
    async stop(ms) {
      stopping = true
      await Promise.all([...running.values()].map(one => one.replicas.stop(ms)))
    },
  }
}
