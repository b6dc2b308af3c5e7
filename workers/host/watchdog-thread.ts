/**
 * The thread of the watchdog. It never waits for the main thread: while anything runs it looks 20 times a second
 * whether the loop has turned, and asks for the slot only when it has not.
 */
import { writeSync } from 'node:fs'
import { Session } from 'node:inspector'
import { parentPort, workerData } from 'node:worker_threads'
import { FROM_HOST, frameBytes } from '../pipe.js'
import { ASK_SLOT, CELL, IDLE_TICK_MS, TICK_MS, type Watched } from './watchdog.js'

/** From here on it is worth a word: a process that dies now dies by this slot's doing. */
const HELD_MS = 100
const AGAIN_MS = 1_000
/** Without a run it stays awake so long: the next one may come at once. */
const DOZE_MS = 2_000
const EXPRESSION = `globalThis[Symbol.for(${JSON.stringify(ASK_SLOT)})]()`

const { cells, fd } = workerData as Watched
const parent = process.ppid
let session: Session | null = null
let asking = false
let tick = -1
/** When the loop was last seen to turn. */
let turned = performance.now()
let looked = turned
let used = turned
/** The slot that holds it, since when, and at how many milliseconds that is said next. */
let slot = 0
let since = 0
let next = HELD_MS
let timer: NodeJS.Timeout | null = null

function look(): void {
  const now = performance.now()
  const idle = Atomics.load(cells, CELL.busy) === 0
  const every = Atomics.load(cells, CELL.asleep) === 1 ? IDLE_TICK_MS : TICK_MS
  // A loop that stands still does not notice that its supervisor has died.
  if (process.ppid !== parent) process.kill(process.pid, 'SIGKILL')
  const tickNow = Atomics.load(cells, CELL.tick)
  // We did not run either (a stopped process, a machine that slept): that says nothing about the loop.
  const slept = now - looked > 10 * every
  looked = now
  if (tickNow !== tick || slept) {
    tick = tickNow
    turned = now
    free()
  } else if (now - turned >= (idle ? IDLE_TICK_MS : TICK_MS) + HELD_MS && !asking) ask(turned)
  if (!idle) used = now
  const asleep = idle && slot === 0 && now - used > DOZE_MS
  Atomics.store(cells, CELL.asleep, asleep ? 1 : 0)
  // Somebody came between the two looks at `busy`.
  const wait = asleep && Atomics.load(cells, CELL.busy) === 0 ? IDLE_TICK_MS : TICK_MS
  timer = setTimeout(look, wait)
}

/** `from`: since when the loop has not turned. The answer may come late, from native code that has returned. */
function ask(from: number): void {
  asking = true
  if (session === null) {
    session = new Session()
    session.connectToMainThread()
  }
  session.post('Runtime.evaluate', { expression: EXPRESSION, returnByValue: true, silent: true }, (error, answer) => {
    asking = false
    const holder = error === null ? Number(answer.result.value) || 0 : 0
    if (holder !== slot) {
      // Who comes second holds it since now at the earliest.
      since = slot === 0 ? from : performance.now()
      free()
      slot = holder
    }
    const ms = performance.now() - since
    if (slot === 0 || ms < next) return
    say(FROM_HOST.held, Math.round(ms))
    next = Math.max(AGAIN_MS, Math.floor(ms / AGAIN_MS + 1) * AGAIN_MS)
  })
}

function free(): void {
  if (slot === 0) return
  if (next > HELD_MS) say(FROM_HOST.free, 0)
  slot = 0
  next = HELD_MS
  // Without a session nothing is left that could slow the main thread down.
  if (!asking) {
    session?.disconnect()
    session = null
  }
}

function say(kind: number, ms: number): void {
  try {
    writeSync(fd, frameBytes({ kind, slot, count: ms }))
  } catch {
    // Nobody listens any more.
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
