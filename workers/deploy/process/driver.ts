/**
 * The process driver (docs/spec/control-plane.md#process-driver): it builds a repository or an upload into an artefact
 * on this machine's disk and runs it as graph workers, which are children of the deploy worker. Every step may be
 * repeated after a crash: each attempt has its own folder, an artefact is complete or absent, and running revisions are
 * reconciled with active ones.
 */
import { chmod, mkdir, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { ActiveDeployment, Graph } from '../../../schemas/deploy-calls.js'
import { checkOurs, checkReach, type HostUser } from '../../child/process.js'
import type { Driver, Step } from '../driver.js'
import { Fault } from '../fault.js'
import { keepEach, openDrains, surplus } from '../fleet.js'
import { openArtefacts } from './artefacts.js'
import { markOf, openBuilder } from './builder.js'
import { openKeep, type RunningRevision, runningOf } from './keep.js'
import { killMarked } from './leftovers.js'
import type { ProcessOptions } from './options.js'
import { openRecords } from './records.js'
import { problemsOf, sizeOf } from './size.js'
import { openStart } from './start.js'

const DRAIN_MS = 5 * 60_000
/** Minimum age of an artefact before it is removed as unused: a build may be about to use it. */
const ARTEFACT_AGE_MS = 60 * 60_000

export async function openProcessDriver(options: ProcessOptions): Promise<Driver> {
  const { folder, config, log, versions } = options
  // Builds of an earlier process of this folder.
  await killMarked(markOf(folder))
  const artefacts = await openArtefacts(join(folder, 'artefacts'), options.user)
  if (options.user !== null) await openFolders(options.user, options)
  const builder = openBuilder(options, artefacts)
  const records = await openRecords(join(folder, 'deployments'))
  const running = new Map<string, RunningRevision>()
  const beginDrain = openDrains(log)
  const stop = new AbortController()
  const stopping = stop.signal
  const start = openStart(options, artefacts, records)
  const keep = openKeep(options, running, start, stopping)

  async function deploy(
    { task, signal, log: logOf }: Step,
    artefact: string,
  ): Promise<{ graphs: Graph[]; image_version: string }> {
    const say = logOf('deploy')
    const { revision_id } = task
    await stopRevision(revision_id)
    const { replicas: least, ...rest } = sizeOf(task.deployment.source_config.resource_spec, config)
    // Its graphs must be loaded once.
    const size = { ...rest, replicas: Math.max(1, least) }
    const replicas = await start({ ...task, artefact, size })
    if (replicas === null)
      throw new Fault(`deploy: the artefact ${artefact} is not on this machine; make a new revision`)
    running.set(revision_id, runningOf(task, replicas, true))
    say('INFO', `started ${size.replicas} replica${size.replicas === 1 ? '' : 's'}`)
    const graphs = await replicas.ready(config.deploy_stable_ms, signal)
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
      if (!stopping.aborted) await retire(one.deployment_id, one.revision_id, one.pool)
    })

  async function retire(deployment_id: string, revision_id: string, pool: string): Promise<void> {
    await options.retire(pool)
    await records.markRetired(deployment_id, revision_id)
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
      stop.abort()
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
