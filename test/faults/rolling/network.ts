/**
 * Machines that share nothing but a network, as far as programs see: network namespaces on a bridge. They are made inside
 * a namespace of this process (`enterNamespaces`), so that nothing of the machine's own network changes, its rules for
 * packets do not count, and everything is gone with the last process, however that ends.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process'

export interface Machine {
  address: string
  /** Executes the command that follows there. */
  within: readonly string[]
}

export interface Network {
  /** The address of this process, as the machines see it. */
  address: string
  machines: Machine[]
}

/** Addresses of networks for measurements (RFC 2544). */
const SUBNET = '198.18.0'
const BRIDGE = 'weft'
const INSIDE = 'WEFT_ROLLING_INSIDE'

export const isInside = (): boolean => process.env[INSIDE] === '1'

/** One sentence when this machine has no namespaces for this user; null when it has. */
export function whyNoNamespaces(): string | null {
  for (const program of ['ip', 'unshare'])
    if (spawnSync(program, ['--version'], { stdio: 'ignore' }).error !== undefined)
      return `\`${program}\` is not installed (apt-get install iproute2 util-linux on Debian)`
  if (process.getuid?.() !== 0) return 'only root may make network namespaces: run this with sudo'
  const { status, stderr } = spawnSync('unshare', ['--net', '--mount', 'true'], { encoding: 'utf8' })
  return status === 0 ? null : `this machine permits no network namespaces: ${stderr.trim()}`
}

/** Executes this program again in new namespaces; resolves with its exit code. */
export function enterNamespaces(env: { [name: string]: string }): Promise<number> {
  const child = spawn(
    'unshare',
    ['--net', '--mount', process.execPath, ...process.execArgv, ...process.argv.slice(1)],
    {
      stdio: 'inherit',
      env: { ...process.env, ...env, [INSIDE]: '1' },
    },
  )
  // Ctrl-C reaches both; the child ends in order.
  process.on('SIGINT', () => {})
  process.on('SIGTERM', () => child.kill('SIGTERM'))
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', code => resolve(code ?? 1))
  })
}

/** Makes the machines, in the namespaces of this process. */
export function openNetwork(count: number): Network {
  // A folder of our own for the names of namespaces, which ends with this process.
  run('mkdir', '-p', '/run/netns')
  run('mount', '-t', 'tmpfs', 'tmpfs', '/run/netns')
  const address = `${SUBNET}.254`
  run('ip', 'link', 'set', 'lo', 'up')
  run('ip', 'link', 'add', BRIDGE, 'type', 'bridge')
  run('ip', 'address', 'add', `${address}/24`, 'dev', BRIDGE)
  run('ip', 'link', 'set', BRIDGE, 'up')
  const machines = Array.from({ length: count }, (_, i): Machine => {
    const name = `machine-${i + 1}`
    const within = ['ip', 'netns', 'exec', name]
    const own = `${SUBNET}.${i + 1}`
    run('ip', 'netns', 'add', name)
    run('ip', 'link', 'add', `port-${i + 1}`, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name)
    run('ip', 'link', 'set', `port-${i + 1}`, 'master', BRIDGE, 'up')
    run(...within, 'ip', 'link', 'set', 'lo', 'up')
    run(...within, 'ip', 'address', 'add', `${own}/24`, 'dev', 'eth0')
    run(...within, 'ip', 'link', 'set', 'eth0', 'up')
    return { address: own, within }
  })
  return { address, machines }
}

function run(...command: string[]): void {
  execFileSync(command[0]!, command.slice(1), { stdio: ['ignore', 'ignore', 'inherit'] })
}
