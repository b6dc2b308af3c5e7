/**
 * One graph host as its supervisor sees it: a child process that runs user code (child/start.ts), its event loop, and
 * the frames that it may send.
 */
import type { Log } from '../../bus/log.js'
import { type Hello, type LastWords, validateHello, validateLastWords } from '../../schemas/host.js'
import { TransientSet } from '../../schemas/transient.js'
import { sayWhileLoading } from '../child/loading.js'
import type { OutputLine } from '../child/output.js'
import type { HostUser } from '../child/process.js'
import { killGroup } from '../child/process.js'
import type { Sandbox } from '../child/sandbox.js'
import { type Child, type Program, startChild } from '../child/start.js'
import { FROM_HOST, type Frame, MalformedFrame, readJson, TO_HOST } from '../pipe.js'
import { type HeldTime, openHeldTime } from './held-time.js'
import { endOf, type HostEnd } from './host-end.js'

const PING_MS = 2_000
const BLOCKED_MS = 1_000
/** The frames that the supervisor handles. */
const { chunk, ask, failed, finish, called, spans, checkpoint } = FROM_HOST
const RUN_FRAMES = new Set<number>([chunk, ask, failed, finish, called, spans, checkpoint])

export interface GraphHost {
  pid: number
  hello: Promise<Hello>
  /** It imports the code of the application, which may take as long as it likes. */
  isLoading: boolean
  /** Bytes that its paused runs have sent after their pause. */
  lateBytes: number
  /** Event-loop lateness in milliseconds: at the last pong, or since the ping that has no answer yet. */
  late(): number
  /** The slot whose code has held the event loop for 100 ms or more; 0 = none. */
  holder: number
  /** The event loop has been held for 1 s or more. */
  blocked: boolean
  held: HeldTime
  /** Slots in use. */
  slots: TransientSet<number>
  /** When the last slot in use became free. */
  idle_since: number
  /** The graph that the host is reserved for, while any slot is in use. */
  reservedFor: string | null
  send: Child['send']
  pause: Child['pause']
  resume: Child['resume']
  drained: Child['drained']
  /** At once, with every process it started. `onExit` follows. */
  kill(): void
  stop(): Promise<void>
}

export interface HostOptions {
  /** Called for each host: the application may have changed. */
  program(): Program
  /** Absolute path of langgraph.json. */
  app: string
  /** The variables of the host; our own, without credentials and settings of ours, when absent. */
  env?: { [name: string]: string | undefined }
  memory_mb: number
  /** The user of the host; our own when null. */
  user: HostUser | null
  sandbox: Sandbox | null
  log: Log
  /** An error that it throws is the fault of the host, which is killed and charged as for a crash. */
  onFrame: (host: GraphHost, frame: Frame) => void
  /** The code of a slot has held the event loop for 1 s, 2 s … */
  onBlocked: (host: GraphHost, slot: number, ms: number) => void
  /** The event loop turns again, or is blocked from now on: a run may be given to another host. */
  onTurn?: () => void
  /** The host takes no further runs. */
  onRetire: (host: GraphHost) => void
  /** The host has ended, and everything it sent was read. */
  onExit: (host: GraphHost, end: HostEnd) => void
  /** A line of its output. */
  onLine?: ((host: GraphHost, line: OutputLine) => void) | undefined
}

export function startHost(options: HostOptions): GraphHost {
  const { program, app, env, memory_mb, user, sandbox, log, onFrame, onBlocked, onTurn, onRetire, onExit } = options
  let resolveHello: (hello: Hello) => void = () => {}
  let lateness = 0
  let pinged_at = 0
  let lastWords: (LastWords & { slot: number }) | null = null
  let malformed: HostEnd | null = null

  const child = startChild({
    program: program(),
    name: 'graph host',
    app,
    ...(env === undefined ? {} : { env }),
    user,
    sandbox,
    onFrame: onPipe,
    onNote,
    onMalformed: reject,
    onLine: line => options.onLine?.(host, line),
    onError: error => log.error({ err: error }, 'a graph host could not be started'),
    onExit(exit) {
      clearInterval(pings)
      loaded()
      const end = endOf({ ...exit, malformed, lastWords, holder: host.holder, memory_mb })
      resolveHello({ error: `${end.message} before the application was loaded`, graphs: [] })
      onExit(host, end)
    },
  })
  const host: GraphHost = {
    pid: child.pid,
    hello: new Promise<Hello>(resolve => (resolveHello = resolve)),
    isLoading: true,
    lateBytes: 0,
    late: () => Math.max(lateness, pinged_at > 0 ? performance.now() - pinged_at : 0),
    holder: 0,
    blocked: false,
    held: openHeldTime(),
    slots: new TransientSet(),
    idle_since: performance.now(),
    reservedFor: null,
    send: child.send,
    pause: child.pause,
    resume: child.resume,
    drained: child.drained,
    kill: child.kill,
    stop: child.stop,
  }

  function onPipe(frame: Frame): void {
    if (frame.kind === FROM_HOST.hello) {
      host.isLoading = false
      loaded()
      resolveHello(readJson(frame.body, validateHello))
    } else if (frame.kind === FROM_HOST.pong) {
      lateness = frame.count
      pinged_at = 0
    } else if (frame.kind === FROM_HOST.retire) onRetire(host)
    else if (RUN_FRAMES.has(frame.kind)) onFrame(host, frame)
    else throw new MalformedFrame('its kind is not known')
  }
  function onNote({ kind, slot, count, body }: Frame): void {
    if (kind === FROM_HOST.held) {
      host.holder = slot
      host.held.hold(slot, count)
      const wasBlocked = host.blocked
      host.blocked = count >= BLOCKED_MS
      if (host.blocked) onBlocked(host, slot, count)
      if (host.blocked && !wasBlocked) onTurn?.()
    } else if (kind === FROM_HOST.free) {
      host.holder = 0
      host.held.free()
      host.blocked = false
      onTurn?.()
    } else if (kind === FROM_HOST.last) lastWords = { ...readJson(body, validateLastWords), slot }
    else throw new MalformedFrame('its kind is not known')
  }
  /** The sender of a malformed frame is the code of the slot that it names, if that is in use. */
  function reject(error: Error, slot: number): void {
    if (child.hasExited() || malformed !== null) return
    log.error({ err: error, host: child.pid }, 'a graph host sent a malformed frame; it is killed')
    const message = `the graph host sent a malformed frame: ${error.message}`
    malformed = { error: 'MalformedFrame', message, slot: host.slots.has(slot) ? slot : host.holder || null }
    killGroup(child.pid)
  }

  const loaded = sayWhileLoading(log, 'graph host', child.pid)
  const pings = setInterval(() => {
    if (host.slots.size === 0 || pinged_at > 0) return
    pinged_at = performance.now()
    host.send({ kind: TO_HOST.ping })
  }, PING_MS)
  pings.unref()
  return host
}
