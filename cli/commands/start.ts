/**
 * `weft start`: a small parent process. It starts the NATS server and one process with the roles, restarts them when
 * they exit, and stops both in order. It loads neither the HTTP server nor the broker's client nor a database.
 */
import { fork } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { get } from 'node:http'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Config } from '../../schemas/config.js'
import { type Description, usesPython } from '../../schemas/description.js'
import { isLoopback } from '../../schemas/loopback.js'
import { prepareDataFolder } from '../data-folder.js'
import { GivenUp, keepRunning, type ManagedProcess } from '../keep-running.js'
import { type NatsProcess, startNatsProcess } from '../nats/process.js'
import { findNatsServer } from '../nats/server.js'
import { isFree } from '../ports.js'
import { say, sayLast, speaksJson } from '../say.js'
import { UserError } from '../user-error.js'
import { describeApplication } from './application.js'
import { banner, type GraphReport } from './banner.js'
import type { Launch, Ready } from './roles.js'

const READY_MS = 30_000

const steps = [checkCommand, checkApp, checkAddress, preparePython, startBroker, startRoles, greet, watch] as const

interface StartFlags {
  json?: boolean
  /** `weft dev`: the roles are started again when a file of the application changes. */
  dev?: boolean
  /** A program has started it, and is gone when stdin ends. */
  tied?: boolean
}

interface Start extends Required<Omit<StartFlags, 'tied'>> {
  config: Config
  /** The key of the control plane existed before this start. */
  hadKey: boolean
  say(line: string): void
  giveUp(error: Error): void
  nats: NatsProcess | null
  roles: ManagedProcess | null
  app: Description | null
  /** The interpreter of the application; null when it has no Python. */
  python: string | null
  port: number
  graphs: GraphReport[]
  greeted: boolean
  /** Ends the watch of files. */
  end(): Promise<void>
}

/**
 * glibc raises this limit to the size of the first large buffer that is freed, and then keeps later ones for itself: the
 * server held 560 MB after states of 20 MB instead of 240. A fixed limit returns them to the system.
 */
const LIBC = { MALLOC_MMAP_THRESHOLD_: '1048576' }

/** Runs until SIGINT or SIGTERM; throws a UserError when it cannot start. With `json` it prints one line of JSON when it serves. */
export async function start(
  config: Config,
  { json = false, dev = false, tied = false }: StartFlags = {},
): Promise<void> {
  let exit: (code: number) => void = () => {}
  const exited = new Promise<number>(done => (exit = done))
  const run: Start = {
    config,
    json,
    dev,
    hadKey: config.control_key !== '' || existsSync(keyFile(config)),
    say,
    giveUp(error) {
      sayLast(`giving up: ${error.message}`)
      exit(1)
    },
    nats: null,
    roles: null,
    app: null,
    python: null,
    port: config.port,
    graphs: [],
    greeted: false,
    end: async () => {},
  }
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => {
      run.say('stopping')
      exit(0)
      // A second signal ends at once.
      process.once(signal, () => process.exit(1))
    })
  }
  process.once('disconnect', () => exit(0))
  if (tied) process.stdin.once('close', () => exit(0)).resume()

  const started = (async () => {
    for (const step of steps) await step(run)
  })()
  const code = await Promise.race([exited, started.then(() => exited)]).catch(async error => {
    await end(run)
    throw error
  })
  started.catch(() => {})
  await end(run)
  process.exit(code)
}

async function end({ config, nats, roles, end }: Start): Promise<void> {
  await end()
  await roles?.stop(config.stop_ms + 2_000)
  await nats?.stop()
}

/** The image of a deployment may have the default command of ours. */
function checkCommand({ config: { revision } }: Start): void {
  if (revision !== '')
    throw new UserError('this container serves a revision of a deployment: its command must be `weft graphs`', 2)
}

/** A mistyped path is the most common mistake, so it is checked before anything starts. */
function checkApp(run: Start): void {
  run.app = describeApplication(run.config.app)
}

