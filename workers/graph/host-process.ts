/**
 * One graph host as its supervisor sees it: a child process that runs user code, with no credential and no connection
 * but two socket pairs: frames both ways, and the reports of its watchdog. It ends when its supervisor does, and takes
 * the processes that its graphs started with it.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { dirname } from 'node:path'
import type { Duplex } from 'node:stream'
import { fileURLToPath } from 'node:url'
import type { Log } from '../../bus/log.js'
import { type Hello, type LastWords, validateHello, validateLastWords } from '../../schemas/host.js'
import { asUser, type HostUser, homeOf } from '../host-user.js'
import { killGroup } from '../kill-group.js'
import { FROM_HOST, type Frame, frameWriter, MalformedFrame, readFrames, readJson, TO_HOST } from '../pipe.js'
import { type HeldTime, openHeldTime } from './held-time.js'
import { endOf, type HostEnd } from './host-end.js'
import { forwardOutput } from './host-output.js'

const PROGRAM = fileURLToPath(new URL('../host/main.js', import.meta.url))
const PING_MS = 2_000
const STOP_MS = 3_000
/** Time to read what a dead host had sent before its end. */
const DRAIN_MS = 1_000
const BLOCKED_MS = 1_000
/** The frames that the supervisor handles. */
const { chunk, ask, failed, finish, called } = FROM_HOST
const RUN_FRAMES = new Set<number>([chunk, ask, failed, finish, called])
/** The application may need the variables that the operator set, but not our own credentials. */
const OWN_VARIABLES = /^(NATS_|MONGODB_URL$|LANGGRAPH_AES_KEY$|WEFT_)/

export interface GraphHost {
  pid: number
  hello: Promise<Hello>
  /** Event-loop lateness in milliseconds: at the last pong, or since the ping that has no answer yet. */
  late(): number
  /** The slot whose code has held the event loop for 100 ms or more; 0 = none. */
  holder: number
  /** The event loop has been held for 1 s or more. */
  blocked: boolean
  held: HeldTime
  /** Slots in use. */
  slots: Set<number>
  /** When the last slot in use became free. */
  idle_since: number
  /** The graph that the host is reserved for, while any slot is in use. */
  reservedFor: string | null
  send: ReturnType<typeof frameWriter>
  pause(): void
  resume(): void
  /** At once, with every process it started. `onExit` follows. */
  kill(): void
  stop(): Promise<void>
}

export interface HostOptions {
  /** Absolute path of langgraph.json. */
  app: string
  /** The variables of the host; our own, without credentials and settings of ours, when absent. */
  env?: { [name: string]: string | undefined }
  memory_mb: number
  /** The user of the host; our own when null. */
  user: HostUser | null
  log: Log
  /** An error that it throws is the fault of the host, which is killed and charged as for a crash. */
  onFrame: (host: GraphHost, frame: Frame) => void
  /** The code of a slot has held the event loop for 1 s, 2 s … */
  onBlocked: (host: GraphHost, slot: number, ms: number) => void
  /** The host has ended, and everything it sent was read. */
  onExit: (host: GraphHost, end: HostEnd) => void
}

