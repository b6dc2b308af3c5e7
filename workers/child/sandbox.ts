/**
 * Children with code of applications in a sandbox (WEFT_HOST_SANDBOX, decisions 099 and 117): bubblewrap starts them in
 * namespaces of their own. They see the system's programs, Weft's programs, the interpreter and the files of the
 * application, all read-only; a private temporary folder; and their own processes. They see no other file: not the data
 * folder, wherever it lies, and no home. Installs and builds of deployments see less, and may change what is built.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, statSync } from 'node:fs'
import { delimiter, dirname, isAbsolute, join, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { APP_SOCKET } from '../../schemas/app-host.js'
import type { Config } from '../../schemas/config.js'
import { BUBBLEWRAP, CLOSED, NAMESPACES, type Network, SYSTEM, wrap } from './bubblewrap.js'
import { isBelow, prefixesOf } from './paths.js'
import { asUser, type HostUser, inheritedEnv } from './process.js'

export interface Sandbox {
  namespaces: readonly string[]
  /** Absolute paths that no child sees: the data folder. */
  hidden: readonly string[]
  /** Files of the operator that all children see: certificates. */
  shared: readonly string[]
  network: Network
  /** Null: the application belongs to the operator, who may keep packages and interpreters beside its files. */
  deployed: DeployedFiles | null
}

/** An application whose files and variables are from somebody else: nothing in them decides what is shown. */
export interface DeployedFiles {
  /** The root of its files. */
  tree: string
  /** The Python that its environment is made of; null without one. */
  python: string | null
}

/** A program, and the variables that it starts with. */
export interface Started {
  command: string
  args: string[]
  env: Env
}

type Env = { [name: string]: string | undefined }

