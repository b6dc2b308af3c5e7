/** The checks of `weft doctor`, in the order of its output. */
import { execFile } from 'node:child_process'
import { accessSync, constants, existsSync, statfsSync, statSync } from 'node:fs'
import { get } from 'node:http'
import { connect } from 'node:net'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { type Config, isEmbedded, SETTINGS } from '../../schemas/config.js'
import { usesPython } from '../../schemas/description.js'
import type { Sample } from '../../schemas/metrics.js'
import { canServe, HTTP_NODE } from '../http-runtime.js'
import { isFree } from '../ports.js'
import { describeApplication } from './application.js'

export interface Finding {
  /** note: it works, but not everything, or not in production. */
  state: 'ok' | 'note' | 'wrong'
  found: string
  /** The advice. */
  help?: string
}

type Check = (config: Config) => Promise<Finding>

const run = promisify(execFile)
const ok = (found: string): Finding => ({ state: 'ok', found })
const note = (found: string, help: string): Finding => ({ state: 'note', found, help })
const wrong = (found: string, help: string): Finding => ({ state: 'wrong', found, help })

/** The first line of a program's output; null when it does not run. */
async function lineOf(command: string, ...args: string[]): Promise<string | null> {
  try {
    const { stdout, stderr } = await run(command, args, { timeout: 10_000 })
    return (stdout || stderr).trim().split('\n')[0]!
  } catch {
    return null
  }
}

async function node(): Promise<Finding> {
  // check-node.ts has refused the others.
  const found = `${process.versions.node} on ${process.platform} ${process.arch}`
  if (canServe()) return ok(found)
  const { findNode } = await import('../../workers/npm-package.js')
  if (findNode(HTTP_NODE, process.env) !== null) return ok(`${found}; the HTTP server runs on Node.js ${HTTP_NODE}`)
  return note(found, `The HTTP server runs on Node.js ${HTTP_NODE}, which the first start downloads.`)
}

async function application({ app }: Config): Promise<Finding> {
  try {
    const { graphs, path } = describeApplication(app)
    return ok(`${path}: ${graphs.map(({ graph_id }) => graph_id).join(', ')}`)
  } catch (error) {
    const { message } = error as Error
    if (/there is no application/.test(message)) {
      const report = app === SETTINGS.app.default ? note : wrong
      return report(`none at ${resolve(app)}`, 'Name one with --app, or make one with `weft new <folder>`.')
    }
    return wrong(message, 'Correct langgraph.json: docs/application.md has its keys.')
  }
}

async function python({ app, python }: Config): Promise<Finding> {
  const isNeeded = existsSync(app) && usesPython(describeApplication(app))
  const report = isNeeded ? wrong : note
  const program = python || 'python3'
  const found = await lineOf(program, '-c', 'import platform; print(platform.python_version())')
  if (found === null)
    return report(`${program} does not run`, 'Install Python 3.11 or newer: graphs in Python need it.')
  const [major = 0, minor = 0] = found.split('.').map(Number)
  if (major < 3 || (major === 3 && minor < 11))
    return report(`${found} is too old`, 'Install Python 3.11 or newer, or name one with WEFT_PYTHON.')
  if (
    !python &&
    !(await lineOf('uv', '--version')) &&
    !(await lineOf(program, '-c', 'import venv, ensurepip; print(1)'))
  )
    return report(`${found} without venv`, 'Install python3-venv, or uv: Weft makes an environment per application.')
  return ok(found)
}

async function nats({ nats_url, data }: Config): Promise<Finding> {
  if (nats_url !== '') return natsAt(nats_url)
  const { findNatsServer, versionOf } = await import('../nats/server.js')
  const path = await findNatsServer({ download: false }).catch((error: Error) => error)
  if (path instanceof Error && process.env.WEFT_NATS_SERVER)
    return wrong(path.message, 'Correct WEFT_NATS_SERVER, or unset it.')
  if (path instanceof Error)
    return note(
      'none yet',
      'The first `weft start` downloads one; without internet access put nats-server 2.12 on PATH.',
    )
  const running = existsSync(join(data, 'nats-server.json')) ? '' : ', not started on this data folder yet'
  return ok(`${await versionOf(path)} (${path})${running}`)
}

