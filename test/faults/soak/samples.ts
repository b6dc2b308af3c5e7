/** Memory, descriptors and disk of all processes of a soak, by role, and their trends. */
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { below, type Roles } from '../../helpers/cluster.js'
import { descriptorsOf, rssOf } from '../../helpers/processes.js'

const ROLES = ['edge', 'resources', 'graphs', 'host', 'deployer', 'replica', 'nats'] as const
export type SoakRole = (typeof ROLES)[number]

export interface ProcessSample {
  role: SoakRole
  pid: number
  /** Resident memory. */
  mb: number
  /** Open descriptors. */
  files: number
}

export interface Sample {
  /** Minutes since the begin, or another measure of progress. */
  at: number
  processes: ProcessSample[]
  /** Bytes of the store, and of the broker. */
  disk: { store: number; broker: number }
}

const MB = 1024 * 1024

/** Reads /proc. A process that ends meanwhile is left out. */
export function sampleOf(at: number, roles: Roles): Sample {
  const { nats, edges, resources, graphs, added } = roles
  const own: [SoakRole, number][] = [
    ...edges.map(({ pid }): [SoakRole, number] => ['edge', pid]),
    ...resources.map(({ pid }): [SoakRole, number] => ['resources', pid]),
    ...graphs.flatMap(({ pid }): [SoakRole, number][] => [
      ['graphs', pid],
      ...below(pid).map((one): [SoakRole, number] => ['host', one]),
    ]),
  ]
  const known = new Set(own.map(([, pid]) => pid))
  for (const { pid, child } of added.filter(one => !known.has(one.pid))) {
    if (child.exitCode !== null || child.signalCode !== null) continue
    own.push(['deployer', pid], ...below(pid).map((one): [SoakRole, number] => ['replica', one]))
  }
  const broker = nats.pid()
  if (broker !== null) own.push(['nats', broker])
  const processes = own.flatMap(([role, pid]) => {
    try {
      return [{ role, pid, mb: rssOf(pid), files: descriptorsOf(pid) }]
    } catch {
      return []
    }
  })
  return { at, processes, disk: { store: storeMb(nats.data), broker: folderMb(join(nats.data, 'nats')) } }
}

const storeMb = (folder: string): number =>
  readdirSync(folder)
    .filter(name => name.startsWith('weft.db'))
    .reduce((sum, name) => sum + fileMb(join(folder, name)), 0)

function folderMb(folder: string): number {
  try {
    return readdirSync(folder, { recursive: true, encoding: 'utf8' }).reduce(
      (sum, name) => sum + fileMb(join(folder, name)),
      0,
    )
  } catch {
    // The fault that wipes it.
    return 0
  }
}

function fileMb(path: string): number {
  try {
    const found = statSync(path)
    return found.isFile() ? (found.blocks * 512) / MB : 0
  } catch {
    return 0
  }
}

/** The roles that occur, in the order of the drawing. */
export const rolesIn = (samples: readonly Sample[]): SoakRole[] =>
  ROLES.filter(role => samples.some(({ processes }) => processes.some(one => one.role === role)))

/** A figure of all processes of a role over time. */
export const totals = (samples: readonly Sample[], role: SoakRole, figure: 'mb' | 'files'): [number, number][] =>
  samples.map(({ at, processes }) => [
    at,
    processes.filter(one => one.role === role).reduce((sum, one) => sum + one[figure], 0),
  ])

export interface Trend {
  /** Units per minute (of `at`) of one process. */
  slope: number
  /** Minutes that the samples behind it cover, of all processes. */
  minutes: number
}

/**
 * The trend of one process of a role: the least-squares slope over all of them, each around its own mean, because a process
 * that takes the place of a killed one begins small. The first `warm` minutes of each process do not count.
 */
export function trendOf(samples: readonly Sample[], role: SoakRole, figure: 'mb' | 'files', warm: number): Trend {
  const lives = new Map<number, [number, number][]>()
  for (const { at, processes } of samples)
    for (const one of processes.filter(one => one.role === role)) {
      const life = lives.get(one.pid) ?? []
      lives.set(one.pid, [...life, [at, one[figure]]])
    }
  let above = 0
  let beneath = 0
  let minutes = 0
  for (const life of lives.values()) {
    const points = life.filter(([at]) => at >= life[0]![0] + warm)
    if (points.length < 2) continue
    const mean = (i: 0 | 1) => points.reduce((sum, point) => sum + point[i], 0) / points.length
    const [x, y] = [mean(0), mean(1)]
    for (const point of points) {
      above += (point[0] - x) * (point[1] - y)
      beneath += (point[0] - x) ** 2
    }
    minutes += points.at(-1)![0] - points[0]![0]
  }
  return { slope: beneath === 0 ? 0 : above / beneath, minutes }
}
