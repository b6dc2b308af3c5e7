/** The replicas of a group on the engine. Every function may be repeated. */
import type Docker from 'dockerode'
import type { ContainerInfo, ContainerInspectInfo } from 'dockerode'
import { LABEL, type ReplicaPlan } from './container.js'
import { ensure, listContainers, unlessMissing } from './engine.js'
import { type Group, namesOf } from './group.js'
import type { Shared } from './options.js'
import { redactorOf } from './output.js'
import { createReplica, endMain, removeReplica } from './replica.js'

/** The main containers with these labels, also those that do not run. */
export const listMains = (engine: Docker, labels: { [name: string]: string }): Promise<ContainerInfo[]> =>
  listContainers(engine, { ...labels, [LABEL.part]: 'main' })

/** The main containers of one generation. */
export const mainsOf = (engine: Docker, { revision_id, generation }: ReplicaPlan): Promise<ContainerInfo[]> =>
  listMains(engine, { [LABEL.revision]: revision_id, [LABEL.generation]: String(generation) })

export const isRunning = ({ State }: ContainerInfo): boolean => State === 'running' || State === 'restarting'
export const nameOf = ({ Labels }: ContainerInfo): string => Labels[LABEL.replica]!

/** Creates the replicas of the group that are missing. Throws a Fault or Stopped. */
export async function complete(shared: Shared, group: Group, signal: AbortSignal): Promise<void> {
  const { engine, outputs, logOf } = shared
  const { plan } = group
  plan.cores = (await engine.info()).NCPU as number
  const present = await mainsOf(engine, plan)
  const running = new Map(present.filter(isRunning).map(one => [nameOf(one), one.Id]))
  const creation = { engine, plan, redactor: redactorOf(plan), say: logOf(plan).of('deploy'), signal }
  for (const [i, name] of namesOf(group).entries()) {
    const id = running.get(name) ?? (await createReplica(creation, i + 1))
    if (!outputs.has(id)) outputs.follow(id, plan)
  }
}

/**
 * Restarts the sidecars with these labels whose main container has started after them: they are in its earlier network. An engine
 * restarts an active main container alone, also while no deploy worker sees it.
 */
export async function renewSidecars(engine: Docker, labels: { [name: string]: string }): Promise<void> {
  const inspect = (id: string) => unlessMissing(engine.getContainer(id).inspect())
  for (const { Id, Labels } of await listContainers(engine, { ...labels, [LABEL.part]: 'sidecar' })) {
    const [main, sidecar] = await Promise.all([inspect(Labels[LABEL.replica]!), inspect(Id)])
    if (main?.State.Running && sidecar !== null && startOf(sidecar) < startOf(main))
      await ensure(engine.getContainer(Id).restart({ t: 5 }))
  }
}

const startOf = ({ State }: ContainerInspectInfo): number => Date.parse(State.StartedAt)

/** From now on the engine restarts the replicas of the revision. */
export async function keepRunning(engine: Docker, revision_id: string): Promise<void> {
  for (const { Id } of await listMains(engine, { [LABEL.revision]: revision_id }))
    await ensure(engine.getContainer(Id).update({ RestartPolicy: { Name: 'unless-stopped' } }))
}

interface Ending {
  signal: 'SIGTERM' | 'SIGINT'
  ms: number
  /** Runs when they have ended and are not removed yet: they are the record that their pools exist. */
  beforeRemoval?(): Promise<void>
}

/** Ends these replicas and removes them. */
export async function endReplicas(
  engine: Docker,
  mains: readonly ContainerInfo[],
  { signal, ms, beforeRemoval = async () => {} }: Ending,
): Promise<void> {
  await Promise.all(mains.map(({ Id }) => endMain(engine, Id, signal, ms)))
  await beforeRemoval()
  for (const replica of new Set(mains.map(nameOf))) await removeReplica(engine, replica)
}