/** A NATS server greets each client with its version and what it offers. */
async function natsAt(address: string): Promise<Finding> {
  const { hostname, port, host } = new URL(address.split(',')[0]!)
  const greeting = await new Promise<string | null>(done => {
    const socket = connect(Number(port || 4222), hostname.replace(/^\[|\]$/g, ''))
    const end = (text: string | null) => {
      socket.destroy()
      done(text)
    }
    socket.setTimeout(3_000, () => end(null))
    socket.once('data', part => end(`${part}`))
    socket.once('error', () => end(null))
  })
  if (greeting === null || !greeting.startsWith('INFO '))
    return wrong(`no NATS server answers at ${host}`, 'Start it, or correct NATS_URL.')
  const { version = '0', jetstream } = JSON.parse(greeting.slice(5).split('\r\n')[0]!) as {
    version?: string
    jetstream?: boolean
  }
  const { isNewEnough } = await import('../nats/server.js')
  if (!isNewEnough(version)) return wrong(`${version} at ${host} is too old`, 'Weft needs nats-server 2.12 or newer.')
  if (!jetstream) return wrong(`${version} at ${host} without JetStream`, 'Start it with JetStream (-js).')
  return ok(`${version} at ${host}`)
}

async function store({ database_uri, mongodb_url, data }: Config): Promise<Finding> {
  if (database_uri !== '') {
    const { describePostgres } = await import('../../store/postgres/describe.js')
    const { version, isDurable, vectors, needsExtension } = await describePostgres(database_uri)
    if (!isDurable)
      return note(`PostgreSQL ${version}, fsync or synchronous_commit is off`, 'A crash loses what was answered.')
    const text = `PostgreSQL ${version}, ${vectors}`
    if (needsExtension) return note(text, 'For vector search run CREATE EXTENSION vector as one who may.')
    return ok(text)
  }
  if (mongodb_url !== '') {
    const { describeMongo } = await import('../../store/mongo/describe.js')
    const { version, isReplicated } = await describeMongo(mongodb_url)
    if (!isReplicated) return note(`MongoDB ${version}, one server`, 'Use a replica set in production.')
    return ok(`MongoDB ${version}`)
  }
  const file = join(data, 'weft.db')
  if (!existsSync(file)) return ok(`none in ${resolve(data)} yet`)
  const { checkDatabase } = await import('../../store/sqlite/backup.js')
  const { schema_version, bytes } = await checkDatabase(file)
  return ok(`SQLite in ${resolve(file)}, ${(bytes / 1e6).toFixed(1)} MB, schema ${schema_version}, sound`)
}

/** File systems over a network: locks and fsync of SQLite do not hold there. */
const NETWORK: { readonly [type: number]: string } = {
  26985: 'NFS',
  20859: 'SMB',
  4266872130: 'SMB',
  4283649346: 'CIFS',
}
const GB = 1024 ** 3

async function disk({ data, ...config }: Config): Promise<Finding> {
  const folder = existing(resolve(data))
  const { bavail, bsize, type } = statfsSync(folder)
  const free = bavail * bsize
  const text = `${(free / GB).toFixed(1)} GB free for ${resolve(data)}`
  try {
    accessSync(folder, constants.W_OK)
  } catch {
    return wrong(`${folder} cannot be written`, 'Give Weft a folder of its own user, by --data or WEFT_DATA.')
  }
  const network = NETWORK[type >>> 0]
  if (network !== undefined && isEmbedded(config))
    return wrong(`${resolve(data)} is on ${network}`, 'The embedded store needs a local disk: give another --data.')
  if (free < 0.1 * GB) return wrong(text, 'Free some space: the store refuses writes on a full disk.')
  if (free < GB) return note(text, 'Weft and its broker may need 6 GB for stored events.')
  if (existsSync(data) && (statSync(data).mode & 0o077) !== 0)
    return note(`${text}; other users may read it`, `It holds keys: chmod 700 ${data}`)
  return ok(text)
}

