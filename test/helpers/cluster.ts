/**
 * Starts and stops a whole Weft: the real `weft start`, or a process per role for tests that kill them. Everything uses
 * free ports and a new folder, and ends when the test process ends.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Ready, RoleName } from '../../cli/commands/roles.js'
import { isRunning } from '../../cli/processes.js'
import { root } from '../../cli/root.js'
import { type Broker, startNats, type TestNats } from './nats.js'
import { storeEnv } from './stores/store.js'

const weft = fileURLToPath(new URL('../../cli/weft.js', import.meta.url))
export const exampleApp = join(root, 'examples/chat/langgraph.json')
const START_MS = 60_000
const STOP_MS = 15_000

export interface ClusterOptions {
  app?: string
  env?: { [name: string]: string }
  /** Not removed at the end. Default: a new folder that is removed. */
  data?: string
  flags?: string[]
}

export interface Proc {
  child: ChildProcess
  pid: number
  port: number | null
  /** Its stdout and stderr so far. */
  output(): string
  kill(signal: NodeJS.Signals): void
  /** SIGTERM; resolves with the exit code, null when a signal ended it. */
  stop(): Promise<number | null>
}

export interface Cluster {
  url: string
  data: string
  launcher: Proc
  /** Processes below the launcher: the merged roles, hosts, the NATS server's shell, the NATS server. */
  pids(): number[]
  output(): string
  /** SIGTERM; resolves when everything has ended. */
  stop(): Promise<number | null>
}

/** `weft start` on a free port; resolves when it is ready. */
export async function startCluster({
  app = exampleApp,
  env = {},
  data,
  flags = [],
}: ClusterOptions = {}): Promise<Cluster> {
  const folder = data ?? mkdtempSync(join(tmpdir(), 'weft-'))
  const store = await storeEnv(folder)
  const launcher = await launch(['start', '--port', '0', '--app', app, '--data', folder, ...flags], {
    ...store,
    ...env,
  })
  return {
    url: `http://127.0.0.1:${launcher.port}`,
    data: folder,
    launcher,
    pids: () => below(launcher.pid),
    output: launcher.output,
    async stop() {
      const children = below(launcher.pid)
      const code = await launcher.stop()
      await allGone(children)
      if (data === undefined) rmSync(folder, { recursive: true, force: true })
      return code
    },
  }
}

export type TestServer = Pick<Cluster, 'url' | 'stop'>

/**
 * The server of test/apps/basic for tests that need its URL only: the one that the test run has started for several files,
 * else a new one. Other files use it at the same time, so that a test sees only what it has created itself.
 */
export async function basicServer(): Promise<TestServer> {
  const url = process.env.WEFT_TEST_SERVER
  return url ? { url, stop: async () => 0 } : startCluster({ app: 'test/apps/basic' })
}

export interface Roles<B extends Broker = TestNats> {
  nats: B
  /** Base URLs of the edges. */
  urls: string[]
  edges: Proc[]
  resources: Proc[]
  graphs: Proc[]
  /** Starts one more process of a role; `flags` replace the default ones, `env` is added. `program`: of another version. */
  add(role: RoleName, flags?: string[], env?: { [name: string]: string }, program?: string): Promise<Proc>
  /** The processes that `add` has started, in order. */
  added: Proc[]
  stop(): Promise<void>
}

export interface RolesOptions<B extends Broker> {
  edges?: number
  resources?: number
  graphs?: number
  app?: string
  env?: { [name: string]: string }
  /** Starts another broker than one server. */
  broker?: () => Promise<B>
}

