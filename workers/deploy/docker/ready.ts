/** Waits until the replicas of a group are ready, or can never be. */
import type { Graph } from '../../../schemas/deploy-calls.js'
import { throwIfCrashing } from '../crashes.js'
import { Fault, throwIfStopped } from '../fault.js'
import { nextChange } from '../wait.js'
import type { Exits } from './exits.js'
import { type Group, namesOf } from './group.js'
import type { Shared } from './options.js'
import { mainsOf, nameOf } from './replicas.js'

const READY_MS = 10 * 60_000
/** Events and beats wake the loop; one that was missed costs this long. */
const LOOK_MS = 2_000

/** Resolves to the graphs when all replicas were ready for `stable_ms`. Throws a Fault or Stopped. */
export type Ready = (group: Group, stable_ms: number, signal: AbortSignal) => Promise<Graph[]>

export function openReady({ engine, beats, changes }: Shared, exits: Exits): Ready {
  /** The graphs when every replica runs, has said that it is ready, and is not unhealthy; else null. */
  async function graphsOf(group: Group): Promise<Graph[] | null> {
    const { plan, deploying } = group
    const present = await mainsOf(engine, plan)
    if (deploying) await exits.note(group, present)
    const good = new Set(
      present
        .filter(one => one.State === 'running' && !/\((unhealthy|health: starting)\)/.test(one.Status))
        .map(nameOf),
    )
    const said = namesOf(group).map(name => (good.has(name) ? beats.graphsOf(plan.revision_id, name) : null))
    return said.includes(null) ? null : (said.at(-1) ?? [])
  }

  return async (group, stable_ms, signal) => {
    const until = performance.now() + READY_MS
    let since: number | null = null
    const unlisten = beats.on(group.plan.revision_id, () => void changes.emit('change'))
    try {
      for (;;) {
        throwIfStopped(signal)
        throwIfCrashing(group)
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
}

const NOT_READY = `the containers were not ready within ${READY_MS / 1000} s; the image must run \`weft graphs\``
