/**
 * Other processes: their memory and descriptors, and a stop. A process that loads this file with `--import` before its program
 * collects its garbage on SIGUSR2.
 */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { until } from './until.js'

const LINE = /VmRSS:\s*(\d+)/

/** Resident memory of a process in MB. */
export const rssOf = (pid: number): number => Number(LINE.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1024

/** Empty when the process has ended. */
export function commandLineOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')
  } catch {
    return ''
  }
}

/** Open descriptors; throws when the process has ended. */
export const descriptorsOf = (pid: number): number => readdirSync(`/proc/${pid}/fd`).length

/** Sockets that are connections to this port; throws when the process has ended. */
export function connectionsTo(pid: number, port: number): number {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  const sockets = new Set<string>()
  for (const name of ['tcp', 'tcp6'])
    for (const line of readFileSync(`/proc/${pid}/net/${name}`, 'utf8').split('\n')) {
      const columns = line.trim().split(/\s+/)
      if (columns[2]?.endsWith(suffix)) sockets.add(`socket:[${columns[9]}]`)
    }
  return readdirSync(`/proc/${pid}/fd`).filter(fd => {
    try {
      return sockets.has(readlinkSync(`/proc/${pid}/fd/${fd}`))
    } catch {
      // Closed meanwhile.
      return false
    }
  }).length
}

/**
 * SIGSTOP, and waits until every thread of the process has stopped: on a busy machine the others execute for a while when one of
 * them has the signal.
 */
export async function halt(pid: number): Promise<void> {
  process.kill(pid, 'SIGSTOP')
  const stateOf = (thread: string) => /\) (\S)/.exec(readFileSync(`/proc/${pid}/task/${thread}/stat`, 'utf8'))![1]
  await until(() => readdirSync(`/proc/${pid}/task`).every(thread => stateOf(thread) === 'T'))
}

/** V8 takes 10 s without load to give back a young generation that has grown, by one collection after the other. */
const LOOKS = 20
const LOOK_MS = 1_000

const SETTING = 'WEFT_TEST_COLLECTS'

/** The environment of a process that collects when it is asked. */
export const collectingEnv = { NODE_OPTIONS: `--import ${import.meta.url}`, [SETTING]: '1' }

/**
 * The memory of idle processes: their least resident memory in MB within 20 s, while they collect
 * again and again. The rest, which V8 has not collected yet, can be a third of it.
 */
export async function keptBy(pids: readonly number[]): Promise<number[]> {
  const least = pids.map(() => Infinity)
  for (let look = 0; look < LOOKS; look++) {
    for (const pid of pids) process.kill(pid, 'SIGUSR2')
    await sleep(LOOK_MS)
    for (const [n, pid] of pids.entries()) least[n] = Math.min(least[n]!, rssOf(pid))
  }
  return least
}

if (process.env[SETTING] !== undefined)
  process.on('SIGUSR2', () => {
    setFlagsFromString('--expose-gc')
    const collect = runInNewContext('gc') as () => void
    collect()
  })
