/**
 * One graph host as its supervisor sees it: a child process that runs user code, with no credential and no connection
 * but a socket pair. It ends when its supervisor does.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import type { Duplex } from 'node:stream'
import { fileURLToPath } from 'node:url'
import type { Log } from '../../bus/log.js'
import { FROM_HOST, type Frame, frameWriter, readFrames, TO_HOST } from './frames.js'
import type { Hello } from './protocol.js'

const PROGRAM = fileURLToPath(new URL('./host.js', import.meta.url))
const PING_MS = 2_000
const STOP_MS = 3_000
/** The application may need what the operator set; our own credentials it does not. */
const OURS = /^(NATS_|MONGODB_URL$|WEFT_)/

export interface GraphHost {
  pid: number
  hello: Promise<Hello>
  /** Event-loop lateness in milliseconds at the last pong. */
  late: number
  /** Slots in use. */
  slots: Set<number>
  send: ReturnType<typeof frameWriter>
  pause(): void
  resume(): void
  kill(): void
  stop(): Promise<void>
}

export interface HostOptions {
  /** Absolute path of langgraph.json. */
  app: string
  log: Log
  onFrame: (host: GraphHost, frame: Frame) => void
  onExit: (host: GraphHost, why: string) => void
}

export function startHost({ app, log, onFrame, onExit }: HostOptions): GraphHost {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !OURS.test(name)))
  const child: ChildProcess = spawn(process.execPath, ['--enable-source-maps', PROGRAM], {
    stdio: ['ignore', 'inherit', 'inherit', 'pipe'],
    env: { ...env, WEFT_APP: app },
  })
  const pipe = child.stdio[3] as unknown as Duplex
  let greet: (hello: Hello) => void = () => {}
  const hello = new Promise<Hello>(resolve => (greet = resolve))
  let gone = false
  const host: GraphHost = {
    pid: child.pid ?? 0,
    hello,
    late: 0,
    slots: new Set(),
    send: frameWriter(pipe),
    pause: () => pipe.pause(),
    resume: () => pipe.resume(),
    kill: () => child.kill('SIGKILL'),
    stop: () =>
      new Promise(resolve => {
        if (gone) return resolve()
        const hard = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
        child.once('exit', () => {
          clearTimeout(hard)
          resolve()
        })
        pipe.end()
        child.kill('SIGTERM')
      }),
  }
  pipe.on('error', () => {})
  readFrames(pipe, frame => {
    if (frame.kind === FROM_HOST.hello) greet(JSON.parse(Buffer.from(frame.body).toString()) as Hello)
    else if (frame.kind === FROM_HOST.pong) host.late = frame.count
    else onFrame(host, frame)
  })
  const ping = setInterval(() => host.send({ kind: TO_HOST.ping }), PING_MS)
  ping.unref()
  child.once('error', error => log.error({ err: error }, 'a graph host could not be started'))
  child.once('exit', (code, signal) => {
    gone = true
    clearInterval(ping)
    const why = signal ?? `exit code ${code}`
    greet({ error: `the graph host ended with ${why} before it had loaded the application`, graphs: [] })
    onExit(host, why)
  })
  return host
}
