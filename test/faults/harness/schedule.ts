/** The faults of random schedules: each one is injected, lasts for a while, and heals. */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { below, type Roles } from '../../helpers/cluster.js'
import type { HalfOpenProxy } from '../../helpers/half-open-proxy.js'
import type { Stage } from './stage.js'

export interface Place {
  stage: Stage
  roles: Roles
  /** Between one graph worker and the broker. */
  proxy: HalfOpenProxy
}

export interface Fault {
  name: string
  /** Milliseconds that it lasts at least and at most. */
  lasts: readonly [number, number]
  /** Injects it; the function that it returns heals. */
  inject(place: Place): Promise<(() => unknown) | undefined> | (() => unknown) | undefined
}

/** The worker behind the proxy is the last one, and stays. */
const killed = ({ stage, roles }: Place) => stage.random.between(0, roles.graphs.length - 2)

export const FAULTS: readonly Fault[] = [
  {
    name: 'graph worker killed',
    lasts: [0, 0],
    inject: async place => void (await place.stage.replace(place.roles, 'graphs', killed(place), 500)),
  },
  {
    name: 'graph worker paused',
    lasts: [1_000, 20_000],
    inject(place) {
      const proc = place.roles.graphs[killed(place)]!
      place.stage.pause(proc)
      return () => place.stage.resume(proc)
    },
  },
  {
    name: 'hosts of a graph worker killed',
    lasts: [0, 0],
    inject(place) {
      for (const pid of below(place.roles.graphs[killed(place)]!.pid)) kill(pid)
      return undefined
    },
  },
  {
    name: 'edge killed',
    lasts: [0, 0],
    inject: async ({ stage, roles }) => void (await stage.replace(roles, 'edge', stage.random.between(0, 1), 300)),
  },
  {
    name: 'resource worker killed',
    lasts: [0, 0],
    inject: async ({ stage, roles }) => void (await stage.replace(roles, 'resources', 0, 300)),
  },
  {
    name: 'resource worker paused',
    lasts: [1_000, 8_000],
    inject({ stage, roles }) {
      const proc = roles.resources[0]!
      stage.pause(proc)
      return () => stage.resume(proc)
    },
  },
  {
    name: 'broker killed',
    lasts: [200, 4_000],
    inject({ roles }) {
      roles.nats.kill()
      return () => roles.nats.restart()
    },
  },
  {
    name: 'broker killed and its folder deleted',
    lasts: [200, 2_000],
    inject({ roles }) {
      roles.nats.kill()
      rmSync(join(roles.nats.data, 'nats'), { recursive: true, force: true })
      return () => roles.nats.restart()
    },
  },
  { name: 'connection to the broker reset', lasts: [0, 0], inject: ({ proxy }) => void proxy.cut() },
  ...(['out', 'in', 'both'] as const).map(
    (direction): Fault => ({
      name: `connection to the broker half open (${direction})`,
      lasts: [1_000, 20_000],
      inject({ proxy }) {
        proxy.freeze(direction)
        return () => proxy.thaw()
      },
    }),
  ),
  {
    name: 'connection to the broker slow',
    lasts: [2_000, 8_000],
    inject({ proxy, stage }) {
      proxy.delay(stage.random.between(20, 400))
      return () => proxy.delay(0)
    },
  },
]

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended meanwhile.
  }
}

/** Injects faults at random moments for `seconds`, up to two at a time; returns their names in order. */
export async function injectFaults(place: Place, seconds: number): Promise<string[]> {
  const { random, say } = place.stage
  const names: string[] = []
  const healing = new Map<string, Promise<unknown>>()
  for (const end = Date.now() + seconds * 1_000; Date.now() < end; ) {
    await sleep(random.between(500, 4_000))
    const fault = random.pick(FAULTS)
    const lasts = random.between(...fault.lasts)
    if (healing.size >= 2) await Promise.race(healing.values())
    // A process that is paused is not killed, and a proxy has one state.
    const target = fault.name.split(' ').slice(0, 2).join(' ')
    await healing.get(target)
    names.push(fault.name)
    say(`  ${fault.name}${lasts > 0 ? ` for ${lasts} ms` : ''}`)
    const heal = await fault.inject(place)
    if (heal === undefined) continue
    const healed = sleep(lasts)
      .then(heal)
      .finally(() => healing.delete(target))
    healing.set(target, healed)
  }
  await Promise.all(healing.values())
  return names
}
