/**
 * The exits of main containers: each is logged and counted, one that cannot pass is explained, and a replica that the
 * engine does not start again is started here.
 */
import type { ContainerInfo } from 'dockerode'
import { withExit } from '../crashes.js'
import { LABEL } from './container.js'
import { type EngineEvent, ensure, followEvents, unlessMissing } from './engine.js'
import { type Group, namesOf } from './group.js'
import type { Shared } from './options.js'
import { lastOutput, redactorOf } from './output.js'
import { renewSidecars } from './replicas.js'

const RESTART_MS = [1_000, 2_000, 4_000, 8_000, 15_000]

export interface Exits {
  /** Notes what has exited among the main containers of the group: an engine may lose events, above all when it restarts. */
  note(group: Group, present: readonly ContainerInfo[]): Promise<void>
  close(): void
}

export function openExits(shared: Shared): Exits {
  const { engine, beats, log, figures, groups, changes, outputs, stopping } = shared
  /** Containers whose last end was for want of memory. */
  const oom = new Set<string>()
  const wake = () => void changes.emit('change')
  const unfollow = followEvents(engine, log, { onOpen: wake, onEvent })

  function onEvent({ action, id, labels, exit_code }: EngineEvent): void {
    if (labels[LABEL.part] !== 'main') return
    const group = groups.get(labels[LABEL.revision] ?? '')
    if (action === 'oom') oom.add(id)
    else if (action === 'die') onExit(id, labels, group, exit_code)
    else if (action === 'start' && group !== undefined) onStart(id, labels[LABEL.replica]!, group)
    wake()
  }

  function onStart(id: string, replica: string, group: Group): void {
    group.down.delete(id)
    outputs.follow(id, group.plan)
    if (!group.deploying)
      void renewSidecars(engine, { [LABEL.replica]: replica }).catch(error =>
        log.warn({ err: error }, 'sidecars could not be restarted'),
      )
  }

  function onExit(id: string, labels: EngineEvent['labels'], group: Group | undefined, code: number | null): void {
    const replica = labels[LABEL.replica]!
    const isOom = oom.delete(id)
    outputs.end(id)
    beats.forget(labels[LABEL.revision]!, replica)
    if (group === undefined || group.draining || labels[LABEL.generation] !== String(group.plan.generation)) return
    if (group.down.has(id)) return
    group.down.add(id)
    const { memory_limit_mb } = group.plan.size
    const reason = isOom
      ? `it needed more memory than its limit of ${memory_limit_mb} MB (resource_spec.memory_limit_mb)`
      : `it exited with code ${code}`
    figures.count('weft_replica_exits_total')
    log.warn({ revision_id: group.plan.revision_id, replica, reason }, 'a replica exited')
    shared.logOf(group.plan).of('runtime')('ERROR', `a replica exited: ${reason}`)
    group.exits = withExit(group.exits)
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
    !stopping.aborted &&
    !group.draining &&
    groups.get(group.plan.revision_id) === group &&
    namesOf(group).includes(replica)

  async function explain(id: string, group: Group, reason: string): Promise<void> {
    const said = await lastOutput(engine, id, redactorOf(group.plan), 5)
    group.broken = [reason, ...said.slice(-1)].join(': ')
    wake()
  }

  return {
    async note(group, present) {
      for (const { Id, Labels, State } of present) {
        if (State !== 'exited' || group.down.has(Id)) continue
        const found = await unlessMissing(engine.getContainer(Id).inspect())
        if (found === null || found.State.Status !== 'exited') continue
        if (found.State.OOMKilled) oom.add(Id)
        onExit(Id, Labels, group, found.State.ExitCode)
      }
    },
    close: unfollow,
  }
}
