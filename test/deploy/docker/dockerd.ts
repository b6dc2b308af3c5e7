/**
 * A Docker Engine for tests: dockerd, containerd and runc, whose containers have the programs of this machine. It runs in a
 * folder and a mount namespace of its own. Limits hold.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { spawnTied } from '../../../cli/tied-process.js'
import { until } from '../../helpers/until.js'
import { ENTRYPOINT, envOf, mountedFolders, writeRoot } from './machine-image.js'
import { startRegistry } from './registry.js'

export interface Dockerd {
  /** As DOCKER_HOST. */
  host: string
  /** The answer to a request of its API, with these options of curl. */
  ask(path: string, ...options: string[]): string
  /** Ids of all containers that run. */
  running(): string[]
  /** Makes an image with the programs of this machine; `changes`: instructions of a Dockerfile. */
  makeImage(name: string, tag: string, changes: readonly string[]): void
  close(): Promise<void>
}

interface DockerdOptions {
  /** Folders of applications. */
  apps?: readonly string[]
  /** In a network namespace of its own, where it may make networks: else containers must use the network of this machine. */
  hasNetwork?: boolean
}

const PATH = `${process.env.PATH ?? ''}:/usr/sbin:/usr/local/sbin`
/** It ends its containers before itself. */
const STOP_MS = 30_000

/** Rejects with one sentence when this machine runs none. */
export async function startDockerd({ apps = [], hasNetwork = false }: DockerdOptions = {}): Promise<Dockerd> {
  if (process.getuid?.() !== 0) throw new Error('dockerd needs root')
  for (const program of ['dockerd', 'containerd', 'runc'])
    if (spawnSync(program, ['--version'], { env: { PATH } }).error !== undefined)
      throw new Error(`${program} is not installed (apt-get install docker.io)`)
  const folder = mkdtempSync(join(tmpdir(), 'dockerd-'))
  const file = (name: string) => join(folder, name)
  const archive = writeRoot(folder)
  writeRuntime(folder, mountedFolders(apps))
  // Not that of the machine.
  writeFileSync(file('daemon.json'), '{}')
  const log = openSync(file('log'), 'w')
  const socket = file('docker.sock')
  const cgroup = `weft-test-${process.pid}`
  const within = hasNetwork ? ['--net', 'sh', '-c', 'ip link set lo up && exec "$@"', 'weft-dockerd'] : []
  const networks = hasNetwork ? [] : ['--bridge', 'none']
  const daemon = spawnTied(
    [
      ...['unshare', '--mount', '--propagation', 'private', ...within],
      ...['dockerd', '--config-file', file('daemon.json'), '--host', `unix://${socket}`, '--pidfile', file('pid')],
      ...['--data-root', file('data'), '--exec-root', file('exec'), '--storage-driver', 'vfs'],
      ...[...networks, '--iptables=false', '--ip-forward=false', '--ip-masq=false', '--cgroup-parent', `/${cgroup}`],
      // A service manager would want a name of its own for the parent.
      ...['--exec-opt', 'native.cgroupdriver=cgroupfs'],
      ...['--add-runtime', `machine=${file('runtime')}`, '--default-runtime', 'machine'],
    ],
    { env: { PATH, HOME: folder }, stdio: ['pipe', log, log] },
  )
  closeSync(log)
  let isOver = false
  const over = new Promise<void>(done =>
    daemon.once('close', () => {
      isOver = true
      done()
    }),
  )
  const ask: Dockerd['ask'] = (path, ...options) => {
    const call = ['--silent', '--show-error', '--fail-with-body', '--unix-socket', socket]
    return execFileSync('curl', [...call, ...options, `http://docker${path}`], { encoding: 'utf8' })
  }
  async function close() {
    if (!isOver) daemon.kill('SIGTERM')
    const killer = setTimeout(() => daemon.stdin!.end(), STOP_MS)
    await over
    clearTimeout(killer)
    spawnSync('find', ['/sys/fs/cgroup', '-depth', '-type', 'd', '-path', `*/${cgroup}*`, '-exec', 'rmdir', '{}', ';'])
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 })
  }
  const ping = ['--silent', '--fail', '--unix-socket', socket, 'http://docker/_ping']
  await until(() => isOver || spawnSync('curl', ping).status === 0)
  if (isOver) {
    const why = readFileSync(file('log'), 'utf8').trim().split('\n').at(-1)
    await close()
    throw new Error(`dockerd does not start on this machine: ${why}`)
  }
  return {
    host: `unix://${socket}`,
    ask,
    running: () => (JSON.parse(ask('/containers/json')) as { Id: string }[]).map(({ Id }) => Id),
    makeImage(name, tag, changes) {
      const query = new URLSearchParams([
        ['fromSrc', '-'],
        ['repo', name],
        ['tag', tag],
        ...changes.map(one => ['changes', one]),
      ])
      ask(`/images/create?${query}`, '--header', 'content-type: application/x-tar', '--data-binary', `@${archive}`)
    },
    close,
  }
}

/** With an image in a registry for each word, `apps` has the folder of its application. */
export async function startDockerdWith(apps: { [word: string]: string }) {
  const dockerd = await startDockerd({ apps: Object.values(apps) })
  const folder = mkdtempSync(join(tmpdir(), 'registry-'))
  const configs = Object.entries(apps).map(([word, app]) => [
    `weft-test:${word}`,
    { Entrypoint: ENTRYPOINT, Cmd: ['graphs'], Env: envOf(app) },
  ])
  const registry = await startRegistry(readFileSync(writeRoot(folder)), Object.fromEntries(configs))
  return {
    host: dockerd.host,
    imageOf: (word: string) => `${registry.address}/weft-test:${word}`,
    unknown: `${registry.address}/none:1`,
    running: () => dockerd.running().length,
    kill() {
      for (const id of dockerd.running()) dockerd.ask(`/containers/${id}/kill`, '--request', 'POST')
    },
    async close() {
      await dockerd.close()
      await registry.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** runc, after the folders were added to the container that it is to create. */
function writeRuntime(folder: string, folders: readonly string[]): void {
  const mounts = folders.map(path => ({
    destination: path,
    source: path,
    type: 'bind',
    options: ['rbind', 'ro', 'rprivate'],
  }))
  writeFileSync(
    join(folder, 'add-mounts.cjs'),
    `const { readFileSync, writeFileSync } = require('node:fs')
     const file = process.argv[process.argv.indexOf('--bundle') + 1] + '/config.json'
     const config = JSON.parse(readFileSync(file, 'utf8'))
     config.mounts.push(...${JSON.stringify(mounts)})
     writeFileSync(file, JSON.stringify(config))`,
  )
  const file = join(folder, 'runtime')
  writeFileSync(
    file,
    `#!/bin/sh
case " $* " in *" --bundle "*) '${process.execPath}' '${folder}/add-mounts.cjs' "$@" || exit 1 ;; esac
exec runc "$@"
`,
  )
  chmodSync(file, 0o755)
}
