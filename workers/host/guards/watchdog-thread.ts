/**
 * The thread of the watchdog. It never waits for the main thread. While a slot is in use it checks 20 times a second
 * whether the event loop has turned, and asks for the slot only if the loop has not turned.
 */
import { writeSync } from 'node:fs'
import { Session } from 'node:inspector'
import { parentPort, workerData } from 'node:worker_threads'
import { FROM_HOST, frameBytes } from '../../pipe.js'
import { ASK_SLOT, CELL, IDLE_TICK_MS, TICK_MS, type Watched } from './watchdog.js'

/** Blocks are reported from this duration on: if the process dies now, this slot is the cause. */
const HELD_MS = 100
const AGAIN_MS = 1_000
/** The thread stays awake this long without a run, because the next run may start at once. */
const DOZE_MS = 2_000
const EXPRESSION = `globalThis[Symbol.for(${JSON.stringify(ASK_SLOT)})]()`

const { cells, fd } = workerData as Watched
const parent = process.ppid
let session: Session | null = null
let querying = false
let tick = -1
/** Time of the last observed turn of the loop. */
let turned = performance.now()
let looked = turned
let used = turned
/** The slot that holds the loop, the start of the block, and the duration (ms) at which the next report is due. */
let slot = 0
let since = 0
let next = HELD_MS
let timer: NodeJS.Timeout | null = null

function look(): void {
  const now = performance.now()
  const idle = Atomics.load(cells, CELL.busy) === 0
  const every = Atomics.load(cells, CELL.asleep) === 1 ? IDLE_TICK_MS : TICK_MS
  // A blocked loop does not detect the death of its supervisor, so this thread checks for it.
  if (process.ppid !== parent) process.kill(process.pid, 'SIGKILL')
  const tickNow = Atomics.load(cells, CELL.tick)
  // This thread did not run either (a stopped process, a suspended machine): this measurement says nothing about the
  // loop.
  const slept = now - looked > 10 * every
  looked = now
  if (tickNow !== tick || slept) {
    tick = tickNow
    turned = now
    free()
  } else if (now - turned >= (idle ? IDLE_TICK_MS : TICK_MS) + HELD_MS && !querying) queryHolder(turned)
  if (!idle) used = now
  const asleep = idle && slot === 0 && now - used > DOZE_MS
  Atomics.store(cells, CELL.asleep, asleep ? 1 : 0)
  // A slot may have started between the two reads of `busy`.
  const wait = asleep && Atomics.load(cells, CELL.busy) === 0 ? IDLE_TICK_MS : TICK_MS
  timer = setTimeout(look, wait)
}

/** `from`: start of the block. The answer may arrive late, after native code has returned. */
function queryHolder(from: number): void {
  querying = true
  if (session === null) {
    session = new Session()
    session.connectToMainThread()
  }
  session.post('Runtime.evaluate', { expression: EXPRESSION, returnByValue: true, silent: true }, (error, answer) => {
    querying = false
    const holder = error === null ? Number(answer.result.value) || 0 : 0
    if (holder !== slot) {
      // A second holder has held the loop from now at the earliest.
      since = slot === 0 ? from : performance.now()
      free()
      slot = holder
    }
    const ms = performance.now() - since
    if (slot === 0 || ms < next) return
    report(FROM_HOST.held, Math.round(ms))
    next = Math.max(AGAIN_MS, Math.floor(ms / AGAIN_MS + 1) * AGAIN_MS)
  })
}

function free(): void {
  if (slot === 0) return
  if (next > HELD_MS) report(FROM_HOST.free, 0)
  slot = 0
  next = HELD_MS
  // Without a session nothing slows the main thread down.
  if (!querying) {
    session?.disconnect()
    session = null
  }
}

function report(kind: number, ms: number): void {
  try {
    writeSync(fd, frameBytes({ kind, slot, count: ms }))
  } catch {
    // The supervisor has closed the pipe.
  }
}

parentPort?.on('message', () => {
  if (timer !== null) clearTimeout(timer)
  used = performance.now()
  Atomics.store(cells, CELL.asleep, 0)
  turned = used
  look()
})
parentPort?.unref()
look()
