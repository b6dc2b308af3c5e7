/**
 * Finds uv, which makes environments of Python ten times as fast as venv and pip: on PATH, in the cache, else from the
 * package index, in a fixed version with a pinned sha256. It is moved into place by a rename, so that two processes may
 * download it at the same time. It is not downloaded if pip has settings that uv does not read.
 */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { unzipOne } from './unzip.js'
import { erase, removeLeftovers } from './user-tree.js'
import { fetchWheel, indexOf, type Pinned, pipSettings, type ReadText, type Received } from './wheel.js'

const run = promisify(execFile)
/** The version that is downloaded. */
export const UV_VERSION = '0.13.9'
/** The oldest one on PATH that is used: `uv venv --clear`. */
const OLDEST = [0, 8]
export const WHEELS: Pinned = {
  // Linked statically: it also runs with glibc.
  'uv-0.13.9-py3-none-musllinux_1_1_x86_64.whl': '2c45530751517d6c3bbc69a19473f6effe47cce047bede01ffd8af7ea7b36b25',
  'uv-0.13.9-py3-none-manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64.whl':
    '5435c5ce14a56431208ca0996416d310f1598e8c2c8ba707688985a16bb82dbe',
  'uv-0.13.9-py3-none-macosx_11_0_arm64.whl': '66c512266d633bef48384a1f53003f41f2a8e7b36fe6e7fbfd3e0fd52d96fa63',
  'uv-0.13.9-py3-none-macosx_10_12_x86_64.whl': 'c16ed11e013557536b3e60065f1b912f6407bd6518e041b961e23ef9e6b4fbf5',
}
/** Settings of pip that decide where packages come from, and that uv does not read. */
const OF_PIP = ['extra-index-url', 'no-index', 'trusted-host', 'constraint', 'client-cert', 'proxy']
const DRAFT = 'getting-'
const VERSION_MS = 10_000
const FETCH_MS = 30_000

/** A uv that runs here. */
export interface Uv {
  file: string
  /** Variables that its commands need. */
  env: { [name: string]: string }
}

export interface UvOptions {
  /** Variables of the installers. */
  env: NodeJS.ProcessEnv
  /** Folder that keeps the downloaded one. */
  cache: string
  /** Whether it may be downloaded. */
  fetches: boolean
  log(line: string): void
  pinned?: Pinned
  received?: Received
  /** Reads the settings of pip; as this process can when absent. */
  read?: ReadText | undefined
}

/** Null: pip must install. Never throws. */
export async function findUv(options: UvOptions): Promise<Uv | null> {
  const { env, cache, fetches, log, pinned = WHEELS, received, read } = options
  if (await isUsable('uv', env)) return { file: 'uv', env: {} }
  const setting = settingsOfPip(env, read)
  if (!fetches || env.UV_OFFLINE || OF_PIP.some(setting)) return null
  const found = { file: join(cache, `uv-${UV_VERSION}`, 'uv'), env: variablesOf(env, setting) }
  if (await isUsable(found.file, env)) return found
  const index = indexOf(env, read)
  log(`getting uv ${UV_VERSION} from ${hostOf(index)}, which installs faster than pip (WEFT_FETCH_UV=0 forbids it)`)
  try {
    const wheel = await fetchWheel({
      index,
      project: 'uv',
      pinned,
      timeout_ms: FETCH_MS,
      ...(received && { received }),
    })
    await unpack(wheel, cache, found.file)
    if (!(await isUsable(found.file, env))) throw new Error('it does not run here')
    return found
  } catch (error) {
    log(`there is no uv, so pip installs: ${(error as Error).message}`)
    return null
  }
}

type Setting = (name: string) => string | undefined

/** A setting of pip, from its variables and files. */
function settingsOfPip(env: NodeJS.ProcessEnv, read?: ReadText): Setting {
  const settings = pipSettings(env, read)
  return name => env[`PIP_${name.toUpperCase().replaceAll('-', '_')}`] || settings.get(name)
}

/** The index, the links and the certificates of pip, unless uv has its own. */
function variablesOf(env: NodeJS.ProcessEnv, setting: Setting): Uv['env'] {
  const index = setting('index-url')
  const cert = setting('cert')
  // pip separates them by white space, uv by commas; a folder that is missing costs pip a warning, uv the install.
  const links = (setting('find-links') ?? '').split(/\s+/).filter(link => link.includes('://') || existsSync(link))
  return {
    ...(index && !env.UV_DEFAULT_INDEX && !env.UV_INDEX_URL ? { UV_DEFAULT_INDEX: index } : {}),
    ...(links.length > 0 && !env.UV_FIND_LINKS ? { UV_FIND_LINKS: links.join(',') } : {}),
    ...(cert && !env.SSL_CERT_FILE ? { SSL_CERT_FILE: cert } : {}),
  }
}

async function unpack(wheel: Uint8Array, cache: string, file: string): Promise<void> {
  await mkdir(cache, { recursive: true })
  await removeLeftovers(cache, DRAFT)
  const folder = await mkdtemp(join(cache, DRAFT))
  try {
    const draft = join(folder, 'uv')
    await writeFile(
      draft,
      unzipOne(wheel, name => name.endsWith('/scripts/uv')),
    )
    await chmod(draft, 0o755)
    await mkdir(join(file, '..'), { recursive: true })
    await rename(draft, file)
  } finally {
    await erase(folder)
  }
}

async function isUsable(file: string, { PATH }: NodeJS.ProcessEnv): Promise<boolean> {
  try {
    const { stdout } = await run(file, ['--version'], { timeout: VERSION_MS, env: { PATH } })
    const [major = 0, minor = 0] = (/(\d+)\.(\d+)/.exec(stdout) ?? []).slice(1).map(Number)
    return major > OLDEST[0]! || (major === OLDEST[0] && minor >= OLDEST[1]!)
  } catch {
    return false
  }
}

const hostOf = (index: string): string => (URL.canParse(index) ? new URL(index).host : index)
