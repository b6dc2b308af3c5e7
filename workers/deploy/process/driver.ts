/**
 * The process driver (docs/spec/control-plane.md#process-driver): it builds a repository or an upload into an artefact
 * on this machine's disk and runs it as graph workers, which are children of the deploy worker. Every step may be
 * repeated after a crash: each attempt has its own folder, an artefact is complete or absent, and running revisions are
 * reconciled with active ones.
 */
import { chmod, mkdir, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { ActiveDeployment, Graph, PoolUser } from '../../../schemas/deploy-calls.js'
import { openRedactor } from '../../../schemas/redact.js'
import { checkOurs, checkReach, type HostUser } from '../../child/process.js'
import type { Driver, Step } from '../driver.js'
import { Fault } from '../fault.js'
import { keepEach, openDrains, surplus } from '../fleet.js'
import { natsUrlOf } from '../nats-url.js'
import { rangeOf, within } from '../scaling.js'
import { openArtefacts } from './artefacts.js'
import { markOf, openBuilder } from './builder.js'
import { openCgroups } from './cgroups.js'
import { hostEnv, inheritedEnv } from './environment.js'
import { killMarked } from './leftovers.js'
import type { ProcessOptions } from './options.js'
import { openRecords } from './records.js'
import { type Replicas, startReplicas } from './replicas.js'
import { problemsOf, type Size, sizeOf } from './size.js'

const READY_MS = 10 * 60_000
const DRAIN_MS = 5 * 60_000
/** Minimum age of an artefact before it is removed as unused: a build may be about to use it. */
const ARTEFACT_AGE_MS = 60 * 60_000

interface RunningRevision {
  deployment_id: string
  slug: string
  revision_id: string
  pool: string
  generation: number
  replicas: Replicas
  /** Before its cutover. */
  deploying: boolean
  draining: boolean
}

export async function openProcessDriver(options: ProcessOptions): Promise<Driver> {
  const { folder, config, ours, log, versions } = options
  // Builds of an earlier process of this folder.
  await killMarked(markOf(folder))
  const artefacts = await openArtefacts(join(folder, 'artefacts'), options.user)
  if (options.user !== null) await openFolders(options.user, options)
  const builder = openBuilder(options, artefacts)
  const records = await openRecords(join(folder, 'deployments'))
  const cgroups = openCgroups(config.cgroup, folder)
  if ('reason' in cgroups)
    log[config.cgroup === '' ? 'info' : 'warn'](
      { reason: cgroups.reason },
      'replicas are limited by the memory of their hosts, not by cgroups',
    )
  else log.info({ folder: cgroups.folder }, 'replicas are limited by cgroups: processor, memory and processes')
  const running = new Map<string, RunningRevision>()
  const beginDrain = openDrains(log)
  let stopping = false

  interface RevisionToStart {
    deployment_id: string
    slug: string
    revision_id: string
    pool: string
    generation: number
    artefact: string
    env: { [name: string]: string }
    pool_user: PoolUser | null
    size: Size
  }

  /** Resolves to null when the artefact is not on this disk. */
  async function start(revision: RevisionToStart): Promise<Replicas | null> {
    const { deployment_id, revision_id, pool, artefact, env, pool_user, size } = revision
    const found = await artefacts.find(artefact)
    if (found === null) return null
    await records.add(deployment_id, { revision_id, pool, artefact })
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
          // All runs of a scaled deployment are counted in its queue.
          hand_over: config.hand_over && !size.isScaled,
          // The environment of the artefact, and no other.
          python: '',
          // Shorter than our own deadline, so that unfinished runs are handed back and not lost.
          stop_ms: Math.floor(config.stop_ms / 2),
        },
        nats_url: natsUrlOf(options.nats_url, pool_user),
        revision_id,
        env: hostEnv(options, revision, env),
      },
      env: inheritedEnv(ours),
      redactor: openRedactor(Object.values(env)),
      log,
      say: options.logOf(revision).of('runtime'),
      confine(pid) {
        if ('reason' in cgroups) return () => {}
        try {
          return cgroups.confine(pid, size.limits)
        } catch (error) {
          log.error({ err: error, revision_id }, 'a replica could not be put into a cgroup: it runs without its limits')
          return () => {}
        }
      },
      onExited: () => options.figures.count('weft_replica_exits_total'),
    })
  }

  async function deploy(
    { task, signal, log: logOf }: Step,
    artefact: string,
  ): Promise<{ graphs: Graph[]; image_version: string }> {
    const say = logOf('deploy')
    const { deployment_id, slug, revision_id, pool, generation } = task
    await stopRevision(revision_id)
    const { replicas: least, ...rest } = sizeOf(task.deployment.source_config.resource_spec, config)
    // Its graphs must be loaded once.
    const size = { ...rest, replicas: Math.max(1, least) }
    const replicas = await start({
      deployment_id,
      slug,
      revision_id,
      pool,
      generation,
      artefact,
      env: task.env,
      pool_user: task.pool_user,
      size,
    })
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
      draining: false,
    })
    say('INFO', `started ${size.replicas} replica${size.replicas === 1 ? '' : 's'}`)
    const graphs = await replicas.ready(config.deploy_stable_ms, READY_MS, signal)
    say('INFO', `ready: ${graphs.map(graph => graph.graph_id).join(', ')}`)
    return { graphs, image_version: `weft ${versions.weft}` }
  }

  async function stopRevision(revision_id: string): Promise<void> {
    const one = running.get(revision_id)
    if (one === undefined) return
    await one.replicas.stop(config.stop_ms)
    running.delete(revision_id)
  }

  const drain = (one: RunningRevision): void =>
    beginDrain(one, async () => {
      one.draining = true
      await one.replicas.drain(DRAIN_MS)
      running.delete(one.revision_id)
      if (!stopping) await retire(one.deployment_id, one.revision_id, one.pool)
    })

  async function retire(deployment_id: string, revision_id: string, pool: string): Promise<void> {
    await options.retire(pool)
    await records.markRetired(deployment_id, revision_id)
  }

  async function startActive(active: ActiveDeployment): Promise<void> {
    const { deployment_id, slug, revision_id, pool, generation, artefact, resource_spec } = active
    if (artefact === null) return
    const { env, pool_user } = await options.env(deployment_id, revision_id)
    if (stopping || running.has(revision_id)) return
    const size = sizeOf(resource_spec, config)
    const replicas = await start({ deployment_id, slug, revision_id, pool, generation, artefact, env, pool_user, size })
    if (replicas === null)
      return log.error(
        { deployment_id, revision_id, artefact },
        'an active revision cannot run: its artefact is missing',
      )
    running.set(revision_id, {
      deployment_id,
      slug,
      revision_id,
      pool,
      generation,
      replicas,
      deploying: false,
      draining: false,
    })
    log.info({ deployment_id, revision_id, pids: replicas.pids() }, 'active revision started')
  }

  async function keep(active: ActiveDeployment): Promise<void> {
    const found = running.get(active.revision_id)
    if (found === undefined) return startActive(active)
    if (found.generation === active.generation || found.draining) return
    void resize(found, active).catch(error =>
      log.warn({ err: error, revision_id: active.revision_id }, 'a revision could not be resized'),
    )
  }

  /** Starts replicas of the new size, then stops the old ones, which hand back their runs. A size that fails is not repeated. */
  async function resize(one: RunningRevision, active: ActiveDeployment): Promise<void> {
    one.generation = active.generation
    const { env, pool_user } = await options.env(one.deployment_id, one.revision_id)
    const replicas = await start({
      ...one,
      artefact: active.artefact!,
      env,
      pool_user,
      size: {
        ...sizeOf(active.resource_spec, config),
        // Its load stays the same.
        replicas: within(rangeOf(active.resource_spec), one.replicas.count()),
      },
    })
    if (replicas === null) return
    try {
      await replicas.ready(0, READY_MS, new AbortController().signal)
    } catch (error) {
      log.error({ err: error, revision_id: one.revision_id }, 'a revision could not be resized; it keeps its old size')
      return replicas.stop(config.stop_ms)
    }
    if (stopping || one.draining) return replicas.stop(config.stop_ms)
    const previous = one.replicas
    one.replicas = replicas
    log.info({ revision_id: one.revision_id, pids: replicas.pids() }, 'revision resized')
    await previous.stop(config.stop_ms)
  }

  async function reconcile(active: readonly ActiveDeployment[], held: ReadonlySet<string>): Promise<void> {
    const isSurplus = surplus(active, held)
    for (const one of running.values()) if (!one.deploying && isSurplus(one.revision_id)) drain(one)
    const found = active.flatMap(({ revision_id }) => running.get(revision_id) ?? [])
    for (const one of found) one.deploying = false
    await keepEach(active, log, keep)
    // Revisions that an earlier process started and that are no longer active.
    for (const { deployment_id, revision_id, pool } of await records.listUnretired())
      if (isSurplus(revision_id) && !running.has(revision_id)) await retire(deployment_id, revision_id, pool)
    const removed = await artefacts.collect(await records.listArtefacts(), ARTEFACT_AGE_MS)
    if (removed.length > 0) log.info({ artefacts: removed.length }, 'unused artefacts removed')
  }

  return {
    sources: ['github', 'internal_source'],
    problems: task => problemsOf(task.deployment.source_config.resource_spec),
    build: builder.build,
    has: async artefact => (await artefacts.find(artefact)) !== null,
    deploy,
    async undo({ deployment_id, revision_id, pool }) {
      await builder.clear(deployment_id)
      if (!running.has(revision_id)) return
      await stopRevision(revision_id)
      await retire(deployment_id, revision_id, pool)
    },
    reconcile,
    scaling: {
      replicas(revision_id) {
        const one = running.get(revision_id)
        return one === undefined || one.deploying || one.draining ? null : one.replicas.count()
      },
      scale: async (revision_id, n) => running.get(revision_id)?.replicas.scale(n, config.stop_ms),
    },
    async destroy({ deployment_id }) {
      const mine = [...running.values()].filter(one => one.deployment_id === deployment_id)
      await Promise.all(mine.map(one => stopRevision(one.revision_id)))
      for (const { revision_id, pool } of await records.list(deployment_id))
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

/**
 * Lets another user enter the folders of builds and artefacts. It may list none of them, and what is beside them (keys,
 * database, records) stays readable by our user only.
 */
async function openFolders(user: HostUser, { folder, config }: ProcessOptions): Promise<void> {
  const inner = ['artefacts', 'work', 'home'].map(name => join(folder, name))
  for (const each of inner) await mkdir(each, { recursive: true })
  for (const each of [resolve(config.data), folder, ...inner])
    await chmod(each, ((await stat(each)).mode & 0o700) | 0o011)
  for (const each of inner) checkReach(user, each)
  checkOurs(user, folder, 'WEFT_DATA')
}
