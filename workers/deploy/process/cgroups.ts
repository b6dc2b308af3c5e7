/**
 * Limits of replicas by cgroups (version 2), where they can be made: each replica with all its processes, Python hosts and
 * what graphs start included, is in a group below ours. Without them the heap of JavaScript hosts and the watchdog of
 * Python hosts are the limits. A group also ends what a replica has left behind.
 */
import { hash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const CONTROLLERS = ['cpu', 'memory', 'pids']
const PERIOD_US = 100_000
/** Processes and threads of one replica. */
const MAX_TASKS = 4096
const REMOVE_MS = 250

export interface Limits {
  /** Cores; null: no limit, as for the others. */
  cpu: number | null
  memory_mb: number | null
  /** Memory that is taken last when the machine has too little. */
  memory_low_mb: number | null
}

export interface Cgroups {
  folder: string
  /** Puts the process into a new group. Returns what ends and removes the group. Throws when it cannot be made. */
  confine(pid: number, limits: Limits): () => void
}

/** `given`: WEFT_CGROUP. `data` names our group, so that several servers may share a folder. Or the reason why not. */
export function openCgroups(given: string, data: string): Cgroups | { reason: string } {
  const base = given || ownFolder()
  if (base === null) return { reason: 'this system has no cgroups of version 2' }
  const folder = join(base, `weft-${hash('sha256', data).slice(0, 12)}`)
  try {
    const missing = CONTROLLERS.filter(name => !read(join(base, 'cgroup.controllers')).includes(name))
    if (missing.length > 0) return { reason: `${base} has no controller for ${missing.join(', ')}` }
    for (const each of [base, folder]) {
      mkdirSync(each, { recursive: true })
      const wanted = CONTROLLERS.filter(name => !read(join(each, 'cgroup.subtree_control')).includes(name))
      if (wanted.length > 0) write(each, 'cgroup.subtree_control', wanted.map(name => `+${name}`).join(' '))
    }
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    const hint =
      code === 'EBUSY' ? `${base} holds processes itself; WEFT_CGROUP names a delegated group without any` : ''
    return { reason: hint || message }
  }
  // Removes the groups of an earlier process. A group that still has processes stays.
  for (const { name } of readdirSync(folder, { withFileTypes: true }).filter(one => one.isDirectory()))
    remove(join(folder, name))

  let last = 0
  return {
    folder,
    confine(pid, { cpu, memory_mb, memory_low_mb }) {
      const group = join(folder, `${process.pid}.${++last}`)
      mkdirSync(group)
      write(group, 'cpu.max', `${cpu === null ? 'max' : Math.round(cpu * PERIOD_US)} ${PERIOD_US}`)
      write(group, 'memory.max', memory_mb === null ? 'max' : `${memory_mb * 1024 ** 2}`)
      write(group, 'memory.low', `${(memory_low_mb ?? 0) * 1024 ** 2}`)
      // A limit of memory that swap does not extend; systems without swap have no such file.
      if (memory_mb !== null && existsSync(join(group, 'memory.swap.max'))) write(group, 'memory.swap.max', '0')
      write(group, 'pids.max', `${MAX_TASKS}`)
      write(group, 'cgroup.procs', `${pid}`)
      return () => {
        try {
          write(group, 'cgroup.kill', '1')
        } catch {
          // Older than Linux 5.14.
        }
        if (!remove(group)) setTimeout(() => remove(group), REMOVE_MS).unref()
      }
    },
  }
}

/** The group of this process; null without cgroups of version 2 in their usual place. */
function ownFolder(): string | null {
  try {
    const own = /^0::(\/.*)$/m.exec(readFileSync('/proc/self/cgroup', 'utf8'))?.[1]
    const folder = join('/sys/fs/cgroup', own ?? '')
    return own !== undefined && existsSync(join(folder, 'cgroup.controllers')) ? folder : null
  } catch {
    return null
  }
}

const write = (group: string, file: string, text: string): void => writeFileSync(join(group, file), text)

function read(path: string): string[] {
  try {
    return readFileSync(path, 'utf8').split(/\s+/)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
}

/** False when the group has processes. */
function remove(group: string): boolean {
  try {
    rmdirSync(group)
    return true
  } catch {
    return false
  }
}
