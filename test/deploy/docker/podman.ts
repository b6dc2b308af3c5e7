/**
 * Podman's own API as an engine for tests, with real containers that have the programs of this machine. They have no cgroups,
 * so that no limit holds; the network is that of the machine. Everything is in a mount namespace and a folder of its own.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { until } from '../../helpers/until.js'
import { ENTRYPOINT, envOf, mountedFolders, writeRoot } from './machine-image.js'

export interface Podman {
  /** As DOCKER_HOST. */
  host: string
  imageOf(word: string): string
  /** An image that nobody has. */
  unknown: string
  running(): number
  kill(): void
  close(): Promise<void>
}

/** crun knows no mixture of both versions of cgroups: the containers see those of version 2, which limit nothing. */
const ENTER = `umount --recursive /sys/fs/cgroup 2>/dev/null
mount -t cgroup2 none /sys/fs/cgroup && exec "$@"`
const within = (command: readonly string[]) => [
  'unshare',
  ...['--mount', '--propagation', 'private', 'sh', '-c', ENTER, 'weft-podman', ...command],
]
/** A container may not raise the limits of this process. */
const LIMITS = '"nofile=4096:4096", "nproc=4096:4096"'

/** Starts it; `apps`: the folder of the application of each word. Rejects with one sentence when this machine runs no containers. */
export async function startPodman(apps: { [word: string]: string }): Promise<Podman> {
  if (process.getuid?.() !== 0) throw new Error('containers of Podman need root here')
  if (spawnSync('podman', ['--version']).error !== undefined) throw new Error('podman is not installed')
  const folder = mkdtempSync(join(tmpdir(), 'podman-'))
  const file = (name: string) => join(folder, name)
  const remove = () => rmSync(folder, { recursive: true, force: true, maxRetries: 3 })
  const mounts = mountedFolders(Object.values(apps)).map(path => `"${path}:${path}:ro"`)
  writeFileSync(
    file('storage.conf'),
    `[storage]\ndriver = "vfs"\nrunroot = "${file('run')}"\ngraphroot = "${file('graph')}"\n`,
  )
  writeFileSync(
    file('containers.conf'),
    `[containers]\ncgroups = "disabled"\nnetns = "host"\ndefault_ulimits = [${LIMITS}]\nvolumes = [${mounts.join(', ')}]
[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\ntmp_dir = "${file('tmp')}"\n`,
  )
  // Nothing asks a registry on the network.
  const blocked = ['localhost', 'registry.invalid'].map(name => `[[registry]]\nlocation = "${name}"\nblocked = true\n`)
  writeFileSync(file('registries.conf'), blocked.join(''))
  const env = {
    ...process.env,
    CONTAINERS_REGISTRIES_CONF: file('registries.conf'),
    CONTAINERS_STORAGE_CONF: file('storage.conf'),
    CONTAINERS_CONF: file('containers.conf'),
  }
  const podman = (...words: string[]) => {
    const [program, ...args] = within(['podman', ...words])
    return execFileSync(program!, args, { env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
  }
  const imageOf = (word: string) => `localhost/weft-test:${word}`
  try {
    const archive = writeRoot(folder)
    for (const [word, app] of Object.entries(apps)) {
      const env = envOf(app).map(each => `ENV ${each}`)
      const changes = [`ENTRYPOINT ${JSON.stringify(ENTRYPOINT)}`, 'CMD ["graphs"]', ...env]
      podman('import', ...changes.flatMap(change => ['--change', change]), archive, imageOf(word))
    }
    podman('run', '--rm', '--entrypoint', '/bin/true', imageOf(Object.keys(apps)[0]!))
  } catch (error) {
    remove()
    const { stderr, message } = error as Error & { stderr?: string }
    throw new Error(`Podman starts no containers on this machine: ${(stderr ?? message).trim().split('\n').at(-1)}`)
  }
  const socket = file('podman.sock')
  const [program, ...args] = within(['podman', 'system', 'service', '--time', '0', `unix://${socket}`])
  const service = spawn(program!, args, { env, stdio: 'ignore' })
  const over = new Promise(done => service.once('exit', done))
  const host = `unix://${socket}`
  await until(() => spawnSync('curl', ['--silent', '--unix-socket', socket, 'http://podman/_ping']).status === 0)
  return {
    host,
    imageOf,
    unknown: 'registry.invalid/none:1',
    running: () => podman('ps', '--quiet').split('\n').filter(Boolean).length,
    kill: () => void podman('kill', '--all'),
    async close() {
      podman('rm', '--all', '--force', '--time', '0')
      service.kill('SIGTERM')
      await over
      remove()
    },
  }
}
