/** The Node.js that executes code of applications: graph hosts, app hosts, and installs, builds and probes of deployments. */
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Log } from '../../bus/log.js'
import type { Config } from '../../schemas/config.js'
import { asUser, type HostUser } from './process.js'

export interface HostNode {
  /** Path of the program. */
  path: string
  /** Its version, such as `v24.11.1`. */
  version: string
  /** The version of its interface for native modules. */
  modules: string
}

/** The oldest that LangGraph and the hosts support. */
const OLDEST_NODE = 20

/**
 * The Node.js at `path`, our own when it is empty. Throws an Error with one sentence when it cannot be executed by the
 * user of hosts (our own may be in a folder of root), is not Node.js, or is too old.
 */
export function findHostNode(path: string, user: HostUser | null, setting = 'WEFT_HOST_NODE'): HostNode {
  if (path === '') return ownNode(user)
  let versions: Versions
  try {
    versions = versionsOf(path, user)
  } catch {
    throw new Error(`${setting}: ${path} is no Node.js that ${user?.name ?? 'this user'} can execute`)
  }
  const { node, modules } = versions
  if (!(Number.parseInt(`${node}`, 10) >= OLDEST_NODE))
    throw new Error(`${setting}: ${path} is Node.js ${node}; graph hosts need ${OLDEST_NODE} or newer`)
  return { path, version: `v${node}`, modules: `${modules}` }
}

function ownNode(user: HostUser | null): HostNode {
  const { execPath: path, version, versions } = process
  try {
    if (user !== null) versionsOf(path, user)
  } catch {
    throw new Error(
      `WEFT_HOST_USER: ${user!.name} cannot execute ${path}, the Node.js of Weft; WEFT_HOST_NODE names one that it can`,
    )
  }
  return { path, version, modules: versions.modules }
}

interface Versions {
  node?: unknown
  modules?: unknown
}

/** Programs that have answered: the roles of one process ask the same program, and each answer blocks its event loop for 50 ms. */
const answered = new Map<string, Versions>()

function versionsOf(path: string, user: HostUser | null): Versions {
  const key = `${user?.uid} ${path}`
  const known = answered.get(key)
  if (known !== undefined) return known
  const options = { ...asUser(user), cwd: '/', env: {}, encoding: 'utf8', stdio: 'pipe', timeout: 10_000 } as const
  const versions = JSON.parse(execFileSync(path, ['-p', 'JSON.stringify(process.versions)'], options)) as Versions
  answered.set(key, versions)
  return versions
}

/**
 * WEFT_HOST_NODE, else WEFT_NEWEST_NODE unless packages of the application were compiled, which only the Node.js can load
 * that they were compiled for; else our own. `app`: the file or folder of an application whose packages are installed
 * already. Throws as `findHostNode` for WEFT_HOST_NODE.
 */
export function chooseHostNode(
  { host_node, newest_node }: Pick<Config, 'host_node' | 'newest_node'>,
  user: HostUser | null,
  log: Log,
  app?: string,
): HostNode {
  if (host_node === '' && newest_node !== '') {
    const compiled = app === undefined ? null : compiledPackage(app)
    if (compiled !== null)
      log.info(
        { package: compiled },
        `graph hosts run on the Node.js of Weft, because a package of the application is compiled; WEFT_HOST_NODE names another one`,
      )
    else
      try {
        return chosen(findHostNode(newest_node, user, 'WEFT_NEWEST_NODE'), log)
      } catch (error) {
        log.warn(`graph hosts run on the Node.js of Weft: ${(error as Error).message}`)
      }
  }
  const found = findHostNode(host_node, user)
  return host_node === '' ? found : chosen(found, log)
}

function chosen(node: HostNode, log: Log): HostNode {
  log.info({ version: node.version, path: node.path }, 'graph hosts run on this Node.js')
  return node
}

/** A package that npm has compiled, of those that the application can import; null: none. */
function compiledPackage(app: string): string | null {
  for (let folder = app; ; folder = dirname(folder)) {
    const found = compiledIn(join(folder, 'node_modules'))
    if (found !== null || folder === dirname(folder)) return found
  }
}

/** Packages whose importers do without them: this one makes ssh2 faster, which the client of Docker brings. */
const DISPENSABLE: ReadonlySet<string> = new Set(['cpu-features'])

/** pnpm has the packages in folders of their own. */
function compiledIn(folder: string): string | null {
  for (const name of existsSync(folder) ? readdirSync(folder) : []) {
    const path = join(folder, name)
    if (existsSync(join(path, 'binding.gyp')) && !DISPENSABLE.has(name)) return name
    const inner = name.startsWith('@')
      ? [path]
      : name === '.pnpm'
        ? readdirSync(path).map(one => join(path, one, 'node_modules'))
        : []
    for (const one of inner) {
      const found = compiledIn(one)
      if (found !== null) return found
    }
  }
  return null
}
