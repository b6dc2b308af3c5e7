/**
 * `weft start`: a thin parent that never works itself. It starts the NATS server and one process with the roles, starts
 * again what dies, and ends both in order. Imports neither the HTTP server nor the broker's client nor a database.
 */
import { fork } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, statSync } from 'node:fs'
import { get } from 'node:http'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Config, SETTINGS } from '../../schemas/config.js'
import { type Kept, keep } from '../keep.js'
import { isFree, type NatsProcess, startNatsProcess } from '../nats/process.js'
import { findNatsServer } from '../nats/server.js'
import { Sentence } from '../sentence.js'
import type { Ready } from './roles.js'

/** How long the roles may take to say that they are started. Large applications load for a while. */
const START_MS = 60_000
const READY_MS = 30_000
const LOOPBACK = /^(127\.\d+\.\d+\.\d+|::1|localhost)$/

const steps = [checkApp, checkAddress, startBroker, startRoles, greet] as const

interface Start {
  config: Config
  /** There was a key of the control plane before this start. */
  hadKey: boolean
  say(line: string): void
  giveUp(error: Error): void
  nats: NatsProcess | null
  roles: Kept | null
  port: number
}

/** Runs until SIGINT or SIGTERM; throws a Sentence when it cannot start. */
export async function start(config: Config): Promise<void> {
  let leave: (code: number) => void = () => {}
  const left = new Promise<number>(done => (leave = done))
  const given: Start = {
    config,
    hadKey: config.control_key !== '' || existsSync(keyFile(config)),
    say: line => void process.stderr.write(`weft: ${line}\n`),
    giveUp(error) {
      given.say(`giving up: ${error.message}`)
      leave(1)
    },
    nats: null,
    roles: null,
    port: config.port,
  }
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => {
      given.say('stopping')
      leave(0)
      // A second one means: now.
      process.once(signal, () => process.exit(1))
    })
  }
  process.once('disconnect', () => leave(0))

  const started = (async () => {
    for (const step of steps) await step(given)
  })()
  const code = await Promise.race([left, started.then(() => left)]).catch(async error => {
    await end(given)
    throw error
  })
  started.catch(() => {})
  await end(given)
  process.exit(code)
}

async function end({ config, nats, roles }: Start): Promise<void> {
  await roles?.stop(config.stop_ms + 2_000)
  await nats?.stop()
}

/** A mistyped path is the most common mistake: said before anything is started. */
function checkApp({ config }: Start): void {
  const given = resolve(config.app)
  const path = statSync(given, { throwIfNoEntry: false })?.isDirectory() ? join(given, 'langgraph.json') : given
  if (!existsSync(path))
    throw new Sentence(
      `there is no application at ${path}: expected a langgraph.json (--app path/to/langgraph.json)`,
      2,
    )
  let graphs: unknown
  try {
    graphs = (JSON.parse(readFileSync(path, 'utf8')) as { graphs?: unknown } | null)?.graphs
  } catch (error) {
    throw new Sentence(`${path} is not valid JSON: ${(error as Error).message}`, 2)
  }
  if (typeof graphs !== 'object' || graphs === null || Object.keys(graphs).length === 0)
    throw new Sentence(`${path} names no graphs: expected {"graphs": {"agent": "./agent.ts:graph"}}`, 2)
}

/** The HTTP server shares a taken port with its owner silently, so it is tried here. */
async function checkAddress({ config: { host, port, insecure } }: Start): Promise<void> {
  if (!LOOPBACK.test(host) && !insecure)
    throw new Sentence(
      `${host} can be reached from other machines and no keys are configured: give --insecure if that is meant`,
      2,
    )
  if (port !== 0 && !(await isFree(host, port)))
    throw new Sentence(`port ${port} of ${host} is taken or may not be used: stop what uses it, or give another --port`)
}

async function startBroker(given: Start): Promise<void> {
  const { config, say, giveUp } = given
  mkdirSync(config.data, { recursive: true, mode: 0o700 })
  if (config.nats_url !== '') return
  const server = await findNatsServer({ log: say })
  const { WEFT_NATS_MONITOR: monitor } = process.env
  given.nats = await startNatsProcess({
    server,
    data: config.data,
    max_file_store: config.max_file_store,
    ...(monitor ? { monitor: Number(monitor) } : {}),
    log: say,
    onGivenUp: giveUp,
  })
}

