/** The command line of bubblewrap: a program in namespaces of its own, with the paths that are listed and no others. */
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { isBelow, outermost, prefixesOf } from './paths.js'

export const BUBBLEWRAP = 'bwrap'

/** Nothing that a child starts outlives it, and no terminal is shared. */
export const NAMESPACES = [
  ...['--unshare-user', '--unshare-pid', '--unshare-ipc', '--unshare-uts', '--unshare-cgroup-try'],
  ...['--uid', '65534', '--gid', '65534', '--hostname', 'weft'],
  ...['--new-session', '--die-with-parent', '--cap-drop', 'ALL'],
]

/** `on`: that of the machine. Else none, but for a proxy of ours where there is one. */
export type Network = 'on' | 'off' | Way

/** The way to a proxy. */
export interface Way {
  /** Path of the socket that it listens on. */
  socket: string
  /** Path of the Node.js that passes connections on to it. */
  node: string
}

/** No namespaces inside of it, where a program has rights that reach more of the kernel. From bubblewrap 0.8 on. */
export const CLOSED = ['--disable-userns']

export interface View {
  /** NAMESPACES, and CLOSED where this bubblewrap knows it. */
  namespaces: readonly string[]
  /** The folder that the program starts in. */
  cwd: string
  command: string
  args: readonly string[]
  /** Absolute paths that it sees. */
  readable: readonly string[]
  /** Absolute paths that it sees and may change. */
  writable: readonly string[]
  /** Folders that it does not see, though others contain them. What is listed above and lies in them stays. */
  hidden: readonly string[]
  /** Sockets, or folders of them; they may lie in the temporary folder. */
  sockets: readonly string[]
  /** Variables that it gets beside those of its caller. */
  env: { readonly [name: string]: string }
  network: Network
}

export const SYSTEM = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32']
/** Files that resolve names, check certificates, find libraries and tell the time. The rest of /etc is not needed. */
const ETC = [
  ...['alternatives', 'ca-certificates', 'crypto-policies', 'fonts', 'gai.conf', 'group', 'host.conf', 'hosts'],
  ...['ld.so.cache', 'ld.so.conf', 'ld.so.conf.d', 'localtime', 'mime.types', 'nsswitch.conf', 'passwd', 'pki'],
  ...['protocols', 'resolv.conf', 'services', 'ssl', 'timezone'],
].map(name => `/etc/${name}`)
/** resolv.conf may be a link to one of these. */
const RESOLVERS = ['/run/systemd/resolve', '/run/resolvconf', '/run/NetworkManager/resolv.conf']

/** Bytes of the temporary folder and of shared memory, each. Both are memory. */
const TEMPORARY_BYTES = 512 * 1024 * 1024

/** The command and the words that start the program in a sandbox. */
export function wrap(view: View): { command: string; args: string[] } {
  const { namespaces, cwd, writable, hidden, sockets, env, network } = view
  const way = typeof network === 'string' ? null : network
  const shown = outermost([...SYSTEM, ...view.readable, ...(way === null ? [] : [FORWARDER, ...prefixesOf(way.node)])])
  const words = [...namespaces, ...(network === 'on' ? [] : ['--unshare-net'])]
  for (const path of [...SYSTEM, ...ETC, ...RESOLVERS]) words.push('--ro-bind-try', path, path)
  words.push('--proc', '/proc', '--dev', '/dev')
  for (const path of ['/dev/shm', '/tmp']) words.push('--size', String(TEMPORARY_BYTES), '--tmpfs', path)
  for (const path of shown) if (!SYSTEM.includes(path)) words.push('--ro-bind', path, path)
  const covered = hidden.filter(path => existsSync(path) && shown.some(each => isBelow(path, each)))
  for (const path of covered) {
    words.push('--tmpfs', path)
    // A deployment's files lie in the data folder.
    for (const inner of outermost(view.readable.filter(each => isBelow(each, path))))
      words.push('--ro-bind', inner, inner)
  }
  for (const path of [...sockets, ...(way === null ? [] : [way.socket])]) words.push('--ro-bind-try', path, path)
  for (const path of writable) words.push('--bind', path, path)
  for (const path of covered) words.push('--remount-ro', path)
  if (env.HOME !== undefined) words.push('--dir', env.HOME)
  // Folders of the sandbox itself, which are memory without a limit.
  words.push('--remount-ro', '/dev', '--remount-ro', '/')
  for (const [name, value] of Object.entries({ ...env, ...(way === null ? {} : PROXY_ENV) }))
    words.push('--setenv', name, value)
  if (way !== null) for (const name of OTHER_PROXIES) words.push('--unsetenv', name)
  const program = [view.command, ...view.args]
  const started = way === null ? program : forwarding(way, program)
  words.push('--chdir', cwd, '--', ...started)
  return { command: BUBBLEWRAP, args: words }
}

const FORWARDER = fileURLToPath(new URL('../../programs/forward.js', import.meta.url))
/** The port of the forwarder on the loopback interface of the sandbox, where nothing else listens when it starts. */
const PORT = 3128
/** It ends with the sandbox. The substitution waits until it has closed its output: then it listens. */
const FORWARD = `listens=$("$1" "$2" "$3" ${PORT} 3>&- 4>&- &)
[ "$listens" ] || { echo 'the way to the proxy of Weft cannot be opened' >&2; exit 1; }
shift 3
exec "$@"`

const forwarding = ({ socket, node }: Way, program: string[]): string[] => [
  '/bin/sh',
  '-c',
  FORWARD,
  'sh',
  node,
  FORWARDER,
  socket,
  ...program,
]

const OTHER_PROXIES = ['all_proxy', 'ALL_PROXY']
const address = `http://127.0.0.1:${PORT}`
const LOCAL = 'localhost,127.0.0.1,::1'
/** For clients of HTTP: those that read variables, Node.js from 22.21 and 24 on, and yarn. */
const PROXY_ENV = {
  ...Object.fromEntries(['http_proxy', 'https_proxy', 'HTTP_PROXY', 'HTTPS_PROXY'].map(name => [name, address])),
  ...{ no_proxy: LOCAL, NO_PROXY: LOCAL, NODE_USE_ENV_PROXY: '1' },
  ...{ YARN_HTTP_PROXY: address, YARN_HTTPS_PROXY: address },
}
