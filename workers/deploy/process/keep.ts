/** Keeps active revisions running: starts what is missing, replaces what has another size. */
import type { ActiveDeployment } from '../../../schemas/deploy-calls.js'
import { rangeOf, within } from '../scaling.js'
import type { ProcessOptions } from './options.js'
import type { Replicas } from './replicas.js'
import { sizeOf } from './size.js'
import type { RevisionToStart, Start } from './start.js'

export interface RunningRevision
  extends Pick<RevisionToStart, 'deployment_id' | 'slug' | 'revision_id' | 'pool' | 'generation'> {
  replicas: Replicas
  /** Before its cutover. */
  deploying: boolean
  draining: boolean
}

export const runningOf = (
  { deployment_id, slug, revision_id, pool, generation }: Omit<RunningRevision, 'replicas' | 'deploying' | 'draining'>,
  replicas: Replicas,
  deploying: boolean,
): RunningRevision => ({ deployment_id, slug, revision_id, pool, generation, replicas, deploying, draining: false })

export type Keep = (active: ActiveDeployment) => Promise<void>

export function openKeep(
  options: ProcessOptions,
  running: Map<string, RunningRevision>,
  start: Start,
  stopping: AbortSignal,
): Keep {
  const { config, log } = options

  async function startActive(active: ActiveDeployment): Promise<void> {
    const { deployment_id, revision_id, artefact, resource_spec } = active
    if (artefact === null) return
    const { env, pool_user } = await options.env(deployment_id, revision_id)
    if (stopping.aborted || running.has(revision_id)) return
    const replicas = await start({ ...active, artefact, env, pool_user, size: sizeOf(resource_spec, config) })
    if (replicas === null)
      return log.error(
        { deployment_id, revision_id, artefact },
        'an active revision cannot run: its artefact is missing',
      )
    running.set(revision_id, runningOf(active, replicas, false))
    log.info({ deployment_id, revision_id, pids: replicas.pids() }, 'active revision started')
  }

  /** Starts replicas of the new size, then stops the old ones, which hand back their runs. A size that fails is not repeated. */
  async function resize(one: RunningRevision, active: ActiveDeployment): Promise<void> {
    const { deployment_id, revision_id } = one
    one.generation = active.generation
    const { env, pool_user } = await options.env(deployment_id, revision_id)
    // Its load stays the same.
    const count = within(rangeOf(active.resource_spec), one.replicas.count())
    const size = { ...sizeOf(active.resource_spec, config), replicas: count }
    const replicas = await start({ ...one, artefact: active.artefact!, env, pool_user, size })
    if (replicas === null) return
    try {
      await replicas.ready(0, new AbortController().signal)
    } catch (error) {
      log.error({ err: error, revision_id }, 'a revision could not be resized; it keeps its old size')
      return replicas.stop(config.stop_ms)
    }
    if (stopping.aborted || one.draining) return replicas.stop(config.stop_ms)
    const previous = one.replicas
    one.replicas = replicas
    log.info({ revision_id, pids: replicas.pids() }, 'revision resized')
    await previous.stop(config.stop_ms)
  }

  return async active => {
    const { revision_id, generation } = active
    const found = running.get(revision_id)
    if (found === undefined) return startActive(active)
    if (found.generation === generation || found.draining) return
    void resize(found, active).catch(error => log.warn({ err: error, revision_id }, 'a revision could not be resized'))
  }
}
