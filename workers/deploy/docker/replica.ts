/**
 * One replica on the engine: init containers one after another, then the main container, then its sidecars. Every step
 * may be repeated; what exists already is kept when it is of the same epoch, and replaced when it is of an earlier one.
 */
import type Docker from 'dockerode'
import type { ContainerCreateOptions, ContainerInfo } from 'dockerode'
import type { Redactor } from '../../../schemas/redact.js'
import { Fault, throwIfStopped } from '../fault.js'
import type { Say } from '../log.js'
import {
  initContainer,
  LABEL,
  mainContainer,
  networkOf,
  type ReplicaPlan,
  sidecarContainer,
  volumesOf,
} from './container.js'
import { ensure, faultOf, listContainers, unlessMissing } from './engine.js'
import { lastOutput } from './output.js'

export interface Creation {
  engine: Docker
  plan: ReplicaPlan
  redactor: Redactor
  say: Say
  signal: AbortSignal
}

/** Creates and starts replica `n`; resolves to the id of its main container. Throws a Fault or Stopped. */
export async function createReplica(creation: Creation, n: number): Promise<string> {
  const { engine, plan, signal } = creation
  try {
    await removeDead(engine, mainContainer(plan, n))
    if (plan.network !== 'host') await ensureNetwork(engine, plan)
    for (const volume of volumesOf(plan, n)) await engine.createVolume(volume)
    for (const container of plan.spec?.init_containers ?? []) await runInit(creation, initContainer(plan, n, container))
    throwIfStopped(signal)
    const main = await create(engine, mainContainer(plan, n))
    if (plan.network !== '' && plan.network !== 'host')
      await ensure(engine.getNetwork(plan.network).connect({ Container: main })).catch(error => {
        throw new Fault(`deploy: the network ${plan.network} of WEFT_DOCKER_NETWORK: ${(error as Error).message}`)
      })
    throwIfStopped(signal)
    await ensure(engine.getContainer(main).start())
    for (const container of plan.spec?.sidecars ?? []) {
      throwIfStopped(signal)
      const sidecar = await create(engine, sidecarContainer(plan, n, container, main))
      await ensure(engine.getContainer(sidecar).start())
    }
    return main
  } catch (error) {
    throw faultOf('deploy', error)
  }
}

async function ensureNetwork(engine: Docker, plan: ReplicaPlan): Promise<void> {
  const options = networkOf(plan)
  // The engine allows two networks of one name.
  if ((await unlessMissing(engine.getNetwork(options.Name).inspect())) === null)
    await ensure(engine.createNetwork(options))
}

type Creating = ContainerCreateOptions & { name: string }

/** Its sidecars hold the network of a main container that has ended: Podman removes it after them only. */
async function removeDead(engine: Docker, main: Creating): Promise<void> {
  if ((await findSame(engine, main)) === null) await removeReplica(engine, main.name)
}

/** Creates the container. One of the same name is kept when it is of the same epoch; else it is in the way. */
async function create(engine: Docker, options: Creating): Promise<string> {
  for (let n = 0; ; n++) {
    // Asked for before: an engine says in its own way that a name is in use, Podman by a status 500.
    const same = await findSame(engine, options)
    if (same !== null) return same
    await ensure(engine.getContainer(options.name).remove({ force: true, v: true }))
    try {
      return (await engine.createContainer(options)).id
    } catch (error) {
      // Another deploy worker has created it meanwhile.
      if (n > 0 || (await unlessMissing(engine.getContainer(options.name).inspect())) === null) throw error
    }
  }
}

/** The id of the container of this name, if it runs and is of the same epoch. */
async function findSame(engine: Docker, { name, Labels }: Creating): Promise<string | null> {
  const found = await unlessMissing(engine.getContainer(name).inspect())
  const isSame = found?.Config.Labels[LABEL.epoch] === Labels?.[LABEL.epoch] && found?.State.Running
  return found !== null && isSame ? found.Id : null
}

async function runInit(
  { engine, redactor, say, signal }: Creation,
  options: ContainerCreateOptions & { name: string },
): Promise<void> {
  throwIfStopped(signal)
  const id = await create(engine, options)
  const container = engine.getContainer(id)
  try {
    say('INFO', `init container ${options.name}`)
    await ensure(container.start())
    const { StatusCode } = (await container.wait({ abortSignal: signal } as object)) as { StatusCode: number }
    throwIfStopped(signal)
    for (const line of await lastOutput(engine, id, redactor, 1_000)) say('INFO', line)
    if (StatusCode !== 0) throw new Fault(`deploy: the init container ${options.name} exited with code ${StatusCode}`)
  } catch (error) {
    throwIfStopped(signal)
    throw error
  } finally {
    await ensure(container.remove({ force: true, v: true }))
  }
}

/** Removes a replica, whatever is left of it: its sidecars first, then its main container, then its own volumes. */
export async function removeReplica(engine: Docker, replica: string): Promise<void> {
  const parts = await listContainers(engine, { [LABEL.replica]: replica })
  const isMain = ({ Labels }: ContainerInfo) => Labels[LABEL.part] === 'main'
  for (const { Id } of [...parts.filter(one => !isMain(one)), ...parts.filter(isMain)])
    await ensure(engine.getContainer(Id).remove({ force: true, v: true }))
  const { Volumes } = await engine.listVolumes({ filters: JSON.stringify({ label: [`${LABEL.replica}=${replica}`] }) })
  for (const { Name } of Volumes ?? []) await ensure(engine.getVolume(Name).remove())
}

/**
 * Ends the main container: `SIGTERM` drains it, `SIGINT` makes it hand its runs back at once. After `ms` it is killed.
 * Resolves when it does not run any more.
 */
export async function endMain(engine: Docker, id: string, signal: 'SIGTERM' | 'SIGINT', ms: number): Promise<void> {
  const container = engine.getContainer(id)
  await ensure(container.update({ RestartPolicy: { Name: 'no' } }))
  const ended = container.wait().catch(() => {})
  // Docker says by a status 409 that it does not run, Podman by 500.
  const failure = await ensure(container.kill({ signal })).catch(error => error as Error)
  const found = await unlessMissing(container.inspect())
  if (found === null || !found.State.Running) return
  if (failure !== undefined) throw failure
  const timer = setTimeout(() => void ensure(container.kill({ signal: 'SIGKILL' })).catch(() => {}), ms)
  await ended
  clearTimeout(timer)
}
