/**
 * Starting and stopping use one stack: each opened part pushes its own undo. A stop has two phases: quiet (accept nothing
 * new), then stop by the deadline (finish or hand back, then close).
 */
import type { Log } from './log.js'

interface Part {
  name: string
  /** Accepts nothing new. */
  quiet?: () => void | Promise<void>
  /** Finishes or hands back within `ms`, then closes. */
  stop?: (ms: number) => void | Promise<void>
}

export interface Lifecycle {
  /** A part that is pushed after the stop began is stopped at once. */
  push(part: Part): void
  /** Quiets every part in the order of opening, then stops them in the opposite order. Safe to call twice. */
  stop(): Promise<void>
  /** Whether `stop` was called: what ends now was asked to. */
  isStopping(): boolean
}

export function lifecycle(log: Log, stop_ms: number): Lifecycle {
  const parts: Part[] = []
  let stopping: Promise<void> | null = null
  let deadline = 0
  async function run() {
    deadline = performance.now() + stop_ms
    for (const part of parts) await guard(log, part.name, part.quiet?.())
    for (const part of [...parts].reverse()) {
      const left = Math.max(100, deadline - performance.now())
      await guard(log, part.name, Promise.race([part.stop?.(left), sleep(left)]))
    }
  }
  return {
    push(part) {
      if (stopping === null) return void parts.push(part)
      const left = Math.max(100, deadline - performance.now())
      stopping = stopping.then(() => guard(log, part.name, stopPart(part, left)))
    },
    stop: () => (stopping ??= run()),
    isStopping: () => stopping !== null,
  }
}

async function stopPart(part: Part, ms: number): Promise<void> {
  await part.quiet?.()
  await Promise.race([part.stop?.(ms), sleep(ms)])
}

async function guard(log: Log, part: string, work: unknown): Promise<void> {
  try {
    await work
  } catch (error) {
    log.warn({ part, err: error }, 'a part did not stop cleanly')
  }
}

const sleep = (ms: number) => new Promise<void>(done => setTimeout(done, ms).unref())

/** Stops on SIGTERM, on SIGINT and when the parent disconnects, then exits with code 0. `why`: the name of the signal. */
export function stopOnSignals(life: { stop(why: string): Promise<void> }, log: Log): void {
  const leave = (why: string) => {
    log.info({ why }, 'stopping')
    void life.stop(why).then(() => process.exit(0))
  }
  process.once('SIGTERM', () => leave('SIGTERM'))
  process.once('SIGINT', () => leave('SIGINT'))
  process.once('disconnect', () => leave('the parent process disconnected'))
}
