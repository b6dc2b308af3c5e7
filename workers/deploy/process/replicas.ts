/**
 * The replicas of one revision. A replica that exits is restarted after a growing pause. While the revision is being
 * deployed, three exits in a minute are a crash loop and a failure; an active revision is restarted without limit.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { EventEmitter, once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Log } from '../../../bus/log.js'
import type { Graph } from '../../../schemas/deploy-calls.js'
import type { Redactor } from '../../../schemas/redact.js'
import { throwIfCrashing, withExit } from '../crashes.js'
import { Fault, throwIfStopped } from '../fault.js'
import type { Say } from '../log.js'
import { lines, parseLogLine } from '../output-lines.js'
import { nextChange } from '../wait.js'
import type { Drain, InstanceMessage, Start } from './instance.js'

const PROGRAM = fileURLToPath(new URL('../../../programs/replica.js', import.meta.url))
const PAUSES_MS = [1_000, 2_000, 4_000, 8_000, 15_000, 30_000]
const READY_MS = 10 * 60_000
/** A replica that ran this long restarts with the shortest pause. */
const STEADY_MS = 60_000

interface ReplicasOptions {
  count: number
  start: Start
  /** Environment of the replica itself: the variables that a program needs to start. */
  env: { [name: string]: string }
  log: Log
  /** Redacts its output. */
  redactor: Redactor
  /** Receives its output. */
  say: Say
  /** Limits the new process of a replica; returns what frees the limits when it has ended. */
  confine(pid: number): () => void
  /** A replica has ended and will be started again. */
  onExited(): void
}

export interface Replicas {
  /** Resolves when all have been ready for `stable_ms`. Throws a Fault (crash loop, too slow) or Stopped. */
  ready(stable_ms: number, signal: AbortSignal): Promise<Graph[]>
  /** After a cutover: they finish their runs within the deadline and exit. Resolves after the last exit. */
  drain(deadline_ms: number): Promise<void>
  /** SIGTERM, SIGKILL after `ms`. */
  stop(ms: number): Promise<void>
  count(): number
  /**
   * Starts or stops replicas until there are `n`. Stopped ones hand their runs back within `ms`. Resolves when those that
   * run are ready and the others have ended.
   */
  scale(n: number, ms: number): Promise<void>
  pids(): number[]
}

interface Replica {
  child: ChildProcess | null
  ready: boolean
  tries: number
  timer: NodeJS.Timeout | undefined
  /** It is being stopped: it is not started again. */
  leaving: boolean
}

export function startReplicas({ count, start, env, redactor, log, say, confine, onExited }: ReplicasOptions): Replicas {
  const replicas: Replica[] = []
  let exits: number[] = []
  let graphs: Graph[] = []
  /** Reason for which it can never become ready. */
  let broken: string | null = null
  let since = 0
  const changes = new EventEmitter()
  const onChange = () => void changes.emit('change')

  function launch(replica: Replica): void {
    const started = performance.now()
    const child = fork(PROGRAM, [], { env, execArgv: [], stdio: ['ignore', 'pipe', 'pipe', 'ipc'], detached: true })
    replica.child = child
    // Before it has its options: it has started nothing yet.
    const free = child.pid === undefined ? () => {} : confine(child.pid)
    let reason = ''
    const flush = [
      lines(child.stdout!, redactor, text => say('INFO', text)),
      lines(child.stderr!, redactor, text => say(...parseLogLine(text))),
    ]
    child.once('error', error => {
      reason = error.message
      if (child.pid === undefined) onExit(null, null)
    })
    child.on('message', message => {
      const said = message as InstanceMessage
      if ('failed' in said) reason = said.failed
      else {
        graphs = said.graphs
        replica.ready = true
        since = performance.now()
      }
      onChange()
    })
    child.once('exit', onExit)
    child.send(
      start,
      error => error !== null && log.debug({ err: error }, 'the options could not be sent to a replica'),
    )

    function onExit(code: number | null, signal: string | null): void {
      if (replica.child !== child) return
      for (const each of flush) each()
      free()
      replica.child = null
      replica.ready = false
      if (!replica.leaving) {
        const how = reason || (signal === null ? `it exited with code ${code}` : `it was killed by ${signal}`)
        // The same files would fail to load again.
        if (code === 2) broken = how
        exits = withExit(exits)
        onExited()
        replica.tries = performance.now() - started > STEADY_MS ? 1 : replica.tries + 1
        const pause = PAUSES_MS[Math.min(replica.tries, PAUSES_MS.length) - 1]!
        log.warn({ revision_id: start.revision_id, reason: how, pause }, 'a replica exited; restarting it')
        say('ERROR', `a replica exited: ${how}`)
        replica.timer = setTimeout(() => launch(replica), pause)
      }
      onChange()
    }
  }

  function add(): void {
    const replica: Replica = { child: null, ready: false, tries: 0, timer: undefined, leaving: false }
    replicas.push(replica)
    launch(replica)
  }
  while (replicas.length < count) add()

  const allReady = () => replicas.every(replica => replica.ready)

  async function end(some: readonly Replica[], how: (child: ChildProcess) => void): Promise<void> {
    for (const replica of some) replica.leaving = true
    onChange()
    await Promise.all(
      some.map(async replica => {
        clearTimeout(replica.timer)
        const { child } = replica
        if (child === null || child.exitCode !== null || child.signalCode !== null) return
        const exited = new Promise<void>(done => child.once('exit', () => done()))
        how(child)
        await exited
      }),
    )
  }

  const stop = (some: readonly Replica[], ms: number) =>
    end(some, child => {
      child.kill('SIGTERM')
      const killer = setTimeout(() => child.kill('SIGKILL'), ms)
      child.once('exit', () => clearTimeout(killer))
    })

  return {
    async ready(stable_ms, signal) {
      const until = performance.now() + READY_MS
      for (;;) {
        throwIfStopped(signal)
        throwIfCrashing({ broken, exits })
        const left = allReady() ? since + stable_ms - performance.now() : Number.POSITIVE_INFINITY
        if (left <= 0) return graphs
        if (performance.now() >= until)
          throw new Fault(`deploy: the replicas were not ready within ${READY_MS / 1_000} s`)
        await nextChange(changes, Math.min(left, until - performance.now()), signal)
      }
    },
    drain(deadline_ms) {
      const message: Drain = { drain: { deadline_ms } }
      return end(replicas, child => {
        child.send(message, error => error !== null && child.kill('SIGTERM'))
        const killer = setTimeout(() => child.kill('SIGKILL'), deadline_ms + start.config.stop_ms + 2_000)
        child.once('exit', () => clearTimeout(killer))
      })
    },
    stop: ms => stop(replicas, ms),
    count: () => replicas.length,
    async scale(n, ms) {
      if (replicas.some(replica => replica.leaving)) return
      const stopped = stop(replicas.splice(n), ms)
      while (replicas.length < n) add()
      while (!replicas.every(replica => replica.ready || replica.leaving)) await once(changes, 'change')
      await stopped
    },
    pids: () => replicas.flatMap(({ child }) => child?.pid ?? []),
  }
}
