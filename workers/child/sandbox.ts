/**
 * Children with code of applications in a sandbox (WEFT_HOST_SANDBOX, decision 099): bubblewrap starts them in namespaces of
 * their own. They see the system's programs, Weft's programs, the interpreter and the repository of the application, all
 * read-only; a private temporary folder, which is their home, too; and their own processes. They see no other file: not the
 * data folder, wherever it lies, and no home.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, realpathSync } from 'node:fs'
import { basename, dirname, join, relative, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Config } from '../../schemas/config.js'
import { asUser, type HostUser } from './process.js'

export interface Sandbox {
  /** Absolute paths that no child sees: the data folder. */
  hidden: readonly string[]
  /** Children may open connections. */
  network: boolean
}

const BUBBLEWRAP = 'bwrap'
/** Paths of Weft's package: its programs, the Python host, and its dependencies. */
const WEFT = fileURLToPath(new URL('../../..', import.meta.url))

const SYSTEM = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32']
/** Files that resolve names, check certificates, find libraries and tell the time. The rest of /etc is not needed. */
const ETC = [
  ...['alternatives', 'ca-certificates', 'crypto-policies', 'fonts', 'gai.conf', 'group', 'host.conf', 'hosts'],
  ...['ld.so.cache', 'ld.so.conf', 'ld.so.conf.d', 'localtime', 'mime.types', 'nsswitch.conf', 'passwd', 'pki'],
  ...['protocols', 'resolv.conf', 'services', 'ssl', 'timezone'],
].map(name => `/etc/${name}`)
/** resolv.conf may be a link to one of these. */
const RESOLVERS = ['/run/systemd/resolve', '/run/resolvconf', '/run/NetworkManager/resolv.conf']

/** Null without a sandbox. Throws an Error with one sentence: an unknown name, or bubblewrap cannot be started here. */
export function findSandbox(
  { host_sandbox, host_network, data }: Pick<Config, 'host_sandbox' | 'host_network' | 'data'>,
  user: HostUser | null,
): Sandbox | null {
  if (host_sandbox === '') return null
  if (host_sandbox !== 'bubblewrap')
    throw new Error(`WEFT_HOST_SANDBOX: expected bubblewrap or nothing, not ${host_sandbox}`)
  const words = [...NAMESPACES, '--ro-bind', '/', '/', 'true']
  const { error, status, stderr } = spawnSync(BUBBLEWRAP, words, { ...asUser(user), cwd: '/', encoding: 'utf8' })
  if (error !== undefined)
    throw new Error('WEFT_HOST_SANDBOX: bwrap was not found; install bubblewrap, as with apt-get install bubblewrap')
  if (status !== 0)
    throw new Error(
      `WEFT_HOST_SANDBOX: bubblewrap cannot make a sandbox here (${stderr.trim()}); it needs user namespaces`,
    )
  return { hidden: [resolve(data)], network: host_network }
}

/** Nothing that a child starts outlives it, and no terminal is shared. */
const NAMESPACES = [
  ...['--unshare-user', '--unshare-pid', '--unshare-ipc', '--unshare-uts', '--unshare-cgroup-try'],
  ...[
    '--uid',
    '65534',
    '--gid',
    '65534',
    '--hostname',
    'weft',
    '--new-session',
    '--die-with-parent',
    '--cap-drop',
    'ALL',
  ],
]

/** Bytes of the temporary folder and of shared memory, each. Both are memory. */
const TEMPORARY_BYTES = 512 * 1024 * 1024
const HOME = '/tmp/home'

export interface Sandboxed {
  /** Absolute path of langgraph.json. */
  app: string
  command: string
  args: readonly string[]
  /** The variables of the child; it may use the sockets and interpreters that they name. */
  env: { readonly [name: string]: string | undefined }
}

/** The command and the words that start the child in the sandbox. */
export function inSandbox(
  { hidden, network }: Sandbox,
  { app, command, args, env }: Sandboxed,
): { command: string; args: string[] } {
  const folder = dirname(app)
  const all = [
    ...readable(folder),
    ...installedAt(WEFT),
    ...prefixesOf(command),
    ...(env.WEFT_APP_PYTHON ? prefixesOf(env.WEFT_APP_PYTHON) : []),
    ...(env.VIRTUAL_ENV ? [env.VIRTUAL_ENV] : []),
  ]
  const shown = outermost(all)
  const words = [...NAMESPACES, ...(network ? [] : ['--unshare-net'])]
  for (const path of [...SYSTEM, ...ETC, ...RESOLVERS]) words.push('--ro-bind-try', path, path)
  words.push('--proc', '/proc', '--dev', '/dev')
  for (const path of ['/dev/shm', '/tmp']) words.push('--size', String(TEMPORARY_BYTES), '--tmpfs', path)
  words.push('--dir', HOME)
  for (const path of shown) words.push('--ro-bind', path, path)
  for (const path of hidden) {
    if (!existsSync(path) || !shown.some(each => isBelow(path, each))) continue
    words.push('--tmpfs', path)
    // A deployment's files lie in the data folder.
    for (const inner of outermost(all.filter(each => isBelow(each, path)))) words.push('--ro-bind', inner, inner)
    words.push('--remount-ro', path)
  }
  // After what is hidden: sockets may lie in the temporary folder.
  if (env.WEFT_LOOPBACK) words.push('--ro-bind-try', env.WEFT_LOOPBACK, env.WEFT_LOOPBACK)
  if (env.WEFT_APP_SOCKETS) words.push('--bind', env.WEFT_APP_SOCKETS, env.WEFT_APP_SOCKETS)
  // Folders of the sandbox itself, which are memory without a limit.
  words.push('--remount-ro', '/dev', '--remount-ro', '/')
  for (const [name, value] of Object.entries({ HOME, TMPDIR: '/tmp', XDG_CACHE_HOME: `${HOME}/.cache` }))
    words.push('--setenv', name, value)
  words.push('--chdir', folder, '--', command, ...args)
  return { command: BUBBLEWRAP, args: words }
}

/** The repository of the application, else its folder; and packages that are installed above. */
function readable(folder: string): string[] {
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

/** The folders of an interpreter: `<prefix>/bin/python`, where it is a link also those of the file that it leads to. */
function prefixesOf(command: string): string[] {
  if (!command.includes(sep)) return []
  const folders = [resolve(command), realpathSync(command)].map(file => dirname(file))
  return folders.map(each => (basename(each) === 'bin' ? dirname(each) : each)).filter(each => each !== sep)
}

/** Without paths that the system folders or another path contains. */
function outermost(paths: readonly string[]): string[] {
  const all = [...new Set(paths)].sort()
  return all.filter(path => ![...SYSTEM, ...all].some(other => other !== path && isBelow(path, other)))
}

const isBelow = (path: string, folder: string): boolean => !relative(folder, path).startsWith('..')