const existing = (folder: string): string => (existsSync(folder) ? folder : existing(dirname(folder)))

async function clock(): Promise<Finding> {
  const synchronized = await lineOf('timedatectl', 'show', '-p', 'NTPSynchronized', '--value')
  if (synchronized === 'yes') return ok('synchronised')
  const help = 'Run NTP where roles are on several machines: beyond 2 s a resource worker fires no cron.'
  if (synchronized === 'no') return note('not synchronised', help)
  return note('cannot be checked here', help)
}

async function port({ host, port }: Config): Promise<Finding> {
  if (port === 0 || (await isFree(host, port))) return ok(port === 0 ? 'any' : `${port} of ${host} is free`)
  const url = `http://${addressOf(host)}:${port}`
  const info = await jsonAt(`${url}/info`)
  if (typeof info?.version === 'string')
    return versionsAt(url, `a server answers at ${port} of ${host} (${info.version})`)
  // An application may have a prefix, or no /info.
  if ((await jsonAt(`${url}/ok`))?.ok === true) return ok(`a server answers at ${port} of ${host}`)
  return wrong(`${port} of ${host} is taken`, 'Stop what uses it, or choose another --port.')
}

/** The versions of all processes of the cluster, as an edge collects them. */
async function versionsAt(url: string, found: string): Promise<Finding> {
  const samples = ((await jsonAt(`${url}/metrics?format=json`))?.samples ?? []) as Sample[]
  const builds = samples.flatMap(({ name, labels }) => (name === 'weft_build_info' && labels ? [labels] : []))
  const roles = new Map<string, Set<string>>()
  for (const { role = '', version = '' } of builds) roles.set(role, (roles.get(role) ?? new Set()).add(version))
  if (new Set(builds.map(({ version }) => version)).size <= 1) return ok(found)
  const text = [...roles].map(([role, versions]) => `${role} ${[...versions].sort().join(' and ')}`).join(', ')
  return note(`${found}; its cluster has ${text}`, 'Finish the upgrade: versions work together for one step only.')
}

/** Where a server that listens on this address is reached from here. */
function addressOf(host: string): string {
  const reached = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
  return reached.includes(':') ? `[${reached}]` : reached
}

interface Answer {
  version?: unknown
  ok?: unknown
  samples?: unknown
}

/** The answer as an object; null when none comes within 3 s. */
function jsonAt(url: string): Promise<Answer | null> {
  return new Promise(done => {
    const request = get(url, { agent: false, timeout: 3_000 }, async answer => {
      const text = Buffer.concat(await answer.toArray()).toString()
      done(text.startsWith('{') ? (JSON.parse(text) as Answer) : null)
    })
    request.once('timeout', () => request.destroy())
    request.once('error', () => done(null))
  })
}

const FILES = 4_096

async function files(): Promise<Finding> {
  const limit = await lineOf('sh', '-c', 'ulimit -n')
  if (limit === null || limit === 'unlimited' || Number(limit) >= FILES) return ok(limit ?? 'not limited')
  return note(
    `${limit}`,
    `Each stream is one: raise it (ulimit -n ${FILES}, LimitNOFILE= of systemd) for many clients.`,
  )
}

async function git(): Promise<Finding> {
  const version = await lineOf('git', '--version')
  if (version === null) return note('not installed', 'Deployments are fetched with git: install it to use them.')
  return ok(version.replace('git version ', ''))
}

export const CHECKS: { readonly [name: string]: Check } = {
  'Node.js': node,
  application,
  Python: python,
  NATS: nats,
  store,
  disk,
  clock,
  port,
  'open files': files,
  git,
}
