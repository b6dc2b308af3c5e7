/** The thread of the watchdog: looks at the shared memory 20 times a second while anything runs, else sleeps. */
import { writeSync } from 'node:fs'
import { workerData } from 'node:worker_threads'
import { FROM_HOST, frameBytes } from './frames.js'
import { CELL, type Watched } from './host-watchdog.js'

const SAMPLE_MS = 50
const IDLE_MS = 5_000
/** From here on it is worth a word: a process that dies now dies by this slot's doing. */
const HELD_MS = 100
const AGAIN_MS = 1_000

const { cells, fd } = workerData as Watched
const parent = process.ppid
let slot = 0
let turn = 0
let since = 0
let looked = 0
/** Milliseconds at which it is reported next. */
let next = HELD_MS

for (;;) {
  // Also without a run a look now and then: a node that ignored its cancel may be here still.
  if (Atomics.load(cells, CELL.slot) === 0) Atomics.wait(cells, CELL.busy, 0, IDLE_MS)
  Atomics.wait(cells, CELL.sleep, 0, SAMPLE_MS)
  const now = performance.now()
  const [slotNow, turnNow] = [Atomics.load(cells, CELL.slot), Atomics.load(cells, CELL.turn)]
  // We were not running either (a stopped process, a machine that slept): this says nothing about the slot.
  const slept = now - looked > 10 * SAMPLE_MS
  looked = now
  // A loop that stands still does not notice that its supervisor has died.
  if (process.ppid !== parent) process.kill(process.pid, 'SIGKILL')
  if (slotNow === 0 || slotNow !== slot || turnNow !== turn || slept) {
    if (next > HELD_MS) say(FROM_HOST.free, 0)
    slot = slotNow
    turn = turnNow
    since = now
    next = HELD_MS
  } else if (now - since >= next) {
    say(FROM_HOST.held, Math.round(now - since))
    next = next === HELD_MS ? AGAIN_MS : next + AGAIN_MS
  }
}

function say(kind: number, ms: number): void {
  try {
    writeSync(fd, frameBytes({ kind, slot: slot >>> 0, count: ms }))
  } catch {
    // Nobody listens any more.
  }
}
