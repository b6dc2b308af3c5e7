/**
 * The app host of an application as its parent sees it: the child process that runs `auth`, `http.app`,
 * `store.path` and `store.index.embed` (host/app/main.ts). It is started again when it ends; a call while it is not ready is refused with `unavailable`,
 * never answered without it. A child whose event loop is blocked for 5 s is killed, unless it is still importing the code.
 */
import { fileURLToPath } from 'node:url'
import { type Lane, openLane } from '../../bus/lane.js'
import type { Log } from '../../bus/log.js'
import { type AppCall, type AppHello, type AppPart, validateAppHello } from '../../schemas/app-host.js'
import { ERRORS, type ErrorCode, fail } from '../../schemas/errors.js'
import { validateCallFailure } from '../../schemas/host.js'
import { pack } from '../../schemas/packed.js'
import { TransientMap } from '../../schemas/transient.js'
import { FROM_HOST, type Frame, MalformedFrame, readJson, TO_HOST } from '../pipe.js'
import { sayWhileLoading } from './loading.js'
import { type HostUser, inheritedEnv } from './process.js'
import type { Sandbox } from './sandbox.js'
import { takeSocket } from './socket-folder.js'
import { type Child, type ChildExit, nodeProgram, startChild } from './start.js'

const PROGRAM = fileURLToPath(new URL('../../programs/app-host.js', import.meta.url))
/** Pause before a child that never became ready is started again: doubled each time. */
const RESTART_MS = 100
const RESTART_MAX_MS = 5_000
const BLOCKED_MS = 5_000
const NOTHING = new Uint8Array(0)

export interface AppHost {
  /** The greeting of the first child. */
  hello: Promise<AppHello>
  isReady(): boolean
  /**
   * The body of the answer. Rejects with a WeftError: `unavailable` while no child is ready and when the child ends;
   * `internal` when the code of the application fails or takes longer than `timeout` ms; `too_large` for a body of a check
   * that may need more than the memory of the child, and `too_many` when too many large ones wait; other codes as the child
   * says.
   */
  call(call: AppCall, body?: Uint8Array, timeout?: number): Promise<Uint8Array>
  stop(): Promise<void>
}

export interface AppHostOptions {
  /** Absolute path of langgraph.json. */
  app: string
  parts: readonly AppPart[]
  /** The folder of its sockets (socket-folder.ts), for `http`. */
  sockets?: string
  /** The variables of the child; our own, without credentials and settings of ours, when absent. */
  env?: { [name: string]: string | undefined }
  memory_mb: number
  user: HostUser | null
  sandbox: Sandbox | null
  /** Path of the Node.js that executes it; our own when absent. */
  node?: string
  /** The interpreter of parts in Python; null when there are none. */
  python?: string | null
  log: Log
}

interface Pending {
  resolve(body: Uint8Array): void
  reject(error: Error): void
  timer: NodeJS.Timeout
}

/** Longer than the child gives the code of the application (host/app/main.ts). */
const CALL_MS = 7_000

/**
 * Bodies of checks have most of the child's memory, in two lanes: small ones pass by large ones that wait. A check takes
 * four times its body at most, as the text, the value, and the text before and after the handlers; and its members and
 * elements, 24 times its text or an eighth of the memory (host/app/auth.ts). Measured with 64 MB of each kind of values:
 * 320 MB were enough, 192 MB were not.
 */
const SMALL = 256 * 1024
const needOf = (size: number, memory: number): number => Math.min(24 * size, 4 * size + memory / 8)