/** The HTTP server would silently share a port that another process uses, so the port is tried here. */
async function checkAddress({ config: { host, port, insecure, require_keys }, app }: Start): Promise<void> {
  if (!isLoopback(host) && !insecure && !require_keys && app?.given.auth == null)
    throw new UserError(
      `${host} can be reached from other machines and callers are not authenticated: set WEFT_REQUIRE_KEYS=1, give the application an "auth", or give --insecure if that is meant`,
      2,
    )
  if (port !== 0 && !(await isFree(host, port)))
    throw new UserError(
      `port ${port} of ${host} is taken or may not be used: stop what uses it, or give another --port`,
    )
}

/** Packages may take minutes to install, so their environment is made here, where the person reads the progress. */
async function preparePython(run: Start): Promise<void> {
  const { app, config, say } = run
  if (!usesPython(app!)) return
  const [{ findPython }, { findHostUser }] = await Promise.all([
    import('../../workers/child/python.js'),
    import('../../workers/child/process.js'),
  ])
  const { withProgress } = await import('../terminal/progress.js')
  const found = withProgress('preparing Python', async ({ update, clear }) =>
    findPython({
      description: app!,
      given: config.python,
      fetchesUv: config.fetch_uv,
      env: process.env,
      user: findHostUser(config.host_user),
      received: update,
      log: line => {
        clear()
        say(`python: ${line}`)
        update(0, 0)
      },
    }),
  )
  const { file, python, library } = await found.catch(error => {
    throw new UserError((error as Error).message)
  })
  run.python = file
  say(`Python ${python} with langgraph ${library} (${file})`)
}

async function startBroker(run: Start): Promise<void> {
  const { config, say, giveUp } = run
  prepareDataFolder(config.data)
  if (config.nats_url !== '') return
  const server = await findNatsServer({ log: say })
  const { WEFT_NATS_MONITOR: monitor } = process.env
  run.nats = await startNatsProcess({
    server,
    data: config.data,
    max_file_store: config.max_file_store,
    ...(monitor ? { monitor: Number(monitor) } : {}),
    log: say,
    onGivenUp: giveUp,
  })
}

async function startRoles(run: Start): Promise<void> {
  const { config, say, giveUp, dev } = run
  const ended: string[] = []
  run.roles = keepRunning({
    name: 'server process',
    log: say,
    // With `dev`, the next change of a file starts it again.
    ...(dev ? {} : { onGivenUp: giveUp }),
    final: [2],
    spawn: () => {
      const child = fork(
        join(import.meta.dirname, '../../programs/roles-main.js'),
        ['edge', 'resources', 'graphs', 'deployer'],
        {
          // The port stays the same after a restart, also when the system chose it. In its own process group: Ctrl-C in a
          // terminal reaches the launcher only.
          env: { ...ownAddress(run), ...LIBC, ...process.env, UWS_HTTP_MAX_HEADERS_SIZE: '16384' },
          stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
          detached: true,
        },
      )
      const instance = randomUUID()
      child.send({ config: { ...config, port: run.port, dev }, instance, ended } satisfies Launch)
      child.once('exit', () => void ended.push(instance))
      run.nats?.outlive(child.pid!)
      return child
    },
    ready: child =>
      new Promise((resolve, reject) => {
        // The roles wait for the code of the application as long as it loads, and say so.
        const late = () =>
          reject(new GivenUp(`it did not start within ${config.start_secs} s; WEFT_START_SECS sets another limit`))
        const timer = setTimeout(late, Math.min(config.start_secs * 1000, 2 ** 31 - 1))
        child.once('exit', () => clearTimeout(timer))
        child.once('message', message => {
          clearTimeout(timer)
          const { port, graphs } = message as Ready
          run.port = port ?? run.port
          run.graphs = graphs
          resolve()
        })
      }),
  })
  await run.roles.start().catch(error => {
    if (!dev) throw error
    say(`${error.message}; waiting for a change`)
  })
}

