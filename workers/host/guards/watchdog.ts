/**
 * Detects which run holds the event loop of a host while the loop is blocked, and which run ends the process. The code
 * of each slot runs in an async context that names the slot. A thread sees that the loop is late and asks the main
 * thread through the inspector, which answers between two instructions of the running code. The thread reports to the
 * supervisor over a dedicated pipe, so the event loop takes no part in it.
 *
 * An async hook that writes the slot of each callback into shared memory also detects blocks inside native code, but it
 * costs 8 to 20 % of a busy host (decision 008); this costs nothing while the loop is on time. A native call that
 * blocks is attributed when it returns.
 *
 * Not detected: a crash in native code within 100 ms, and a process that the kernel kills for its memory.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { writeSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import type { LastWords } from '../../../schemas/host.js'
import { FROM_HOST, frameBytes } from '../../pipe.js'

/** Cells of the shared memory: turns of the loop, slots in use, and whether the thread checks only rarely. */
export const CELL = { tick: 0, busy: 1, asleep: 2 } as const
export const TICK_MS = 50
export const IDLE_TICK_MS = 5_000
/** The global through which the main thread reports its slot. */
export const ASK_SLOT = 'weft.slot'

/** The data of the thread. */
export interface Watched {
  cells: Int32Array
  fd: number
}

export interface Watchdog {
  /** Runs `work`, and everything that it starts, as code of this slot. */
  enter<T>(slot: number, work: () => T): T
  /** Returns the slot whose code is running; 0 = none. */
  slot(): number
  /** Reports the number of slots in use: without any the thread checks only rarely. */
  busy(slots: number): void
  /** Reports to the supervisor why the process ends. Only the first call counts. */
  last(words: LastWords): void
}

const MAX_MESSAGE = 2_000

/**
 * `fd` is the descriptor of the pipe; null: no supervisor reads reports. `otherSlot`: of code outside of all slots, whose
 * blocks are reported unless it is 0.
 */
export function startWatchdog(fd: number | null, otherSlot = 0): Watchdog {
  const context = new AsyncLocalStorage<number>()
  const slot = () => context.getStore() ?? otherSlot
  const thread = fd === null ? null : startThread(fd, slot)
  let reported = false
  return {
    enter: (slot, work) => context.run(slot, work),
    slot,
    busy: slots => thread?.busy(slots),
    last({ error, message }) {
      if (reported || fd === null) return
      reported = true
      const body = Buffer.from(JSON.stringify({ error, message: message.slice(0, MAX_MESSAGE) } satisfies LastWords))
      try {
        writeSync(fd, frameBytes({ kind: FROM_HOST.last, slot: slot(), body }))
      } catch {
        // The supervisor has closed the pipe.
      }
    },
  }
}

function startThread(fd: number, slot: () => number): { busy(slots: number): void } {
  const cells = new Int32Array(new SharedArrayBuffer(12))
  Object.defineProperty(globalThis, Symbol.for(ASK_SLOT), { value: slot })
  const thread = new Worker(new URL('../../../programs/watchdog.js', import.meta.url), {
    workerData: { cells, fd } satisfies Watched,
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 2 },
  })
  thread.on('error', error => console.error('The watchdog of this host failed:', error))
  thread.unref()
  const tick = () => void Atomics.add(cells, CELL.tick, 1)
  let ticks = setInterval(tick, IDLE_TICK_MS).unref()
  return {
    busy(slots) {
      const was = Atomics.exchange(cells, CELL.busy, slots)
      if (was > 0 === slots > 0) return
      clearInterval(ticks)
      ticks = setInterval(tick, slots > 0 ? TICK_MS : IDLE_TICK_MS).unref()
      tick()
      if (slots > 0 && Atomics.load(cells, CELL.asleep) === 1) thread.postMessage('wake')
    },
  }
}
