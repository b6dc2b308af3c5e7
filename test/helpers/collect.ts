/**
 * Resident memory of a process after a garbage collection: what it keeps, without what V8 has not collected yet, which can be
 * a third of it. The process collects on SIGUSR2 when this file is loaded with `--import` before its program.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { Proc } from './cluster.js'
import { rssOf } from './memory.js'

/** V8 gives pages back a while after a collection. */
const LOOKS = 20
const LOOK_MS = 250
/** Large young generations shrink by one collection after the other. */
const COLLECTIONS = 3

const SETTING = 'WEFT_TEST_COLLECTS'

/** The environment of a process that collects when it is asked. */
export const collectingEnv = { NODE_OPTIONS: `--import ${import.meta.url}`, [SETTING]: '1' }

/** The least resident memory of a process in MB within 5 s after it was asked to collect. */
export async function keptBy(proc: Proc): Promise<number> {
  let least = Infinity
  for (let look = 0; look < LOOKS; look++) {
    if (look < COLLECTIONS) proc.kill('SIGUSR2')
    await sleep(LOOK_MS)
    least = Math.min(least, rssOf(proc.pid))
  }
  return least
}

if (process.env[SETTING] !== undefined)
  process.on('SIGUSR2', () => {
    setFlagsFromString('--expose-gc')
    const collect = runInNewContext('gc') as () => void
    collect()
  })