export function openAppHost({
  app,
  parts,
  sockets,
  env = inheritedEnv(),
  memory_mb,
  user,
  sandbox,
  node,
  python = null,
  log,
}: AppHostOptions): AppHost {
  const pending = new TransientMap<number, Pending>()
  const memory = memory_mb * 1024 * 1024
  const lanes: { readonly [kind in 'small' | 'large']: Lane } = {
    small: openLane(memory / 4, Number.POSITIVE_INFINITY),
    large: openLane((memory / 8) * 5, Number.POSITIVE_INFINITY),
  }
  let lastId = 0
  let child: Child
  let isLoading = false
  let loaded = () => {}
  let ready = false
  let stopping = false
  let restart: NodeJS.Timeout | undefined
  let pause = RESTART_MS
  let greet: (hello: AppHello) => void = () => {}
  const hello = new Promise<AppHello>(resolve => (greet = resolve))

  const settings = {
    WEFT_APP_PARTS: parts.join(),
    ...(sockets === undefined ? {} : { WEFT_APP_SOCKETS: sockets }),
    ...(python === null ? {} : { WEFT_APP_PYTHON: python, WEFT_HOST_MEMORY_MB: `${memory_mb}` }),
  }

  function start(): void {
    child = startChild({
      program: { ...nodeProgram(PROGRAM, memory_mb, node), env: settings },
      name: 'app host',
      app,
      env,
      user,
      sandbox,
      onFrame,
      onNote,
      onMalformed(error) {
        if (child.hasExited()) return
        log.error({ err: error }, 'the app host sent a malformed frame; it is killed')
        child.kill()
      },
      onError: error => log.error({ err: error }, 'the app host could not be started'),
      onExit,
    })
    isLoading = true
    loaded = sayWhileLoading(log, 'app host', child.pid)
  }

  function onFrame(frame: Frame): void {
    if (frame.kind === FROM_HOST.hello) onHello(readJson(frame.body, validateAppHello))
    else if (frame.kind === FROM_HOST.called) onAnswer(frame)
    else throw new MalformedFrame('its kind is not known')
  }

  function onHello(found: AppHello): void {
    endLoading()
    const error = found.error ?? (found.http === null ? null : noSocket())
    greet({ ...found, error })
    if (error !== null) return log.error({ error }, 'the app host cannot load the application')
    ready = true
    pause = RESTART_MS
  }

  function endLoading(): void {
    isLoading = false
    loaded()
  }

  /** Why its socket cannot be used; null when it can. */
  function noSocket(): string | null {
    try {
      takeSocket(sockets!, user)
      return null
    } catch (error) {
      return `http.app: ${(error as Error).message}`
    }
  }

  function onAnswer({ id, flags, body }: Frame): void {
    const call = settle(id)
    // A call that took too long is no longer pending.
    if (call === undefined) return
    if (flags === 0) return call.resolve(body)
    const { code, detail } = readJson(body, validateCallFailure)
    call.reject(fail(Object.hasOwn(ERRORS, code) ? (code as ErrorCode) : 'internal', detail))
  }

  function onNote({ kind, count }: Frame): void {
    if (kind !== FROM_HOST.held || count < BLOCKED_MS || isLoading) return
    log.error({ ms: count }, 'the code of the application blocks the event loop of the app host; it is killed')
    child.kill()
  }

  function onExit({ code, signal, tail }: ChildExit): void {
    ready = false
    endLoading()
    const how = signal === null ? `exit code ${code}` : `signal ${signal}`
    const reason = tail.trim().split('\n').at(-1) ?? ''
    greet({
      error: `the app host ended with ${how}${reason === '' ? '' : `: ${reason}`}`,
      auth: false,
      embed: false,
      http: null,
    })
    for (const id of [...pending.keys()]) settle(id)!.reject(fail('unavailable', ENDED))
    if (stopping) return
    log.warn({ how }, 'the app host ended; it is started again')
    restart = setTimeout(start, pause)
    pause = Math.min(pause * 2, RESTART_MAX_MS)
  }

  function settle(id: number): Pending | undefined {
    const call = pending.get(id)
    pending.delete(id)
    if (call !== undefined) clearTimeout(call.timer)
    return call
  }

  function send(head: AppCall, body: Uint8Array, timeout: number): Promise<Uint8Array> {
    if (!ready) return Promise.reject(fail('unavailable', NOT_READY))
    return new Promise((resolve, reject) => {
      const id = ++lastId
      const timer = setTimeout(() => settle(id)?.reject(fail('internal', TOO_LONG)), timeout)
      pending.set(id, { resolve, reject, timer })
      child.send({ kind: TO_HOST.call, id, body: pack(head, [body]) })
    })
  }

  start()
  return {
    hello,
    isReady: () => ready,
    async call(head, body = NOTHING, timeout = CALL_MS) {
      if (head.verb !== 'check' || body.length === 0) return send(head, body, timeout)
      if (body.length > memory / 8) throw fail('too_large', tooLarge(memory_mb / 8))
      const leave = await enter(lanes[body.length > SMALL ? 'large' : 'small'], needOf(body.length, memory))
      return send(head, body, timeout).finally(leave)
    },
    async stop() {
      stopping = true
      clearTimeout(restart)
      await child.stop()
    },
  }
}

/** Resolves, when there is room, with the function that gives it back. */
async function enter(lane: Lane, size: number): Promise<() => void> {
  let leave = () => {}
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(() => {
      leave()
      reject(fail('too_many', MANY_BODIES))
    }, CALL_MS)
    const ended = (settle: () => void) => {
      clearTimeout(timer)
      settle()
    }
    leave = lane.enter(
      size,
      () => ended(resolve),
      error => ended(() => reject(error)),
    )
  })
  return leave
}

const MANY_BODIES = 'Too many bodies wait for the authentication of the application'
const tooLarge = (mb: number): string =>
  `The authentication of the application takes bodies of at most ${mb} MB: an eighth of WEFT_HOST_MEMORY_MB`
const NOT_READY = 'The code of the application that this request needs is being started'
const ENDED = 'The code of the application that this request needs ended before it answered'
const TOO_LONG = 'The code of the application did not answer in time'