/** `weft dev`: threads stay in the store, runs that were under way continue from their last checkpoint. */
async function watch(run: Start): Promise<void> {
  const { config, app, dev, say, roles } = run
  if (!dev) return
  const { watchFolder } = await import('./watch.js')
  const { syntaxFault } = await import('./syntax.js')
  let broken: string[] = []
  const watched = watchFolder(app!.folder, config.data, async files => {
    const since = performance.now()
    say(`${files.join(', ')} ${files.length === 1 ? 'has' : 'have'} changed`)
    const faults = new Map<string, string>()
    for (const file of new Set([...broken, ...files])) {
      const fault = await syntaxFault(join(app!.folder, file), run.python)
      if (fault !== null) faults.set(file, fault)
    }
    broken = [...faults.keys()]
    try {
      const changed = describeApplication(config.app)
      if (faults.size > 0) throw new UserError([...faults.values()].join('; '))
      run.app = changed
    } catch (error) {
      return say(`${(error as Error).message}; the version before goes on serving, waiting for a change`)
    }
    await roles!.stop(config.stop_ms + 2_000)
    try {
      await roles!.start()
      if (!run.greeted) await greet(run)
      const failed = run.graphs.flatMap(({ graph_id, error }) => (error === null ? [] : [`${graph_id}: ${error}`]))
      say(
        `reloaded in ${Math.round(performance.now() - since)} ms${failed.length > 0 ? `; not loaded: ${failed.join('; ')}` : ''}`,
      )
    } catch (error) {
      say(`${(error as Error).message}; waiting for a change`)
    }
  })
  run.end = () => watched.close()
  await watched.ready
  say(`watching ${app!.folder} for changes`)
}

/** The server's URL for the metadata of runs, unless the operator has set one. */
const ownAddress = ({ config: { host, public_url }, port }: Start): { LANGGRAPH_API_URL?: string } =>
  public_url !== '' || port === 0 ? {} : { LANGGRAPH_API_URL: urlOf(host, port) }

function urlOf(host: string, port: number): string {
  const shown = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host
  return `http://${shown.includes(':') ? `[${shown}]` : shown}:${port}`
}

const keyFile = ({ data }: Config): string => join(data, 'control.key')

async function greet(run: Start): Promise<void> {
  const { config, json, app, hadKey, port, graphs } = run
  const url = urlOf(config.host, port)
  // With `dev`, after the change that mends it.
  if (run.roles!.child() === null) return
  run.greeted = true
  if (!(await becomesReady(`${url}/ready`))) say(`${url}/ready does not answer 200 yet`)
  process.send?.({ ready: true, port, graphs } satisfies Ready)
  // Settings of the server and of the application switch the console off. With an origin of its own, the server leads there.
  const isServed = [200, 303].includes((await statusOf(`${url}/console`)) ?? 0)
  const console = isServed ? `${config.console_url || url}/console` : null
  const keys = config.require_keys && app!.given.auth == null
  const served = {
    url,
    data: resolve(config.data),
    console: isServed,
    graphs: graphs.map(({ graph_id, error }) => ({ graph_id, error })),
  }
  if (json) return void process.stdout.write(`${JSON.stringify(served)}\n`)
  if (speaksJson()) say('serving', served)
  else process.stdout.write(banner({ app: app!, data: config.data, url, console, graphs, keys }))
  if (hadKey || !existsSync(keyFile(config))) return
  if (speaksJson()) return say('a key of the control plane was created', { file: resolve(keyFile(config)) })
  // A service manager keeps what a program prints, so the key itself is for a terminal only.
  const key = process.stdout.isTTY ? `\n  ${readFileSync(keyFile(config), 'utf8').trim()}` : ''
  process.stdout.write(
    `Key of the control plane (/v2), created now and stored in ${resolve(keyFile(config))}${key}\n\n`,
  )
}

async function becomesReady(url: string): Promise<boolean> {
  const deadline = performance.now() + READY_MS
  while (performance.now() < deadline) {
    if ((await statusOf(url)) === 200) return true
    await sleep(50)
  }
  return false
}

/** Not `fetch`: loading it costs the launcher 15 MB. */
const statusOf = (url: string): Promise<number | undefined> =>
  new Promise(done => {
    const request = get(url, { agent: false, timeout: 5_000 }, response => {
      response.resume()
      done(response.statusCode)
    })
    request.once('timeout', () => request.destroy())
    request.once('error', () => done(undefined))
  })
