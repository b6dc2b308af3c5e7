/**
 * The configuration of the NATS server that Weft starts: the settings that docs/promises.md#power-failures needs, one user
 * per role with its rights (bus/rights.ts), and resource workers as those who know the users of pools (bus/pool-users.ts).
 */
import { randomBytes } from 'node:crypto'
import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Role } from '../../bus/connect.js'
import { newIssuerSeed, openIssuer } from '../../bus/pool-users.js'
import { CROSSINGS, inDomain, POOLS_ACCOUNT, RIGHTS, ROLES_ACCOUNT } from '../../bus/rights.js'
import { readOrCreateSecret } from '../../workers/resources/keys/secret-file.js'

export const ROLES = ['edge', 'resources', 'graphs', 'deployer'] as const satisfies readonly Role[]

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

/** The seed of the issuer of users of pools: a resource worker gets it, and the configuration its public key. */
export const issuerSeedOf = (data: string): string => readOrCreateSecret(join(data, 'nats-issuer.seed'), newIssuerSeed)

export const readPasswords = (data: string): Passwords => JSON.parse(readFileSync(usersFile(data), 'utf8')) as Passwords

export interface NatsConfig {
  data: string
  /** −1 lets the server choose; it then writes the port into a file in `data`. */
  port: number
  max_file_store: number
  /** Port of the server's monitoring pages, which anybody on this machine may read; none when absent. */
  monitor?: number
  /** The cluster of a server beside others. */
  cluster?: NatsClusterMember
}

export interface NatsClusterMember {
  /** The name of this server; each has its own. */
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
  const issuer = openIssuer(issuerSeedOf(folder)).publicKey
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
${cluster === undefined ? '' : clusterText(cluster)}${authorizationText({ passwordOf: role => text(passwords[role]), issuer: text(issuer) })}`,
    { mode: 0o600 },
  )
  return path
}

/** The text of a password, and that of the public key of the issuer: quoted, or variables of the server's environment. */
export interface Secrets {
  passwordOf(role: Role): string
  issuer: string
}

/** The users of the roles, and who knows those of pools (bus/pool-users.ts). `isHub`: leaf nodes connect to the server (leaf.ts). */
export function authorizationText({ passwordOf, issuer }: Secrets, isHub = false): string {
  const { fromPools, toPools, answeredOnce, answeredOften, renamed } = CROSSINGS
  const exported = (kind: 'stream' | 'service', subjects: readonly string[], more = '') =>
    subjects.map(subject => `{ ${kind}: ${text(subject)}${more} }`)
  const imported = (kind: 'stream' | 'service', account: string, subjects: readonly string[]) =>
    subjects.map(subject => `{ ${kind}: { account: ${account}, subject: ${text(subject)} } }`)
  // Pulls of pools at a leaf node arrive under the name of the domain.
  const mapped = isHub ? answeredOften.map(subject => ({ subject, to: inDomain(subject) })) : []
  return `accounts {
  ${ROLES_ACCOUNT} {
    jetstream: enabled
    ${usersText(ROLES_ACCOUNT, passwordOf)}
    ${block('exports', [
      ...exported('stream', toPools),
      ...exported('service', [...answeredOnce, ...renamed.map(({ subject }) => subject)]),
      ...exported('service', answeredOften, ', response_type: stream'),
    ])}
    ${block('imports', imported('stream', POOLS_ACCOUNT, fromPools))}
  }
  ${POOLS_ACCOUNT} {
    ${usersText(POOLS_ACCOUNT, passwordOf)}
    ${block('exports', exported('stream', fromPools))}
    ${block('imports', [
      ...imported('stream', ROLES_ACCOUNT, toPools),
      ...imported('service', ROLES_ACCOUNT, [...answeredOnce, ...answeredOften]),
      ...[...renamed, ...mapped].map(
        ({ subject, to }) => `{ service: { account: ${ROLES_ACCOUNT}, subject: ${text(subject)} }, to: ${text(to)} }`,
      ),
    ])}
  }
}
${calloutText(issuer)}`
}

/** The users of an account. `subjectOf`: what a subject of their rights is called at this server. */
export function usersText(
  account: string,
  passwordOf: Secrets['passwordOf'],
  subjectOf: (subject: string) => string = subject => subject,
): string {
  const subjects = (all: readonly string[]) => list(all.map(subjectOf))
  const userOf = (role: Role) => {
    const { publish, never = [], subscribe } = RIGHTS[role]
    const deny = never.length > 0 ? `, deny: ${subjects(never)}` : ''
    const permissions = `{ publish: { allow: ${subjects(publish)}${deny} }, subscribe: { allow: ${subjects(subscribe)} } }`
    return `{ user: ${role}, password: ${passwordOf(role)}, permissions: ${permissions} }`
  }
  return block('users', ROLES.filter(role => (role === 'graphs') === (account === POOLS_ACCOUNT)).map(userOf))
}

/** Resource workers answer who the users of pools are. */
export const calloutText = (issuer: string): string => `authorization {
  timeout: 5
  auth_callout { issuer: ${issuer}, account: ${ROLES_ACCOUNT}, auth_users: ${list(ROLES)} }
}
`

export const block = (name: string, lines: readonly string[]): string =>
  `${name}: [${lines.map(line => `\n      ${line}`).join('')}\n    ]`

const clusterText = ({ cluster, port, routes, tags = [] }: NatsClusterMember): string => `cluster {
  name: ${text(cluster)}
  listen: "127.0.0.1:${port}"
  routes: ${list(routes.map(route => `nats://127.0.0.1:${route}`))}
}
server_tags: ${list(tags)}
`

const text = (value: string): string => JSON.stringify(value)
const list = (values: readonly string[]): string => `[${values.map(text).join(', ')}]`
