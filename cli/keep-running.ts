/**
 * Keeps a child process running. When it exits it is started again after 100 ms; the pause grows to 5 s while the child
 * exits within 10 s of its start. A child that was not ready five times in a row is given up.
 */
import type { ChildProcess } from 'node:child_process'

/** The child is not started again. */
export class GivenUp extends Error {}

export interface KeepOptions {
  name: string
  spawn(): ChildProcess
  /** Resolves when the child is ready to serve; rejects when it cannot become ready: with GivenUp, when another start would take as long. */
  ready(child: ChildProcess): Promise<void>
  log: (line: string) => void
  /** False: no restart until `start` is called again. */
  restart?: boolean
  /** Called once when the child is given up; a waiting `start` rejects with the same error. */
  onGivenUp?: (error: Error) => void
  /** Exit codes after which another start would fail as well, until the child was ready once since `start`. */
  final?: readonly number[]
}

export interface ManagedProcess {
  /** Starts the child; resolves when it is ready for the first time. */
  start(): Promise<void>
  child(): ChildProcess | null
  /** SIGTERM, then SIGKILL after `ms`. No restart after this. */
  stop(ms: number): Promise<void>
}

const PAUSES = [100, 200, 500, 1_000, 2_000, 5_000]
const QUICK_MS = 10_000
const MAX_UNREADY = 5

export function keepRunning({
  name,
  spawn,
  ready,
  log,
  restart = true,
  onGivenUp,
  final = [],
}: KeepOptions): ManagedProcess {
  let current: ChildProcess | null = null
  let wanted = false
  let quickExits = 0
  let unready = 0
  let wasReady = false
  let timer: NodeJS.Timeout | undefined
  let firstStart: { resolve(): void; reject(error: Error): void } | null = null

  function launch(): void {
    const startedAt = Date.now()
    const child = spawn()
    current = child
    let isReady = false
    let reason = ''
    let isFinal = false
    child.once('error', error => {
      reason = error.message
      if (child.pid === undefined) onExit(null, null)
    })
    child.once('exit', onExit)
    ready(child).then(
      () => {
        if (current !== child) return
        isReady = wasReady = true
        unready = 0
        firstStart?.resolve()
        firstStart = null
      },
      error => {
        reason ||= (error as Error).message
        isFinal = error instanceof GivenUp && !wasReady
        if (current === child) child.kill('SIGKILL')
      },
    )

    function onExit(code: number | null, signal: string | null): void {
      if (current !== child) return
      current = null
      if (!wanted) return
      const how = reason || (signal === null ? `it exited with code ${code}` : `${signal} ended it`)
      quickExits = Date.now() - startedAt < QUICK_MS ? quickExits + 1 : 0
      if (!isReady) unready++
      isFinal ||= !wasReady && code !== null && final.includes(code)
      if (isFinal || unready >= MAX_UNREADY || (!restart && !isReady))
        giveUp(new Error(`the ${name} did not become ready: ${how}`))
      else if (restart) {
        const pause = PAUSES[Math.min(Math.max(quickExits - 1, 0), PAUSES.length - 1)]!
        log(`the ${name} died (${how}); starting it again`)
        timer = setTimeout(launch, pause)
      }
    }
  }

  function giveUp(error: Error): void {
    wanted = false
    firstStart?.reject(error)
    firstStart = null
    onGivenUp?.(error)
  }

  return {
    start: () =>
      new Promise((resolve, reject) => {
        wanted = true
        wasReady = false
        unready = 0
        firstStart = { resolve, reject }
        launch()
      }),
    child: () => current,
    async stop(ms) {
      wanted = false
      clearTimeout(timer)
      firstStart?.reject(new Error(`the ${name} was stopped`))
      firstStart = null
      const child = current
      if (child === null || child.exitCode !== null || child.signalCode !== null) return
      const exited = new Promise<void>(done => child.once('exit', () => done()))
      child.kill('SIGTERM')
      const killer = setTimeout(() => child.kill('SIGKILL'), ms)
      await exited
      clearTimeout(killer)
    },
  }
}
