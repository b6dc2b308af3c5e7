/**
 * Foreign commands (git, installs, builds): an argument array, an environment of their own, a deadline, output by the
 * line. Nothing of them outlives the command, nor this process: a shell holds a pipe of ours and ends the whole group
 * when it closes, so that a killed deploy worker leaves no build behind.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { killGroup } from '../../kill-group.js'
import { Fault, goOn, Stopped } from '../fault.js'
import type { Say } from '../log.js'

export type { Say } from '../log.js'

export interface Command {
  /** For messages: "git fetch", "install". */
  name: string
  file: string
  args: readonly string[]
  cwd: string
  env: { [name: string]: string | undefined }
  timeout_ms: number
  /** Lines of stdout go here instead of into the log. */
  read?: (line: string) => void
  /** Ends it when the files right in this folder hold more bytes. */
  limit?: { folder: string; bytes: number }
}

export interface Ran {
  code: number
  /** Ended by a signal that we did not send. */
  signal: NodeJS.Signals | null
  /** The last lines of both outputs. */
  tail: string
}

const GUARD = `exec 3<&0
"$@" </dev/null 3<&- &
child=$!
( while read -r _ <&3; do :; done; kill -9 -$$ ) >/dev/null 2>&1 &
watcher=$!
wait $child
code=$?
kill -9 $watcher 2>/dev/null
exit $code`

const MAX_LINE = 16 * 1024
const MEASURE_MS = 1_000
const TAIL = 20
const ANSI = /\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])/g

/** Runs it to its end, whatever its exit code. Throws Stopped when the signal fires, a Fault at the deadline. */
export async function run(command: Command, signal: AbortSignal, say: Say): Promise<Ran> {
  goOn(signal)
  const { name, file, args, cwd, env, timeout_ms, read, limit } = command
  const child = spawn('sh', ['-c', GUARD, 'weft-build', file, ...args], {
    cwd,
    env,
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
  const flush = [lines(child.stdout!, read ?? onLine), lines(child.stderr!, onLine)]
  const kill = () => killGroup(child.pid ?? 0)
  let fault: Fault | null = null
  const end = (why: string) => {
    fault = new Fault(`${name} ${why}`)
    kill()
  }
  const timer = setTimeout(() => end(`did not end within ${timeout_ms / 1000} s`), timeout_ms)
  const measure = setInterval(() => {
    if (limit !== undefined && sizeOf(limit.folder) > limit.bytes) end(`brought more than ${limit.bytes} bytes`)
  }, MEASURE_MS)
  signal.addEventListener('abort', kill, { once: true })
  try {
    const { code, ended } = await over(child)
    for (const each of flush) each()
    if (signal.aborted) throw new Stopped('the order was stopped')
    if (fault !== null) throw fault
    // A shell says 128 + n for a child that a signal ended.
    const killed = ended ?? (code !== null && code > 128 ? 'SIGKILL' : null)
    return { code: code ?? 1, signal: killed, tail: tail.join('\n') }
  } finally {
    clearTimeout(timer)
    clearInterval(measure)
    signal.removeEventListener('abort', kill)
    kill()
  }
}

/** As run, but any other exit code than 0 is a Fault with the last line that was written. */
export async function must(command: Command, signal: AbortSignal, say: Say): Promise<Ran> {
  const ran = await run(command, signal, say)
  if (ran.code === 0) return ran
  const last = ran.tail.split('\n').findLast(line => line.trim() !== '') ?? 'it said nothing'
  const how = ran.signal === null ? `exit code ${ran.code}` : 'it was killed'
  throw new Fault(`${command.name} failed (${how}): ${last.trim().slice(0, 300)}`, ran.signal !== null)
}

/** The exit, and everything that was written; a process that goes on in the background holds nothing up. */
function over(child: ChildProcess): Promise<{ code: number | null; ended: NodeJS.Signals | null }> {
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    let how: { code: number | null; ended: NodeJS.Signals | null } | null = null
    child.once('exit', (code, ended) => {
      how = { code, ended }
      killGroup(child.pid ?? 0)
    })
    child.once('close', () => resolve(how ?? { code: 1, ended: null }))
  })
}

/**
 * Calls back once per line; what stands beyond MAX_LINE in a line is left out. The returned function passes on what
 * stands behind the last line end.
 */
export function lines(stream: NodeJS.ReadableStream, onLine: (text: string) => void): () => void {
  let rest = ''
  /** The line that goes on has been said already, as far as it is said. */
  let said = false
  const pass = (text: string) => {
    const clean = text.replace(ANSI, '').trimEnd()
    if (clean !== '' && !said) onLine(clean.length > MAX_LINE ? `${clean.slice(0, MAX_LINE)}…` : clean)
    said = false
  }
  stream.setEncoding('utf8')
  stream.on('data', (text: string) => {
    const parts = (rest + text).split(/\r\n|\n|\r/)
    rest = parts.pop()!
    for (const part of parts) pass(part)
    // Much longer than what is shown: colours are in it, too.
    if (!said && rest.length <= 2 * MAX_LINE) return
    if (!said) pass(rest)
    said = true
    rest = ''
  })
  return () => {
    pass(rest)
    rest = ''
  }
}

function sizeOf(folder: string): number {
  try {
    return readdirSync(folder).reduce((sum, name) => sum + (statSync(join(folder, name), NONE)?.size ?? 0), 0)
  } catch {
    return 0
  }
}

const NONE = { throwIfNoEntry: false } as const