export function startHost({
  app,
  env = inheritedEnv(),
  memory_mb,
  user,
  log,
  onFrame,
  onBlocked,
  onExit,
}: HostOptions): GraphHost {
  const flags = ['--enable-source-maps', `--max-old-space-size=${memory_mb}`]
  const child: ChildProcess = spawn(process.execPath, [...flags, PROGRAM], {
    stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe'],
    ...asUser(user),
    env: { ...env, ...homeOf(user), WEFT_APP: app, WEFT_NOTES_FD: '4' },
    // Relative files and the tsconfig.json (path aliases) are those of the application, wherever Weft was started.
    cwd: dirname(app),
    // Leads a process group: it can be killed with everything that graphs started, and does not receive our Ctrl-C.
    detached: true,
  })
  const pid = child.pid ?? 0
  const pipe = child.stdio[3] as unknown as Duplex
  const notes = child.stdio[4] as unknown as Duplex
  const output = forwardOutput(child)
  let resolveHello: (hello: Hello) => void = () => {}
  let hasExited = false
  let killed = false
  let lateness = 0
  let pinged_at = 0
  let lastWords: (LastWords & { slot: number }) | null = null
  let malformed: HostEnd | null = null

  const host: GraphHost = {
    pid,
    hello: new Promise<Hello>(resolve => (resolveHello = resolve)),
    late: () => Math.max(lateness, pinged_at > 0 ? performance.now() - pinged_at : 0),
    holder: 0,
    blocked: false,
    held: openHeldTime(),
    slots: new Set(),
    idle_since: Date.now(),
    reservedFor: null,
    send: frameWriter(pipe),
    pause: () => pipe.pause(),
    resume: () => pipe.resume(),
    kill() {
      if (hasExited) return
      killed = true
      killGroup(pid)
    },
    stop: () =>
      new Promise(resolve => {
        if (hasExited) return resolve()
        killed = true
        const killTimer = setTimeout(() => killGroup(pid), STOP_MS)
        child.once('exit', () => {
          clearTimeout(killTimer)
          resolve()
        })
        pipe.end()
        child.kill('SIGTERM')
      }),
  }

  for (const stream of [pipe, notes]) stream.on('error', () => {})
  const onPipe = (frame: Frame) => {
    if (frame.kind === FROM_HOST.hello) resolveHello(readJson(frame.body, validateHello))
    else if (frame.kind === FROM_HOST.pong) {
      lateness = frame.count
      pinged_at = 0
    } else if (RUN_FRAMES.has(frame.kind)) onFrame(host, frame)
    else throw new MalformedFrame('its kind is not known')
  }
  const onNote = ({ kind, slot, count, body }: Frame) => {
    if (kind === FROM_HOST.held) {
      host.holder = slot
      host.held.hold(slot, count)
      host.blocked = count >= BLOCKED_MS
      if (host.blocked) onBlocked(host, slot, count)
    } else if (kind === FROM_HOST.free) {
      host.holder = 0
      host.held.free()
      host.blocked = false
    } else if (kind === FROM_HOST.last) lastWords = { ...readJson(body, validateLastWords), slot }
    else throw new MalformedFrame('its kind is not known')
  }
  /** The sender of a malformed frame is the code of the slot that it names, if that is in use. */
  function reject(error: Error, slot: number): void {
    if (hasExited || malformed !== null) return
    log.error({ err: error, host: pid }, 'a graph host sent a malformed frame; it is killed')
    const message = `the graph host sent a malformed frame: ${error.message}`
    malformed = { error: 'MalformedFrame', message, slot: host.slots.has(slot) ? slot : host.holder || null }
    killGroup(pid)
  }
  readFrames(pipe, onPipe, reject)
  readFrames(notes, onNote, reject)

  const pings = setInterval(() => {
    if (host.slots.size === 0 || pinged_at > 0) return
    pinged_at = performance.now()
    host.send({ kind: TO_HOST.ping })
  }, PING_MS)
  pings.unref()

  child.once('error', error => {
    log.error({ err: error }, 'a graph host could not be started')
    // Without a process there is no exit event.
    if (pid === 0) handleExit(null, null)
  })
  child.once('exit', handleExit)
  function handleExit(code: number | null, signal: NodeJS.Signals | null): void {
    if (hasExited) return
    hasExited = true
    clearInterval(pings)
    killGroup(pid)
    void Promise.all([pipe, notes].map(readToEnd)).then(() => {
      const { holder } = host
      const end = endOf({ code, signal, killed, malformed, lastWords, holder, tail: output.tail(), memory_mb })
      resolveHello({ error: `${end.message} before the application was loaded`, graphs: [] })
      onExit(host, end)
    })
  }
  return host
}

/** The variables of this process, without credentials and settings of ours. */
export const inheritedEnv = () =>
  Object.fromEntries(Object.entries(process.env).filter(([name]) => !OWN_VARIABLES.test(name)))

/** Reads everything that was sent: the last frames of a run count although its host is dead. */
function readToEnd(stream: Duplex): Promise<void> {
  return new Promise(resolve => {
    if (stream.destroyed || stream.readableEnded) return resolve()
    const timer = setTimeout(resolve, DRAIN_MS)
    stream.once('close', () => {
      clearTimeout(timer)
      resolve()
    })
    stream.resume()
  })
}
