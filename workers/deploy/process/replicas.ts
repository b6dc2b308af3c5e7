/**
 * The replicas of one revision: as many as wanted, started again when they die, with a growing pause. While the
 * revision is being deployed three exits in a minute are a crash loop and end it; once it serves it is tried for ever.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Log } from '../../../bus/log.js'
import type { Graph } from '../../../schemas/deploy-calls.js'
import { Fault, Stopped } from '../fault.js'
import { lines, type Say } from './command.js'
import type { Drain, Said, Start } from './instance.js'

const PROGRAM = fileURLToPath(new URL('./instance.js', import.meta.url))
const PAUSES_MS = [1_000, 2_000, 4_000, 8_000, 15_000, 30_000]
/** A replica that lived so long begins anew with the shortest pause. */
const STEADY_MS = 60_000
const LOOP_EXITS = 3
const LOOP_MS = 60_000

export interface ReplicasOptions {
  count: number
  start: Start
  /** Its own variables: no more than a program needs to start. */
  env: { [name: string]: string }
  log: Log
  /** Where what it prints goes. */
  say: Say
}

export interface Replicas {
  /** All are ready and have stayed so for `stable_ms`. Throws a Fault (crash loop, too slow) or Stopped. */
  ready(stable_ms: number, deadline_ms: number, signal: AbortSignal): Promise<Graph[]>
  /** Another revision serves: they finish what is theirs within the deadline and leave. Resolves when they have. */
  drain(deadline_ms: number): Promise<void>
  /** SIGTERM, SIGKILL after `ms`. */
  stop(ms: number): Promise<void>
  pids(): number[]
}

interface Replica {
  child: ChildProcess | null
  ready: boolean
  tries: number
  timer: NodeJS.Timeout | undefined
}

export function startReplicas({ count, start, env, log, say }: ReplicasOptions): Replicas {
  const replicas: Replica[] = Array.from({ length: count }, () => ({
    child: null,
    ready: false,
    tries: 0,
    timer: undefined,
  }))
  const exits: number[] = []
  let graphs: Graph[] = []
  let wanted = true
  /** Why it can never become ready. */
  let broken: string | null = null
  let since = 0
  let changed = () => {}

  function launch(replica: Replica): void {
    const started = Date.now()
    const child = fork(PROGRAM, [], { env, execArgv: [], stdio: ['ignore', 'pipe', 'pipe', 'ipc'], detached: true })
    replica.child = child
    let why = ''
    const flush = [lines(child.stdout!, text => say('INFO', text)), lines(child.stderr!, text => say(...parsed(text)))]
    child.once('error', error => {
      why = error.message
      if (child.pid === undefined) onExit(null, null)
    })
    child.on('message', message => {
      const said = message as Said
      if ('failed' in said) why = said.failed
      else {
        graphs = said.graphs
        replica.ready = true
        since = Date.now()
      }
      changed()
    })
    child.once('exit', onExit)
    child.send(start, error => error !== null && log.debug({ err: error }, 'a replica took no order'))

    function onExit(code: number | null, signal: string | null): void {
      if (replica.child !== child) return
      for (const each of flush) each()
      replica.child = null
      replica.ready = false
      if (wanted) {
        const how = why || (signal === null ? `it left with code ${code}` : `it was ended by ${signal}`)
        // Loading the same files again fails the same way.
        if (code === 2) broken = how
        exits.push(Date.now())
        replica.tries = Date.now() - started > STEADY_MS ? 1 : replica.tries + 1
        const pause = PAUSES_MS[Math.min(replica.tries, PAUSES_MS.length) - 1]!
        log.warn({ revision_id: start.revision_id, why: how, pause }, 'a replica died; starting it again')
        say('ERROR', `a replica died: ${how}`)
        replica.timer = setTimeout(() => launch(replica), pause)
      }
      changed()
    }
  }
  for (const replica of replicas) launch(replica)

  const isLoop = () => exits.filter(at => at > Date.now() - LOOP_MS).length >= LOOP_EXITS
  const allReady = () => replicas.every(replica => replica.ready)

  async function end(tell: (child: ChildProcess) => void): Promise<void> {
    wanted = false
    await Promise.all(
      replicas.map(async replica => {
        clearTimeout(replica.timer)
        const { child } = replica
        if (child === null || child.exitCode !== null || child.signalCode !== null) return
        const gone = new Promise<void>(done => child.once('exit', () => done()))
        tell(child)
        await gone
      }),
    )
  }

  return {
    async ready(stable_ms, deadline_ms, signal) {
      const until = Date.now() + deadline_ms
      for (;;) {
        if (signal.aborted) throw new Stopped('the order was stopped')
        if (broken !== null) throw new Fault(`deploy: a replica cannot start: ${broken}`)
        if (isLoop()) throw new Fault('deploy: the replicas end again and again; see the runtime log')
        const left = allReady() ? since + stable_ms - Date.now() : Number.POSITIVE_INFINITY
        if (left <= 0) return graphs
        if (Date.now() >= until) throw new Fault(`deploy: the replicas were not ready within ${deadline_ms / 1000} s`)
        const wait = Math.min(left, until - Date.now())
        await new Promise<void>(resolve => {
          const timer = setTimeout(resolve, wait)
          changed = () => {
            clearTimeout(timer)
            resolve()
          }
          signal.addEventListener('abort', changed, { once: true })
        })
      }
    },
    drain(deadline_ms) {
      const order: Drain = { drain: { deadline_ms } }
      return end(child => {
        child.send(order, error => error !== null && child.kill('SIGTERM'))
        const killer = setTimeout(() => child.kill('SIGKILL'), deadline_ms + start.config.stop_ms + 2_000)
        child.once('exit', () => clearTimeout(killer))
      })
    },
    stop: ms =>
      end(child => {
        child.kill('SIGTERM')
        const killer = setTimeout(() => child.kill('SIGKILL'), ms)
        child.once('exit', () => clearTimeout(killer))
      }),
    pids: () => replicas.flatMap(({ child }) => child?.pid ?? []),
  }
}

/** Lines of our own log are JSON with a level; everything else is what the application printed. */
function parsed(text: string): ['INFO' | 'WARNING' | 'ERROR', string] {
  if (!text.startsWith('{"level":')) return ['INFO', text]
  const level = Number(/^\{"level":(\d+)/.exec(text)![1])
  return [level >= 50 ? 'ERROR' : level >= 40 ? 'WARNING' : 'INFO', text]
}
