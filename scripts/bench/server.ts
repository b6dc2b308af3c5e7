/** The measured servers: a Weft that is started from a build, or one that already runs. */
import { type ChildProcess, execFile, fork } from 'node:child_process'
import { mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { freePort } from '../../cli/ports.js'
import { isRunning } from '../../cli/processes.js'
import { root } from '../../cli/root.js'
import { isLoopback } from '../../schemas/loopback.js'
import type { Watched } from './budget.js'
import { benchDatabase, type DatabaseKind } from './database.js'
import { authenticate, openConnection, requestText } from './http.js'
import { withBelow } from './proc.js'

export const benchApp = join(root, 'test/apps/bench')
/** The same with an embedder: an index costs a process. */
export const vectorsApp = join(root, 'test/apps/bench/vectors')

export interface Server extends Watched {
  name: string
  port: number
  /** Events are numbered from 0 without gaps, as Weft promises; otherwise ids only need to increase where present. */
  gapless: boolean
  /** Graphs of further pools, one each. */
  poolGraphs?: readonly string[]
  /** It uses CPU time also while idle, so it is stopped while others are measured. */
  restless?: true
  stop(): Promise<void>
}

export interface StartOptions {
  /** False: resolves as soon as the processes are spawned. */
  wait?: boolean
  /** Another application than that of the bench. */
  app?: string
  /** Further settings. */
  env?: { [name: string]: string }
}

/** A kind of server that can be started again and again, each time empty. */
export interface Kind {
  name: string
  /** Resolves when runs are served. */
  start(options?: StartOptions): Promise<Server>
}

const READY_MS = 180_000
const STOP_MS = 20_000

/** A server at an address; its processes are unknown. */
export async function serverAt(url: string): Promise<Server> {
  const { hostname, port, protocol } = new URL(url)
  if (protocol !== 'http:' || !isLoopback(hostname))
    throw new Error(`--url must be http://127.0.0.1:PORT, not ${url}: the bench talks to this machine only`)
  return {
    name: 'url',
    port: Number(port || 80),
    gapless: true,
    pids: () => [],
    data: null,
    monitor: null,
    stop: async () => {},
  }
}

export interface WeftOptions {
  app?: string
  env?: { [name: string]: string }
  /** Root of the built checkout whose server it is. */
  build?: string
  name?: string
  /** A database server of its own; null: the embedded store. */
  database?: DatabaseKind | null
  /** Gives the requests of the bench what they need to pass. */
  authenticate?(port: number, folder: string): Promise<void>
}

/** `weft start` of a build with default settings, in a temporary folder. */
export function weft({
  app: usual = benchApp,
  env = {},
  build = root,
  name = 'weft',
  database = null,
  authenticate,
}: WeftOptions = {}): Kind {
  return {
    name,
    async start({ wait = true, app = usual, env: more = {} } = {}) {
      const folder = mkdtempSync(join(tmpdir(), 'weft-bench-'))
      const [port, monitor] = [await freePort(), await freePort()]
      const args = ['start', '--port', `${port}`, '--app', app, '--data', folder]
      const store = database === null ? null : await benchDatabase(database)
      const child = spawnWeft(args, folder, { ...env, ...more, ...store?.env, WEFT_NATS_MONITOR: `${monitor}` }, build)
      const server: Server = {
        name,
        port,
        gapless: true,
        pids: () => [child.pid!, ...(store?.pids() ?? [])],
        data: folder,
        monitor,
        async stop() {
          await stopAll([child], folder)
          await store?.stop()
        },
      }
      await authenticate?.(port, folder)
      if (wait) await untilServed(server, child, join(folder, 'bench.log'))
      return server
    },
  }
}

/** The same, but every request has a key. */
export const weftWithKeys = (): Kind =>
  weft({
    name: 'keys',
    env: { WEFT_REQUIRE_KEYS: '1' },
    async authenticate(port, folder) {
      authenticate(port, 'X-Api-Key', await createKey(folder))
    },
  })

/** The same, but the application compares a header of every request. */
export const weftWithAuth = (): Kind =>
  weft({
    name: 'auth',
    app: join(root, 'test/apps/bench-auth'),
    async authenticate(port) {
      authenticate(port, 'Authorization', 'Bearer bench')
    },
  })

/** The same, but waiting runs share the slots by tenant, each with a limit that no scenario reaches. */
export const weftWithScheduling = (): Kind =>
  weft({
    name: 'scheduling',
    env: { WEFT_SCHEDULING: '{"tenant":"metadata.team","limits":{"tenant":1000}}' },
  })

/** A key for everything; waits until the server can make it. */
async function createKey(folder: string): Promise<string> {
  const args = [join(root, 'dist/cli/weft.js'), 'keys', 'create', 'bench', '--scope', 'admin', '--data', folder]
  for (const deadline = Date.now() + READY_MS; ; await sleep(200))
    try {
      return (await promisify(execFile)(process.execPath, args)).stdout.trim()
    } catch (error) {
      if (Date.now() > deadline) throw error
    }
}

/** Settings of the person's shell do not reach the measured servers. */
const FOREIGN =
  /^(WEFT_(?!NATS_SERVER$|NEWEST_NODE$)|NATS_|MONGODB_URL$|DATABASE_URI$|POSTGRES_URI$|PORT$|LOG_LEVEL$|HTTP_MAX_|CORS_|N_JOBS_|BG_JOB_|LANGSMITH_|LANGCHAIN_)/
export const plainEnv = (): NodeJS.ProcessEnv =>
  Object.fromEntries(Object.entries(process.env).filter(([name]) => !FOREIGN.test(name)))

/** Its output goes to a file: the bench would spend CPU time on a pipe. */
export function spawnWeft(args: string[], folder: string, env: { [name: string]: string }, build = root): ChildProcess {
  const log = openSync(join(folder, 'bench.log'), 'a')
  const child = fork(join(build, 'dist/cli/weft.js'), args, {
    execArgv: [],
    stdio: ['ignore', log, log, 'ipc'],
    env: { ...plainEnv(), WEFT_EDGE_DRAIN_MS: '0', ...env },
  })
  return endsWithUs(child)
}

/** The child ends when the bench ends, also by a signal. */
export function endsWithUs(child: ChildProcess): ChildProcess {
  const end = () => void child.kill()
  process.once('exit', end)
  child.once('exit', () => process.removeListener('exit', end))
  return child
}

/** Resolves when a run is answered; rejects with the server's output when the server ends before that. */
export async function untilServed(server: Server, child: ChildProcess, log: string): Promise<void> {
  const deadline = Date.now() + READY_MS
  const run = requestText('POST', '/runs/wait', { assistant_id: 'echo', input: { text: 'ready' } })
  for (;;) {
    if ((await statusOf(server.port, run)) === 200) return
    const ended = child.exitCode !== null || child.signalCode !== null
    if (ended || Date.now() > deadline) {
      const why = ended ? 'ended' : `was not ready after ${READY_MS / 1000} s`
      const said = readFileSync(log, 'utf8').slice(-2_000)
      await server.stop()
      throw new Error(`${server.name} ${why}: ${said}`)
    }
    await sleep(20)
  }
}

/** Status of the response; 0 without a response. */
export async function statusOf(port: number, request: string): Promise<number> {
  const connection = openConnection(port)
  try {
    return (await connection.ask(request)).status
  } catch {
    return 0
  } finally {
    connection.close()
  }
}

/** Stops the processes of restless servers while another one is measured; `turn` null: a peer without a server. */
export function giveTurn(turn: Server | null, servers: readonly Server[]): void {
  for (const server of servers) if (server.restless) signal(server, server === turn ? 'SIGCONT' : 'SIGSTOP')
}

function signal(server: Server, name: 'SIGCONT' | 'SIGSTOP'): void {
  for (const pid of server.pids().flatMap(withBelow).filter(isRunning)) process.kill(pid, name)
}

/** Ends the processes in order and everything below them, then removes the folder. */
export async function stopAll(children: readonly ChildProcess[], folder: string | null): Promise<void> {
  const all = children.flatMap(({ pid }) => (pid === undefined ? [] : withBelow(pid)))
  for (const child of children) {
    if (child.exitCode !== null || child.signalCode !== null) continue
    for (const pid of withBelow(child.pid!).filter(isRunning)) process.kill(pid, 'SIGCONT')
    const exited = new Promise(done => child.once('exit', done))
    child.kill('SIGTERM')
    const killer = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
    await exited
    clearTimeout(killer)
  }
  const deadline = Date.now() + STOP_MS
  while (all.some(isRunning) && Date.now() < deadline) await sleep(20)
  for (const pid of all.filter(isRunning)) process.kill(pid, 'SIGKILL')
  if (folder !== null) rmSync(folder, { recursive: true, force: true })
}
