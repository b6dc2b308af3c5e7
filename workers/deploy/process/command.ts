/**
 * Runs foreign commands (git, installs, builds) with an argument array, a separate environment, a deadline, a limit of
 * disk space and output by line. Their process group outlives neither the command nor this process: a shell reads a pipe
 * of ours and kills the whole group when it closes, so that a killed deploy worker leaves no build behind. Processes
 * that have left the group are found by the mark in their environment (leftovers.ts).
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Redactor } from '../../../schemas/redact.js'
import { isReason } from '../../child/output.js'
import { asUser, type HostUser, killGroup } from '../../child/process.js'
import type { BuildSandbox } from '../../child/sandbox.js'
import { Fault, Stopped, throwIfStopped } from '../fault.js'
import type { Say } from '../log.js'
import { lines } from '../output-lines.js'
import { killMarked, MARK } from './leftovers.js'

export type { Say } from '../log.js'

export interface Command {
  /** For messages: "git fetch", "install". */
  name: string
  file: string
  args: readonly string[]
  cwd: string
  /** With a MARK, processes that have left its group end with it, too. */
  env: { [name: string]: string | undefined }
  timeout_ms: number
  /** Our own when absent or null. */
  user?: HostUser | null
  /** How it is started in a sandbox; absent: without one. */
  boxed?: Boxed | undefined
  /** Secrets of its output, also in faults. */
  redactor: Redactor
  /** Receives the lines of stdout, which then do not go into the log. */
  read?: (line: string) => void
  /** Kills it when these folders hold more bytes. `hint`: the setting that allows more. */
  limit?: { folders: readonly string[]; bytes: number; hint?: string }
}

export interface Ran {
  code: number
  /** Signal that ended it and was not ours. */
  signal: NodeJS.Signals | null
  /** The last lines of both outputs. */
  tail: string
}

const GUARD = `cd -- "$1" || exit
shift
exec 3<&0
"$@" </dev/null 3<&- &
child=$!
( while read -r _ <&3; do :; done; kill -9 -$$ ) >/dev/null 2>&1 &
watcher=$!
wait $child
code=$?
kill -9 $watcher 2>/dev/null
exit $code`

const MEASURE_MS = 1_000
/** A large folder takes long to measure: the pause is so many times as long. */
const MEASURE_SHARE = 10
const TAIL = 20

/** Runs the command; any exit code is a result. Throws Stopped when the signal is aborted, a Fault at the deadline. */
export async function run(command: Command, signal: AbortSignal, say: Say): Promise<Ran> {
  throwIfStopped(signal)
  const { name, timeout_ms, user = null, redactor, read, limit } = command
  const { cwd, file, args, env } = startedAt(command)
  // It enters the folder by itself: the path may lead to another place by now, which only we can enter.
  const child = spawn('/bin/sh', ['-c', GUARD, 'weft-build', cwd, file, ...args], {
    cwd: '/',
    env,
    ...asUser(user),
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
  })
  const tail: string[] = []
  const onLine = (text: string) => {
    tail.push(text)
    if (tail.length > TAIL) tail.shift()
    say('INFO', text)
  }
  child.stdin!.on('error', () => {})
  const flush = [lines(child.stdout!, redactor, read ?? onLine), lines(child.stderr!, redactor, onLine)]
  const kill = () => killGroup(child.pid ?? 0)
  let fault: Fault | null = null
  const end = (why: string) => {
    fault = new Fault(`${name} ${why}`)
    kill()
  }
  const timer = setTimeout(() => end(`did not end within ${timeout_ms / 1000} s`), timeout_ms)
  const measuring = new AbortController()
  if (limit !== undefined) void watchSize(limit, measuring.signal, end)
  signal.addEventListener('abort', kill, { once: true })
  try {
    const { code, ended } = await waitForExit(child, command.env[MARK])
    if (limit !== undefined && (await sizeOf(limit.folders)) > limit.bytes) end(tooLarge(limit))
    for (const each of flush) each()
    if (signal.aborted) throw new Stopped('the task was stopped')
    if (fault !== null) throw fault
    // A shell exits with 128 + n for a child that a signal ended.
    const killed = ended ?? (code !== null && code > 128 ? 'SIGKILL' : null)
    return { code: code ?? 1, signal: killed, tail: tail.join('\n') }
  } finally {
    clearTimeout(timer)
    measuring.abort()
    signal.removeEventListener('abort', kill)
    kill()
  }
}

export type Boxed = BuildSandbox['start']

/** The sandbox enters the folder itself. */
function startedAt({ boxed, cwd, file, args, env }: Command): Pick<Command, 'cwd' | 'file' | 'args' | 'env'> {
  if (boxed === undefined) return { cwd, file, args, env }
  const started = boxed(cwd, file, args, env)
  return { cwd: '/', file: started.command, args: started.args, env: started.env }
}

/** As run, but any exit code other than 0 is a Fault with the last line of output. */
export async function runOrFail(command: Command, signal: AbortSignal, say: Say): Promise<Ran> {
  const ran = await run(command, signal, say)
  if (ran.code === 0) return ran
  const last = ran.tail.split('\n').findLast(isReason) ?? 'no output'
  const how = ran.signal === null ? `exit code ${ran.code}` : 'it was killed'
  throw new Fault(`${command.name} failed (${how}): ${last.trim().slice(0, 300)}`, ran.signal !== null)
}

/** Resolves after the exit and the end of the output. Processes that it left behind are killed: they keep it open. */
function waitForExit(
  child: ChildProcess,
  mark: string | undefined,
): Promise<{ code: number | null; ended: NodeJS.Signals | null }> {
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    let how: { code: number | null; ended: NodeJS.Signals | null } = { code: 1, ended: null }
    let killed: Promise<void> | undefined
    child.once('exit', (code, ended) => {
      how = { code, ended }
      killGroup(child.pid ?? 0)
      if (mark !== undefined) killed = killMarked(mark)
    })
    child.once('close', () => void Promise.resolve(killed).then(() => resolve(how), reject))
  })
}

type SizeLimit = NonNullable<Command['limit']>

const tooLarge = ({ bytes, hint }: SizeLimit): string =>
  `used more than ${bytes} bytes of disk space${hint === undefined ? '' : `; ${hint}`}`

async function watchSize(limit: SizeLimit, signal: AbortSignal, end: (why: string) => void): Promise<void> {
  let pause = MEASURE_MS
  for (;;) {
    await sleep(pause, undefined, { signal }).catch(() => {})
    if (signal.aborted) return
    const started = performance.now()
    const size = await sizeOf(limit.folders)
    if (signal.aborted) return
    if (size > limit.bytes) return end(tooLarge(limit))
    pause = Math.max(MEASURE_MS, MEASURE_SHARE * (performance.now() - started))
  }
}

/** Bytes on disk. A separate process walks the folders: an installation has 100,000 files. */
function sizeOf(folders: readonly string[]): Promise<number> {
  return new Promise(resolve =>
    // Files disappear while they are counted: the exit code does not matter.
    execFile('du', ['-skx', '--', ...folders], (_, stdout) =>
      resolve(stdout.split('\n').reduce((sum, line) => sum + 1024 * (Number.parseInt(line, 10) || 0), 0)),
    ),
  )
}