/** A process per role, with one data folder. */
export async function startRoles<B extends Broker = TestNats>({
  edges = 1,
  resources = 1,
  graphs = 1,
  app = exampleApp,
  env = {},
  broker,
}: RolesOptions<B> = {}): Promise<Roles<B>> {
  const nats = broker === undefined ? ((await startNats()) as Broker as B) : await broker()
  const store = await storeEnv(nats.data)
  const all: Proc[] = []
  const usual = { edge: ['--port', '0'], resources: [], graphs: ['--app', app], deployer: [] }
  const add: Roles['add'] = async (role, flags = usual[role], more = {}, program = weft) => {
    const url: { [name: string]: string } = broker === undefined ? {} : { NATS_URL: nats.url(role) }
    const proc = await launch([role, '--data', nats.data, ...flags], { ...store, ...url, ...env, ...more }, program)
    all.push(proc)
    return proc
  }
  const several = async (role: RoleName, n: number) => {
    const procs: Proc[] = []
    for (let i = 0; i < n; i++) procs.push(await add(role))
    return procs
  }
  try {
    const up = {
      resources: await several('resources', resources),
      graphs: await several('graphs', graphs),
      edges: await several('edge', edges),
    }
    const first = all.length
    return {
      nats,
      get added() {
        return all.slice(first)
      },
      urls: up.edges.map(({ port }) => `http://127.0.0.1:${port}`),
      ...up,
      add,
      async stop() {
        for (const proc of [...all].reverse()) await proc.stop()
        await nats.stop()
      },
    }
  } catch (error) {
    for (const { kill } of all) kill('SIGKILL')
    await nats.stop()
    throw error
  }
}

/** Starts `weft` with these arguments; resolves when it is ready, rejects with its output when it ends before. */
export async function launch(
  args: string[],
  env: { [name: string]: string },
  program = weft,
  within: readonly string[] = [],
): Promise<Proc> {
  const child = spawnWeft(args, env, program, within)
  let output = ''
  for (const stream of [child.stdout!, child.stderr!]) stream.on('data', part => (output += part))
  const port = await new Promise<number | null>((resolve, reject) => {
    const fail = (why: string) => reject(new Error(`weft ${args.join(' ')} ${why}:\n${output}`))
    const timer = setTimeout(() => {
      child.kill('SIGTERM')
      fail(`was not ready after ${START_MS} ms`)
    }, START_MS)
    child.once('close', code => {
      clearTimeout(timer)
      fail(`ended with code ${code}`)
    })
    child.once('message', message => {
      clearTimeout(timer)
      resolve((message as Ready).port)
    })
  })
  return {
    child,
    pid: child.pid!,
    port,
    output: () => output,
    kill: signal => void child.kill(signal),
    async stop() {
      if (child.exitCode === null && child.signalCode === null) {
        const gone = new Promise(done => child.once('exit', done))
        const killer = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
        child.kill('SIGTERM')
        await gone
        clearTimeout(killer)
      }
      return child.exitCode
    },
  }
}

/** `weft` as a child: it stops when this process ends, because the IPC channel closes. `within`: a command that executes it. */
export const spawnWeft = (
  args: string[],
  env: { [name: string]: string | undefined } = {},
  program = weft,
  within: readonly string[] = [],
): ChildProcess =>
  fork(program, args, {
    ...(within.length === 0
      ? { execArgv: [] }
      : { execPath: within[0]!, execArgv: [...within.slice(1), process.execPath] }),
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    env: { ...process.env, NODE_OPTIONS: '', WEFT_TEST: '1', WEFT_EDGE_DRAIN_MS: '0', ...env },
  })

/** All processes below `pid`. */
export function below(pid: number): number[] {
  let children: number[] = []
  try {
    children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
  } catch {
    // Ended meanwhile, or a system without /proc: no process to wait for.
  }
  return children.flatMap(child => [child, ...below(child)])
}

/** The program of a Node.js process; '' when it has ended. */
export function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')[1] ?? ''
  } catch {
    return ''
  }
}

export { isRunning as alive }

/** Waits until none of the processes is left. */
export async function allGone(pids: readonly number[], ms = STOP_MS): Promise<void> {
  const deadline = performance.now() + ms
  for (;;) {
    const left = pids.filter(isRunning)
    if (left.length === 0) return
    if (performance.now() > deadline) throw new Error(`processes ${left.join(', ')} are still there after ${ms} ms`)
    await sleep(10)
  }
}
