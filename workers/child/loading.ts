/**
 * A child with code of the application is waited for as long as it lives: imports may take minutes. The log says every ten
 * seconds what is waited for, and how much CPU time it has used, which shows whether it makes progress.
 */
import { existsSync, readFileSync } from 'node:fs'
import type { Log } from '../../bus/log.js'

const SAY_MS = 10_000
/** Clock ticks per second in /proc: fixed for user programs on Linux. */
const TICKS = 100

/** Returns the function that ends the lines. `name` is that of the program, as `graph host`. */
export function sayWhileLoading(log: Log, name: string, pid: number, every = SAY_MS): () => void {
  const since = performance.now()
  const timer = setInterval(() => {
    const seconds = Math.round((performance.now() - since) / 1000)
    const cpu_seconds = cpuSecondsOf(pid)
    log.warn(
      { pid, seconds, ...(cpu_seconds === null ? {} : { cpu_seconds }) },
      `the ${name} still loads the application`,
    )
  }, every)
  timer.unref()
  return () => clearInterval(timer)
}

/** With that of its children: an app host has one for Python. Null on systems without /proc. */
const cpuSecondsOf = (pid: number): number | null =>
  existsSync('/proc/self/stat') ? Math.round(ticksOf(pid) / TICKS) : null

function ticksOf(pid: number): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.split(' ')
    return childrenOf(pid).reduce((sum, child) => sum + ticksOf(child), Number(fields[11]) + Number(fields[12]))
  } catch {
    // It has ended.
    return 0
  }
}

function childrenOf(pid: number): number[] {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
  } catch {
    // Some kernels have no such list.
    return []
  }
}
