/**
 * Starts a program with user code as a child process: with no credential of ours and no connection but two socket pairs,
 * descriptor 3 for frames both ways and descriptor 4 for the reports of its watchdog. It ends when its parent does, and
 * takes the processes that it started with it.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { dirname } from 'node:path'
import { Duplex } from 'node:stream'
import { type Frame, frameWriter, readFrames } from '../pipe.js'
import { forwardOutput, type OutputLine } from './output.js'
import { asUser, type HostUser, homeOf, inheritedEnv, killGroup, startIn } from './process.js'
import { inSandbox, type Sandbox } from './sandbox.js'

const STOP_MS = 3_000
/** Time to read what a dead child had sent before its end. */
const DRAIN_MS = 1_000
/** A program to start: an interpreter, its arguments, and variables beside those of the application. */
export interface Program {
  command: string
  args: string[]
  env: { [name: string]: string }
}

/** `file`: absolute path of a program for the Node.js at `node`, our own when absent. */
export const nodeProgram = (file: string, memory_mb: number, node = process.execPath): Program => ({
  command: node,
  args: ['--enable-source-maps', `--max-old-space-size=${memory_mb}`, file],
  env: {},
})

export interface ChildOptions {
  program: Program
  /** How its output is named: `graph host`. */
  name: string
  /** Absolute path of langgraph.json. */
  app: string
  /** The variables of the child; our own, without credentials and settings of ours, when absent. */
  env?: { [name: string]: string | undefined }
  /** The user of the child; our own when null. */
  user: HostUser | null
  /** Null: the child sees what its user sees. */
  sandbox: Sandbox | null
  /** A frame of descriptor 3. An error that it throws is passed to `onMalformed`. */
  onFrame: (frame: Frame) => void
  /** A frame of descriptor 4, as `onFrame`. */
  onNote: (frame: Frame) => void
  /** Called at most once for each pipe; nothing is read after it. `slot` is that of the frame, 0 when unknown. */
  onMalformed: (error: Error, slot: number) => void
  /** The process could not be started; `onExit` follows. */
  onError: (error: Error) => void
  /** The process has ended, and everything it sent was read. */
  onExit: (exit: ChildExit) => void
  /** A line of its output. */
  onLine?: ((line: OutputLine) => void) | undefined
}

export interface ChildExit {
  code: number | null
  signal: NodeJS.Signals | null
  /** It was ended by `kill` or `stop`. */
  killed: boolean
  /** The end of its stderr. */
  tail: string
}

export interface Child {
  /** 0 if it could not be started. */
  pid: number
  send: ReturnType<typeof frameWriter>
  /** Its frames are not read until every reason to pause is gone. */
  pause(reason: object): void
  resume(reason: object): void
  /** Resolves when at most so many bytes wait to be read by the child, or it has ended. */
  drained(bytes: number): Promise<void>
  hasExited(): boolean
  /** At once, with every process it started. */
  kill(): void
  stop(): Promise<void>
}

export function startChild(options: ChildOptions): Child {
  const { program, name, app, env: given = inheritedEnv(), user, sandbox } = options
  const env = { ...given, ...homeOf(user), ...program.env, WEFT_APP: app, WEFT_NOTES_FD: '4' }
  // Relative files and the tsconfig.json (path aliases) are those of the application, wherever Weft was started.
  const started =
    sandbox === null
      ? { ...startIn(user, dirname(app), program.command, program.args), env }
      : { cwd: '/', ...inSandbox(sandbox, { app, ...program, env, own: program.env }) }
  const child: ChildProcess = spawn(started.command, started.args, {
    stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe'],
    ...asUser(user),
    env: started.env,
    cwd: started.cwd,
    // Leads a process group: it can be killed with everything that it started, and does not receive our Ctrl-C.
    detached: true,
  })
  const pid = child.pid ?? 0
  const [pipe, notes] = [streamOf(child, 3), streamOf(child, 4)]
  const output = forwardOutput(child, name, { onLine: options.onLine })
  const pauses = new Set<object>()
  let hasExited = false
  let killed = false

  for (const stream of [pipe, notes]) stream.on('error', () => {})
  readFrames(pipe, options.onFrame, options.onMalformed)
  readFrames(notes, options.onNote, options.onMalformed)
  child.once('error', error => {
    options.onError(error)
    // Without a process there is no exit event.
    if (pid === 0) handleExit(null, null)
  })
  child.once('exit', handleExit)
  function handleExit(code: number | null, signal: NodeJS.Signals | null): void {
    if (hasExited) return
    hasExited = true
    killGroup(pid)
    void Promise.all([pipe, notes].map(readToEnd)).then(() =>
      options.onExit({ code, signal, killed, tail: output.tail() }),
    )
  }

  return {
    pid,
    send: frameWriter(pipe),
    pause(reason) {
      if (pauses.size === 0) pipe.pause()
      pauses.add(reason)
    },
    resume(reason) {
      if (pauses.delete(reason) && pauses.size === 0) pipe.resume()
    },
    async drained(bytes) {
      // Frames are written at the end of the turn.
      await new Promise(resolve => setImmediate(resolve))
      while (!pipe.destroyed && !hasExited && pipe.writableLength > bytes)
        await new Promise<void>(resolve => {
          const done = () => {
            for (const event of ['drain', 'close']) pipe.off(event, done)
            resolve()
          }
          for (const event of ['drain', 'close']) pipe.on(event, done)
        })
    },
    hasExited: () => hasExited,
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
        // Bubblewrap would end at once and take the child along, which ends with its pipe.
        if (sandbox === null) child.kill('SIGTERM')
      }),
  }
}

/** A child that could not be started for want of file descriptors has no streams, whatever their type says. */
function streamOf({ stdio }: { stdio?: ChildProcess['stdio'] }, descriptor: number): Duplex {
  return (stdio?.[descriptor] as Duplex | undefined) ?? new Duplex({ read() {} }).destroy()
}

/** Reads everything that was sent: the last frames of a child count although it is dead. */
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