/** Paths of Weft's package: its programs, the Python host, and its dependencies. */
const WEFT = fileURLToPath(new URL('../../..', import.meta.url))
/** Variables of the operator that name certificates. */
const CERTIFICATES = ['NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'SSL_CERT_DIR', 'REQUESTS_CA_BUNDLE']

/** Null without a sandbox; else one without a network. Throws an Error with one sentence: an unknown name, or bubblewrap cannot be started here. */
export function findSandbox(
  { host_sandbox, data }: Pick<Config, 'host_sandbox' | 'data'>,
  user: HostUser | null,
): Sandbox | null {
  if (host_sandbox === '') return null
  if (host_sandbox !== 'bubblewrap')
    throw new Error(`WEFT_HOST_SANDBOX: expected bubblewrap or nothing, not ${host_sandbox}`)
  const attempt = (namespaces: readonly string[]) => {
    const words = [...namespaces, '--ro-bind', '/', '/', 'true']
    return spawnSync(BUBBLEWRAP, words, { ...asUser(user), cwd: '/', encoding: 'utf8' })
  }
  const isClosed = attempt([...NAMESPACES, ...CLOSED]).status === 0
  const namespaces = [...NAMESPACES, ...(isClosed ? CLOSED : [])]
  const { error, status, stderr } = attempt(namespaces)
  if (error !== undefined)
    throw new Error('WEFT_HOST_SANDBOX: bwrap was not found; install bubblewrap, as with apt-get install bubblewrap')
  if (status !== 0)
    throw new Error(
      `WEFT_HOST_SANDBOX: bubblewrap cannot make a sandbox here (${stderr.trim()}); it needs user namespaces`,
    )
  const ours = inheritedEnv()
  const shared = CERTIFICATES.flatMap(name => existing(ours[name] ?? ''))
  return { namespaces, hidden: [resolve(data)], shared, network: 'off', deployed: null }
}

const HOME = '/tmp/home'

export interface Sandboxed {
  /** Absolute path of langgraph.json. */
  app: string
  /** Where it starts; the folder of langgraph.json when absent. */
  cwd?: string
  command: string
  args: readonly string[]
  /** Its variables. */
  env: Env
  /** Variables among them that are from Weft: it may use the sockets and the interpreter that they name. */
  own: { readonly [name: string]: string }
}

/** Starts a host, or another program that loads the application, in the sandbox. */
export function inSandbox(
  { namespaces, hidden, shared, network, deployed }: Sandbox,
  { app, cwd = dirname(app), command, args, env, own }: Sandboxed,
): Started {
  const interpreters = [command, own.WEFT_APP_PYTHON ?? ''].filter(each => !isIn(deployed?.tree, each))
  const files =
    deployed === null
      ? [...repositoryOf(dirname(app)), ...(env.VIRTUAL_ENV ? [env.VIRTUAL_ENV] : [])]
      : [deployed.tree, ...prefixesOf(deployed.python ?? '')]
  const view = {
    namespaces,
    cwd,
    command,
    args,
    readable: [...files, ...installedAt(WEFT), ...interpreters.flatMap(prefixesOf), ...shared],
    // The rest of that folder stays ours: we connect to what is in it.
    writable: own.WEFT_APP_SOCKETS === undefined ? [] : [join(own.WEFT_APP_SOCKETS, dirname(APP_SOCKET))],
    hidden,
    sockets: [own.WEFT_LOOPBACK, own.WEFT_APP_SOCKETS].filter(path => path !== undefined),
    env: { HOME, TMPDIR: '/tmp', XDG_CACHE_HOME: `${HOME}/.cache` },
    network,
  }
  return startOf(view, env)
}

export interface BuildFiles {
  /** Folders that it may change: the files that are built, the home of the deployment, its temporary folder. */
  writable: readonly string[]
  /** Programs outside of the system's folders whose installations it sees: Node.js, Python, uv. */
  programs: readonly string[]
  /** Names of the variables by which the operator names further files. */
  named: readonly string[]
}

/** Settings of installers for the whole machine. */
const INSTALLERS = ['/etc/gitconfig', '/etc/npmrc', '/etc/pip.conf', '/etc/uv', '/etc/xdg/pip', '/etc/yarnrc']
/** Caches that several deployments would share: one could change what another one installs. Theirs are in their homes. */
const CACHES = /^((npm|NPM)_(config_cache|CONFIG_CACHE)|PIP_CACHE_DIR|UV_CACHE_DIR|YARN_(CACHE|GLOBAL)_FOLDER|XDG_.*)$/

/** How the commands of one build start in the sandbox, and the variables for them. */
export interface BuildSandbox {
  env: { [name: string]: string }
  start(cwd: string, command: string, args: readonly string[], env: Env): Started
}

export function buildIn(
  { namespaces, hidden, shared, network }: Sandbox,
  { writable, programs, named }: BuildFiles,
  given: { [name: string]: string },
): BuildSandbox {
  const files = named.flatMap(name => (given[name] ?? '').split(/[\s,]+/).flatMap(existing))
  const readable = [...programs.flatMap(prefixesOf), ...files, ...shared, ...INSTALLERS.filter(existsSync)]
  const kept = Object.entries(given).filter(([name]) => !CACHES.test(name))
  const visible = [...SYSTEM, ...readable]
  const PATH = (given.PATH ?? '').split(delimiter).filter(folder => visible.some(each => isBelow(folder, each)))
  return {
    env: { ...Object.fromEntries(kept), PATH: PATH.join(delimiter) },
    start: (cwd, command, args, env) =>
      startOf({ namespaces, cwd, command, args, readable, writable, hidden, sockets: [], env: {}, network }, env),
  }
}

/** Variables that lead the loader of a program, also that of bubblewrap, which starts outside of the sandbox. */
const OF_LOADER = /^(LD_|GLIBC_TUNABLES$|GCONV_PATH$|LOCPATH$)/

function startOf(view: Parameters<typeof wrap>[0], env: Env): Started {
  const [inner, outer] = [{ ...view.env }, { ...env }]
  for (const [name, value] of Object.entries(env)) {
    if (value === undefined || !OF_LOADER.test(name)) continue
    inner[name] = value
    delete outer[name]
  }
  return { ...wrap({ ...view, env: inner }), env: outer }
}

const existing = (path: string): string[] => {
  if (!isAbsolute(path) || path === sep) return []
  const found = statSync(path, { throwIfNoEntry: false })
  return found?.isFile() || found?.isDirectory() ? [path] : []
}

/** The repository of the application, else its folder; and packages that are installed above. */
function repositoryOf(folder: string): string[] {
  const found: string[] = []
  let repository = folder
  for (let at = folder; at !== dirname(at); at = dirname(at)) {
    if (existsSync(join(at, 'node_modules'))) found.push(join(at, 'node_modules'))
    if (existsSync(join(at, '.git'))) repository = at
  }
  return [repository, ...found]
}

/** The package of Weft; where it is installed beside its dependencies, all of them. */
function installedAt(root: string): string[] {
  const own = resolve(root)
  const parents = own.split(sep)
  const at = parents.indexOf('node_modules')
  return at < 0 ? [own] : [own, parents.slice(0, at + 1).join(sep)]
}

/** Its links may lead anywhere. */
const isIn = (tree: string | undefined, path: string): boolean => tree !== undefined && isBelow(resolve(path), tree)
