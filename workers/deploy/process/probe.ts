/**
 * Loads every graph of a built tree in a dedicated process with the environment of the application
 * (docs/spec/control-plane.md#process-driver). A graph that cannot be loaded fails the build, with its stack in the
 * log, and never reaches a worker.
 */
import { spawn } from 'node:child_process'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Graph } from '../../../schemas/deploy-calls.js'
import { validateHello } from '../../../schemas/host.js'
import type { Redactor } from '../../../schemas/redact.js'
import { asUser, type HostUser, homeOf, killGroup, startIn } from '../../child/process.js'
import { readReport } from '../../child/report.js'
import { inSandbox, type Sandbox } from '../../child/sandbox.js'
import type { Program } from '../../child/start.js'
import { Fault, Stopped, throwIfStopped } from '../fault.js'
import type { Say } from '../log.js'
import { lines } from '../output-lines.js'
import { killMarked, MARK } from './leftovers.js'
import type { ProbeResult } from './probe-child.js'

const PROGRAM = fileURLToPath(new URL('../../../programs/probe.js', import.meta.url))
const PROBE_MS = 2 * 60_000
const MAX_REPORT = 16 * 1024 * 1024

interface Probe {
  /** Absolute path of langgraph.json. */
  app: string
  env: { [name: string]: string }
  program: ProbeProgram
  redactor: Redactor
  user: HostUser | null
  /** Null: it sees what its user sees. */
  sandbox: Sandbox | null
  /** Marks the processes that the graphs start (leftovers.ts). */
  mark: string
}

/**
 * The program that loads the graphs of one language. It writes its report to descriptor 3 as JSON: code of the application can write
 * there, too, and messages between programs of Node.js would end this process when they are malformed.
 */
export type ProbeProgram = Program

/** `node`: path of the Node.js that executes it. */
export const javascriptProbe = (node: string, memory_mb: number): ProbeProgram => ({
  command: node,
  args: ['--enable-source-maps', `--max-old-space-size=${memory_mb}`, PROGRAM],
  env: {},
})

/** The probe by the program of a Python host. */
export const pythonProbe = ({ command, args, env }: Program): ProbeProgram => ({
  command,
  args: [...args, 'probe'],
  env,
})

/** Resolves to the graphs. Throws a Fault that names the graphs that cannot be loaded. */
export async function probe(
  { app, env, program, redactor, user, sandbox, mark }: Probe,
  signal: AbortSignal,
  say: Say,
): Promise<Graph[]> {
  throwIfStopped(signal)
  // As the hosts of the application: for relative files and path aliases.
  const all = { ...env, ...homeOf(user), ...program.env, WEFT_APP: app, [MARK]: mark }
  const started =
    sandbox === null
      ? { ...startIn(user, dirname(app), program.command, program.args), env: all }
      : { cwd: '/', ...inSandbox(sandbox, { app, ...program, env: all, own: program.env }) }
  const child = spawn(started.command, started.args, {
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
    ...asUser(user),
    env: started.env,
    cwd: started.cwd,
    detached: true,
  })
  const pid = child.pid ?? 0
  const flush = [
    lines(child.stdout!, redactor, text => say('INFO', text)),
    lines(child.stderr!, redactor, text => say('INFO', text)),
  ]
  const kill = () => killGroup(pid)
  let timedOut = false
  const timer = setTimeout(() => {
    timedOut = true
    kill()
  }, PROBE_MS)
  signal.addEventListener('abort', kill, { once: true })
  try {
    let result: ProbeResult | null = null
    // The code of the application runs there, and may send something else.
    const onReport = (report: unknown) => {
      const checked = validateHello(report)
      if (!checked.success) return
      result ??= checked.data
      kill()
    }
    readReport(child.stdio[3] as NodeJS.ReadableStream, MAX_REPORT).then(onReport, () => {})
    const how = await new Promise<string>((resolve, reject) => {
      let ended = ''
      child.once('error', reject)
      let killed: Promise<void> | undefined
      child.once('exit', (code, name) => {
        ended = name === null ? `exit code ${code}` : name
        kill()
        // A process that it has left behind keeps the output open.
        killed = killMarked(mark)
      })
      child.once('close', () => void Promise.resolve(killed).then(() => resolve(ended), reject))
    })
    for (const each of flush) each()
    if (signal.aborted) throw new Stopped('the task was stopped')
    if (timedOut) throw new Fault(`probe: the graphs were not loaded within ${PROBE_MS / 1000} s`)
    return graphsOf(result, how, say)
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', kill)
    kill()
  }
}

function graphsOf(result: ProbeResult | null, how: string, say: Say): Graph[] {
  if (result === null) throw new Fault(`probe: the process ended (${how}) before the graphs were loaded`)
  if (result.error !== null) throw new Fault(`probe: ${result.error}`)
  for (const note of result.notes ?? []) say('WARNING', note)
  const broken = result.graphs.filter(graph => graph.error !== null)
  for (const { error } of broken) say('ERROR', error!)
  if (broken.length > 0) throw new Fault(`probe: ${broken.map(graph => graph.error).join('; ')}`.slice(0, 1_000))
  return result.graphs.map(({ graph_id, description }) => ({ graph_id, description }))
}
