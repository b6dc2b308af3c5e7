/**
 * One graph host as its supervisor sees it: a child process that runs user code, with no credential and no connection
 * but two socket pairs: frames both ways, and what its watchdog has to say. It ends when its supervisor does, and takes
 * the processes that its graphs started with it.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import type { Duplex } from 'node:stream'
import { fileURLToPath } from 'node:url'
import type { Log } from '../../bus/log.js'
import type { Hello, LastWords } from '../../schemas/host.js'
import { killGroup } from '../kill-group.js'
import { FROM_HOST, type Frame, frameWriter, readFrames, TO_HOST } from '../pipe.js'
import { endOf, type HostEnd } from './host-end.js'
import { forwardOutput } from './host-output.js'

const PROGRAM = fileURLToPath(new URL('../host/main.js', import.meta.url))
const PING_MS = 2_000
const STOP_MS = 3_000
/** How long what a dead host had still sent may take to be read. */
const DRAIN_MS = 1_000
const BLOCKED_MS = 1_000
/** The application may need what the operator set; our own credentials it does not. */
const OURS = /^(NATS_|MONGODB_URL$|LANGGRAPH_AES_KEY$|WEFT_)/

export interface GraphHost {
  pid: number
  hello: Promise<Hello>
  /** Event-loop lateness in milliseconds: at the last pong, or since the ping that nobody answered yet. */
  late(): number
  /** The slot whose code has held the event loop for 100 ms or more; 0 = none. */
  holder: number
  /** It has been held for 1 s or more. */
  blocked: boolean
  /** Slots in use. */
  slots: Set<number>
  /** Since when no slot is in use. */
  idle_since: number
  /** The graph it is kept for, while it has any slot in use. */
  only: string | null
  send: ReturnType<typeof frameWriter>
  pause(): void
  resume(): void
  /** At once, with everything it started. `onExit` follows. */
  kill(): void
  stop(): Promise<void>
}

export interface HostOptions {
  /** Absolute path of langgraph.json. */
  app: string
  /** The variables that it sees; our own, without credentials and settings of ours, when absent. */
  env?: { [name: string]: string | undefined }
  memory_mb: number
  log: Log
  onFrame: (host: GraphHost, frame: Frame) => void
  /** The code of a slot holds the event loop for 1 s, 2 s … */
  onBlocked: (host: GraphHost, slot: number, ms: number) => void
  /** It has ended, and everything it sent was read. */
  onExit: (host: GraphHost, end: HostEnd) => void
}

export function startHost({
  app,
  env = inherited(),
  memory_mb,
  log,
  onFrame,
  onBlocked,
  onExit,
}: HostOptions): GraphHost {
  const flags = ['--enable-source-maps', `--max-old-space-size=${memory_mb}`]
  const child: ChildProcess = spawn(process.execPath, [...flags, PROGRAM], {
    stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe'],
    env: { ...env, WEFT_APP: app, WEFT_NOTES_FD: '4' },
    // A group of its own: what graphs start is found again, and Ctrl-C is ours to hear.
    detached: true,
  })
  const pid = child.pid ?? 0
  const pipe = child.stdio[3] as unknown as Duplex
  const notes = child.stdio[4] as unknown as Duplex
  const output = forwardOutput(child)
  let greet: (hello: Hello) => void = () => {}
  let gone = false
  let killed = false
  let pong = 0
  let asked = 0
  let last: (LastWords & { slot: number }) | null = null

  const host: GraphHost = {
    pid,
    hello: new Promise<Hello>(resolve => (greet = resolve)),
    late: () => Math.max(pong, asked > 0 ? performance.now() - asked : 0),
    holder: 0,
    blocked: false,
    slots: new Set(),
    idle_since: Date.now(),
    only: null,
    send: frameWriter(pipe),
    pause: () => pipe.pause(),
    resume: () => pipe.resume(),
    kill() {
      if (gone) return
      killed = true
      killGroup(pid)
    },
    stop: () =>
      new Promise(resolve => {
        if (gone) return resolve()
        killed = true
        const hard = setTimeout(() => killGroup(pid), STOP_MS)
        child.once('exit', () => {
          clearTimeout(hard)
          resolve()
        })
        pipe.end()
        child.kill('SIGTERM')
      }),
  }

  for (const stream of [pipe, notes]) stream.on('error', () => {})
  readFrames(pipe, frame => {
    if (frame.kind === FROM_HOST.hello) greet(JSON.parse(Buffer.from(frame.body).toString()) as Hello)
    else if (frame.kind === FROM_HOST.pong) {
      pong = frame.count
      asked = 0
    } else onFrame(host, frame)
  })
  readFrames(notes, ({ kind, slot, count, body }) => {
    if (kind === FROM_HOST.held) {
      host.holder = slot
      host.blocked = count >= BLOCKED_MS
      if (host.blocked) onBlocked(host, slot, count)
    } else if (kind === FROM_HOST.free) {
      host.holder = 0
      host.blocked = false
    } else if (kind === FROM_HOST.last) last = { ...(JSON.parse(Buffer.from(body).toString()) as LastWords), slot }
  })

  const ping = setInterval(() => {
    if (host.slots.size === 0 || asked > 0) return
    asked = performance.now()
    host.send({ kind: TO_HOST.ping })
  }, PING_MS)
  ping.unref()

  child.once('error', error => {
    log.error({ err: error }, 'a graph host could not be started')
    // No process, no exit.
    if (pid === 0) exited(null, null)
  })
  child.once('exit', exited)
  function exited(code: number | null, signal: NodeJS.Signals | null): void {
    if (gone) return
    gone = true
    clearInterval(ping)
    killGroup(pid)
    void Promise.all([pipe, notes].map(ended)).then(() => {
      const end = endOf({ code, signal, killed, last, holder: host.holder, tail: output.tail(), memory_mb })
      greet({ error: `${end.message} before the application was loaded`, graphs: [] })
      onExit(host, end)
    })
  }
  return host
}

/** What this process sees, without credentials and settings of ours. */
export const inherited = () => Object.fromEntries(Object.entries(process.env).filter(([name]) => !OURS.test(name)))

/** Everything that was sent is read: what a run said before its host died counts. */
function ended(stream: Duplex): Promise<void> {
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
