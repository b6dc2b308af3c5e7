/**
 * The configuration of the NATS server that Weft starts: reliability's settings, and one user per role, which may publish
 * and subscribe to the subjects of that role's code and no others. A role that answers another may publish to its inbox;
 * `allow_responses` is not used (it allows one answer per request).
 */
import { randomBytes } from 'node:crypto'
import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Role } from '../../bus/connect.js'

export const ROLES = ['edge', 'resources', 'graphs', 'deployer'] as const satisfies readonly Role[]

interface Rights {
  publish: string[]
  /** Of what `publish` allows. */
  never?: string[]
  subscribe: string[]
}

/** A call to any worker of its queue group, to all of them, or to one. */
const calls = (noun: string, ...verbs: string[]) =>
  verbs.flatMap(verb => [`rpc.${noun}.${verb}`, `rpc.${noun}.${verb}.*`])

/** Orders, and the secrets that come with them: for deploy workers alone. */
const DEPLOYER = calls('deployments', 'claim', 'renew', 'advance', 'log', 'active', 'env', 'source', 'source_part')

/** The questions of edges that the app host beside a graph worker answers. */
const APP_HOST = ['host.*.check', 'host.*.check.*']

export const RIGHTS: { [role in Role]: Rights } = {
  edge: {
    publish: [
      'rpc.>',
      ...APP_HOST,
      'tunnel.graphs.>',
      'tunnel.resources.>',
      'ctl.run.*',
      'event.metrics.asked',
      '$JS.API.DIRECT.GET.EVENTS',
      '_INBOX_resources.>',
    ],
    never: [...DEPLOYER, ...calls('assistants', 'register', 'retire')],
    subscribe: ['_INBOX_edge.>', 'tunnel.edge.>', 'live.*', 'end.*', 'event.>'],
  },
  resources: {
    publish: [
      '_INBOX_edge.>',
      '_INBOX_graphs.>',
      '_INBOX_resources.>',
      '_INBOX_deployer.>',
      'end.*',
      'ctl.>',
      'event.>',
      'deploy.task.*.*',
      'queue.*',
      'chunk.$probe.0',
      'host.>',
      'slots.*',
      'tunnel.edge.>',
      'tunnel.graphs.>',
      'rpc.>',
      '$JS.API.>',
    ],
    subscribe: ['_INBOX_resources.>', 'rpc.>', 'event.>', 'tunnel.resources.>'],
  },
  graphs: {
    publish: [
      ...calls('runs', 'claim', 'heartbeat', 'stream_full', 'finish', 'release'),
      ...calls('checkpoints', 'save', 'get', 'list'),
      ...calls('items', 'batch'),
      ...calls('assistants', 'register'),
      '_INBOX_resources.>',
      '_INBOX_edge.>',
      'tunnel.edge.>',
      'tunnel.resources.>',
      'chunk.*.*',
      'live.*',
      'event.replicas.beat',
      '$JS.API.CONSUMER.MSG.NEXT.RUNS.*',
      '$JS.API.CONSUMER.INFO.RUNS.*',
      '$JS.ACK.RUNS.>',
    ],
    subscribe: ['_INBOX_graphs.>', 'ctl.run.*', 'ctl.worker.*', 'event.>', 'host.>', 'slots.*', 'tunnel.graphs.>'],
  },
  deployer: {
    publish: [
      ...DEPLOYER,
      ...calls('assistants', 'retire'),
      '_INBOX_resources.>',
      '_INBOX_edge.>',
      '$JS.API.CONSUMER.INFO.RUNS.*',
    ],
    // The subjects of pools wake revisions that have no replica.
    subscribe: ['_INBOX_deployer.>', 'deploy.task.>', 'event.>', 'queue.*', 'host.*.*', 'tunnel.graphs.open.*'],
  },
}

export type Passwords = { [role in Role]: string }

const usersFile = (data: string): string => join(data, 'nats-users.json')

/** The roles' passwords, made at the first start; the file is readable by its owner only. */
export function passwordsOf(data: string): Passwords {
  try {
    return readPasswords(data)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  mkdirSync(data, { recursive: true, mode: 0o700 })
  const made = Object.fromEntries(ROLES.map(role => [role, randomBytes(24).toString('base64url')]))
  const draft = `${usersFile(data)}.${process.pid}`
  writeFileSync(draft, `${JSON.stringify(made, null, 2)}\n`, { mode: 0o600 })
  try {
    // A link does not replace: when two starts meet here, both use the first file.
    linkSync(draft, usersFile(data))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    rmSync(draft)
  }
  return readPasswords(data)
}

export const readPasswords = (data: string): Passwords => JSON.parse(readFileSync(usersFile(data), 'utf8')) as Passwords

export interface NatsConfig {
  data: string
  /** −1 lets the server choose; it then writes the port into a file in `data`. */
  port: number
  max_file_store: number
  /** Port of the server's monitoring pages, which anybody on this machine may read; none when absent. */
  monitor?: number
  /** Of a server beside others. */
  cluster?: NatsClusterMember
}

export interface NatsClusterMember {
  /** Of this server; each has its own. */
  server_name: string
  cluster: string
  /** Port of 127.0.0.1 for the other servers. */
  port: number
  /** Such ports of all servers. */
  routes: readonly number[]
  tags?: readonly string[]
}

/** Writes `<data>/nats.conf` (it holds the passwords: mode 0600) and returns its path. */
export function writeNatsConfig({ data, port, max_file_store, monitor, cluster }: NatsConfig): string {
  const folder = resolve(data)
  const passwords = passwordsOf(folder)
  const users = ROLES.map(role => {
    const { publish, never = [], subscribe } = RIGHTS[role]
    const deny = never.length > 0 ? `, deny: ${list(never)}` : ''
    const permissions = `{ publish: { allow: ${list(publish)}${deny} }, subscribe: { allow: ${list(subscribe)} } }`
    return `    { user: ${role}, password: ${text(passwords[role])}, permissions: ${permissions} }`
  })
  const path = join(folder, 'nats.conf')
  rmSync(path, { force: true })
  writeFileSync(
    path,
    `listen: "127.0.0.1:${port}"
server_name: ${cluster?.server_name ?? 'weft'}
pid_file: ${text(join(folder, 'nats-server.pid'))}
${port === -1 ? `ports_file_dir: ${text(folder)}\n` : ''}log_file: ${text(join(folder, 'nats-server.log'))}
logfile_size_limit: 10MB
logfile_max_num: 2
${monitor === undefined ? '' : `http: "127.0.0.1:${monitor}"\n`}max_payload: 1MB
max_pending: 64MB
write_deadline: "10s"
ping_interval: "20s"
ping_max: 2
jetstream {
  store_dir: ${text(join(folder, 'nats'))}
  sync_interval: 1s
  max_file_store: ${max_file_store}
  max_memory_store: 256MB
}
${cluster === undefined ? '' : clusterText(cluster)}authorization {
  timeout: 5
  users: [
${users.join('\n')}
  ]
}
`,
    { mode: 0o600 },
  )
  return path
}

const clusterText = ({ cluster, port, routes, tags = [] }: NatsClusterMember): string => `cluster {
  name: ${text(cluster)}
  listen: "127.0.0.1:${port}"
  routes: ${list(routes.map(route => `nats://127.0.0.1:${route}`))}
}
server_tags: ${list(tags)}
`

const text = (value: string): string => JSON.stringify(value)
const list = (values: readonly string[]): string => `[${values.map(text).join(', ')}]`
