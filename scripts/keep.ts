/**
 * Keeps a child process alive: what dies is started again after 100 ms, with a growing pause up to 5 s while it dies
 * within 10 s of its start. A child that was not ready five times running is given up.
 */
import type { ChildProcess } from 'node:child_process'

export interface KeepOptions {
  name: string
  spawn(): ChildProcess
  /** Resolves when the child is ready to serve; rejects when it cannot become so. */
  ready(child: ChildProcess): Promise<void>
  log: (line: string) => void
  /** False: what dies stays dead until `start` is called again. */
  restart?: boolean
  /** Called once when it is given up; `start` rejects with the same error when it still waits. */
  onGivenUp?: (error: Error) => void
  /** Exit codes of a first start that say "again would not help". */
  final?: readonly number[]
}

export interface Kept {
  /** Starts it; resolves when it is ready for the first time. */
  start(): Promise<void>
  child(): ChildProcess | null
  /** SIGTERM, then SIGKILL after `ms`. Never starts again by itself. */
  stop(ms: number): Promise<void>
}

const PAUSES = [100, 200, 500, 1_000, 2_000, 5_000]
const QUICK_MS = 10_000
const MAX_UNREADY = 5

export function keep({ name, spawn, ready, log, restart = true, onGivenUp, final = [] }: KeepOptions): Kept {
  let child: ChildProcess | null = null
  let wanted = false
  let quick = 0
  let unready = 0
  let wasReady = false
  let timer: NodeJS.Timeout | undefined
  let first: { resolve(): void; reject(error: Error): void } | null = null

  function launch(): void {
    const started = Date.now()
    const mine = spawn()
    child = mine
    let isReady = false
    let why = ''
    mine.once('error', error => {
      why = error.message
      if (mine.pid === undefined) onExit(null, null)
    })
    mine.once('exit', onExit)
    ready(mine).then(
      () => {
        if (child !== mine) return
        isReady = wasReady = true
        unready = 0
        first?.resolve()
        first = null
      },
      error => {
        why ||= (error as Error).message
        if (child === mine) mine.kill('SIGKILL')
      },
    )

    function onExit(code: number | null, signal: string | null): void {
      if (child !== mine) return
      child = null
      if (!wanted) return
      const how = why || (signal === null ? `it left with code ${code}` : `it was ended by ${signal}`)
      quick = Date.now() - started < QUICK_MS ? quick + 1 : 0
      if (!isReady) unready++
      const hopeless = !wasReady && code !== null && final.includes(code)
      if (hopeless || unready >= MAX_UNREADY || (!restart && !isReady))
        giveUp(new Error(`the ${name} did not become ready: ${how}`))
      else if (restart) {
        const pause = PAUSES[Math.min(Math.max(quick - 1, 0), PAUSES.length - 1)]!
        log(`the ${name} died (${how}); starting it again`)
        timer = setTimeout(launch, pause)
      }
    }
  }

  function giveUp(error: Error): void {
    wanted = false
    first?.reject(error)
    first = null
    onGivenUp?.(error)
  }

  return {
    start: () =>
      new Promise((resolve, reject) => {
        wanted = true
        first = { resolve, reject }
        launch()
      }),
    child: () => child,
    async stop(ms) {
      wanted = false
      clearTimeout(timer)
      first?.reject(new Error(`the ${name} was stopped`))
      first = null
      const mine = child
      if (mine === null || mine.exitCode !== null || mine.signalCode !== null) return
      const gone = new Promise<void>(done => mine.once('exit', () => done()))
      mine.kill('SIGTERM')
      const killer = setTimeout(() => mine.kill('SIGKILL'), ms)
      await gone
      clearTimeout(killer)
    },
  }
}