async function startRoles(given: Start): Promise<void> {
  const { config, say, giveUp } = given
  given.roles = keep({
    name: 'server process',
    log: say,
    onGivenUp: giveUp,
    final: [2],
    spawn: () =>
      fork(join(import.meta.dirname, 'roles-main.js'), ['edge', 'resources', 'graphs', 'deployer'], {
        // After a restart at the same port, also when the system chose it. A group of its own: Ctrl-C is for us.
        env: {
          ...ownAddress(given),
          ...process.env,
          ...variablesOf({ ...config, port: given.port }),
          UWS_HTTP_MAX_HEADERS_SIZE: '16384',
        },
        stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
        detached: true,
      }),
    ready: child =>
      new Promise((resolve, reject) => {
        const timer = setTimeout(() => reject(new Error(`it did not start within ${START_MS / 1000} s`)), START_MS)
        child.once('exit', () => clearTimeout(timer))
        child.once('message', message => {
          clearTimeout(timer)
          given.port = (message as Ready).port ?? given.port
          resolve()
        })
      }),
  })
  await given.roles.start()
}

/** What runs are told of where they are, unless the operator has said it. */
const ownAddress = ({ config: { host, public_url }, port }: Start): { LANGGRAPH_API_URL?: string } =>
  public_url !== '' || port === 0 ? {} : { LANGGRAPH_API_URL: urlOf(host, port) }

function urlOf(host: string, port: number): string {
  const shown = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host
  return `http://${shown.includes(':') ? `[${shown}]` : shown}:${port}`
}

/** The settings as a child process reads them. */
function variablesOf(config: Config): { [name: string]: string } {
  const names = Object.keys(SETTINGS) as (keyof Config)[]
  return Object.fromEntries(names.map(name => [SETTINGS[name].env, `${config[name]}`]))
}

/** The first graph of the application; the example's own when it cannot be told. */
function firstGraph(app: string): string {
  try {
    const file = statSync(app).isDirectory() ? join(app, 'langgraph.json') : app
    const { graphs } = JSON.parse(readFileSync(file, 'utf8')) as { graphs: object }
    return Object.keys(graphs)[0] ?? 'agent'
  } catch {
    return 'agent'
  }
}

const keyFile = ({ data }: Config): string => join(data, 'control.key')

async function greet({ config, hadKey, port, say }: Start): Promise<void> {
  const url = urlOf(config.host, port)
  if (!(await answers(`${url}/ready`))) say(`${url}/ready does not say 200 yet; going on`)
  process.send?.({ ready: true, port } satisfies Ready)
  process.stdout.write(`
Weft serves ${resolve(config.app)}
at ${url} (data in ${resolve(config.data)}; Ctrl-C stops it)

A streamed run:
  curl -N ${url}/runs/stream -H 'content-type: application/json' -d '{"assistant_id":${JSON.stringify(firstGraph(config.app))},"input":{"messages":[{"role":"user","content":"Tell me a story"}]},"stream_mode":"messages-tuple","stream_resumable":true,"on_disconnect":"continue"}'
Interrupt it with Ctrl-C, then go on where you were (the run's id is in its first event):
  curl -N ${url}/runs/RUN_ID/stream -H 'last-event-id: LAST_ID_YOU_SAW'

`)
  // Once: whoever can read the terminal's history later needs no key in it.
  if (!hadKey && existsSync(keyFile(config)))
    process.stdout.write(`Key of the control plane (/v2), made now and kept in ${resolve(keyFile(config))}:
  ${readFileSync(keyFile(config), 'utf8').trim()}

`)
}

async function answers(url: string): Promise<boolean> {
  const deadline = Date.now() + READY_MS
  while (Date.now() < deadline) {
    if ((await statusOf(url)) === 200) return true
    await sleep(50)
  }
  return false
}

/** Not fetch: loading it costs the launcher 15 MB for good. */
const statusOf = (url: string): Promise<number | undefined> =>
  new Promise(done => {
    const request = get(url, { agent: false, timeout: 5_000 }, answer => {
      answer.resume()
      done(answer.statusCode)
    })
    request.once('timeout', () => request.destroy())
    request.once('error', () => done(undefined))
  })
