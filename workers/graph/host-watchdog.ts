/**
 * Knows whose code holds the event loop of a host, also while it stands still and when the process dies. Each slot's
 * code runs in an async context that names the slot; a hook writes the slot of every callback into shared memory (two
 * stores, about 0.1 µs per await), which a thread of its own watches. What it sees goes to the supervisor over a
 * pipe of its own, synchronously: the event loop has no part in it.
 *
 * Not known: who called abort() from native code, or whose memory the kernel's OOM killer wanted back.
 */
import { AsyncLocalStorage, createHook } from 'node:async_hooks'
import { writeSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import { FROM_HOST, frameBytes } from './frames.js'
import type { LastWords } from './protocol.js'

/** Cells of the shared memory. */
export const CELL = { slot: 0, turn: 1, busy: 2, sleep: 3 } as const

export interface Watchdog {
  /** Runs `work`, and everything that comes of it, as the doing of this slot. */
  enter<T>(slot: number, work: () => T): T
  /** The slot whose code this is called from; 0 = none. */
  slot(): number
  /** So many slots are in use: with none the thread sleeps. */
  busy(slots: number): void
  /** Tells the supervisor why the process ends. Only the first call counts. */
  last(words: LastWords): void
}

/** What the thread is given. */
export interface Watched {
  cells: Int32Array
  fd: number
}

const MAX_MESSAGE = 2_000

/** `fd` is the pipe's descriptor; null: nobody listens. */
export function startWatchdog(fd: number | null): Watchdog {
  const cells = new Int32Array(new SharedArrayBuffer(16))
  const context = new AsyncLocalStorage<number>()
  /** Callbacks may nest (AsyncResource.runInAsyncScope): the outer one goes on afterwards. */
  const outer: number[] = []
  let said = false

  createHook({
    before() {
      outer.push(cells[CELL.slot]!)
      cells[CELL.slot] = context.getStore() ?? 0
      cells[CELL.turn]!++
    },
    after() {
      cells[CELL.slot] = outer.pop() ?? 0
      cells[CELL.turn]!++
    },
  }).enable()

  if (fd !== null) {
    const thread = new Worker(new URL('./host-watchdog-thread.js', import.meta.url), {
      workerData: { cells, fd } satisfies Watched,
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 2 },
    })
    thread.on('error', error => console.error('The watchdog of this host failed:', error))
    thread.unref()
  }

  const slot = () => context.getStore() ?? (cells[CELL.slot]! >>> 0)
  return {
    enter(slot, work) {
      const before = cells[CELL.slot]!
      cells[CELL.slot] = slot
      cells[CELL.turn]!++
      try {
        return context.run(slot, work)
      } finally {
        cells[CELL.slot] = before
        cells[CELL.turn]!++
      }
    },
    slot,
    busy(slots) {
      cells[CELL.busy] = slots
      if (slots > 0) Atomics.notify(cells, CELL.busy)
    },
    last({ error, message }) {
      if (said || fd === null) return
      said = true
      const body = Buffer.from(JSON.stringify({ error, message: message.slice(0, MAX_MESSAGE) } satisfies LastWords))
      try {
        writeSync(fd, frameBytes({ kind: FROM_HOST.last, slot: slot(), body }))
      } catch {
        // Nobody listens any more.
      }
    },
  }
}
