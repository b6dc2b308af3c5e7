/**
 * Downloads npm packages that only some machines need into the cache: the HTTP library, which contains the files of every
 * platform, a Node.js that it supports, and the TypeScript compiler. npm compares each one with its pinned checksum and
 * executes no script of it. A package is moved into place by a rename, so that two processes may download it at the same
 * time. scripts/prepare.sh uses the same list and the same folders.
 */
import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

type Env = { readonly [name: string]: string | undefined }

interface Pin {
  name: string
  version: string
  integrity: string
}

interface Pins {
  http: Pin
  typescript: Pin
  /** By line, platform and architecture. */
  node: { [platform: string]: Pin }
}

const run = promisify(execFile)
const LIMIT_MS = 600_000

export const pinned = JSON.parse(
  readFileSync(new URL('../../workers/pinned-packages.json', import.meta.url), 'utf8'),
) as Pins

export const cacheFolder = (env: Env): string => join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'weft')

export interface PackageOptions {
  pin: Pin
  /** Its folder in the cache. */
  folder: string
  env: Env
  /** Changes what was downloaded before it is moved into place; gets the folder of the package. */
  change?: (folder: string) => Promise<void>
  /** Called once, when it has to be downloaded. */
  log: (line: string) => void
  /** Its purpose, for the line of the log and for the error. */
  what: string
}

/** The folder of the package; null when it is not in the cache. */
export function findPackage({ pin: { name, version }, folder }: Pick<PackageOptions, 'pin' | 'folder'>): string | null {
  const path = join(folder, 'node_modules', name)
  try {
    const { dependencies } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
      dependencies: { [name: string]: string }
    }
    return dependencies[name] === version && existsSync(path) ? path : null
  } catch {
    return null
  }
}

/** The folder of the package. Throws one sentence when it cannot be downloaded. */
export async function fetchPackage(options: PackageOptions): Promise<string> {
  const { pin, folder, env, change, log, what } = options
  const found = findPackage(options)
  if (found !== null) return found
  const { name, version } = pin
  log(`getting ${what} (${name} ${version} from npm) into ${folder}`)
  await mkdir(join(folder, '..'), { recursive: true })
  const draft = await mkdtemp(`${folder}.`)
  try {
    await writeFile(join(draft, 'package.json'), JSON.stringify({ private: true, dependencies: { [name]: version } }))
    await writeFile(join(draft, 'package-lock.json'), JSON.stringify(lockOf(pin)))
    const args = ['ci', '--prefix', draft, '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']
    await run('npm', args, { cwd: draft, env: { ...env }, timeout: LIMIT_MS })
    await change?.(join(draft, 'node_modules', name))
    await rm(folder, { recursive: true, force: true })
    // Another process may have been faster.
    await rename(draft, folder).catch(error => {
      if (findPackage(options) === null) throw error
    })
  } catch (error) {
    throw new Error(`${what} cannot be downloaded (${reasonOf(error)}): install ${name}@${version} beside weft-server`)
  } finally {
    await rm(draft, { recursive: true, force: true })
  }
  return join(folder, 'node_modules', name)
}

const lockOf = ({ name, version, integrity }: Pin) => ({
  lockfileVersion: 3,
  packages: { '': { dependencies: { [name]: version } }, [`node_modules/${name}`]: { version, integrity } },
})

function reasonOf(error: unknown): string {
  const { code, stderr = '', message } = error as { code?: unknown; stderr?: string; message: string }
  if (code === 'ENOENT') return 'npm is not on PATH'
  return (stderr.trim() || message).split('\n')[0]!.slice(0, 200)
}

/** The program of a Node.js of this line. */
export async function fetchNode(line: number, env: Env, log: (line: string) => void): Promise<string> {
  const pin = pinned.node[`${line} ${process.platform} ${process.arch}`]
  if (pin === undefined)
    throw new Error(
      `there is no Node.js ${line} for ${process.platform} ${process.arch}: install it from https://nodejs.org`,
    )
  const folder = nodeFolder(line, env)
  await fetchPackage({
    pin,
    folder,
    env,
    log,
    what: `Node.js ${pin.version}`,
    async change(path) {
      const bin = join(path, '../../bin')
      await mkdir(bin)
      await symlink(`../node_modules/${pin.name}/bin/node`, join(bin, 'node'))
    },
  })
  return join(folder, 'bin/node')
}

/** The Node.js of this line in the cache; null: none. */
export function findNode(line: number, env: Env): string | null {
  const pin = pinned.node[`${line} ${process.platform} ${process.arch}`]
  const folder = nodeFolder(line, env)
  return pin === undefined || findPackage({ pin, folder }) === null ? null : join(folder, 'bin/node')
}

const nodeFolder = (line: number, env: Env): string => join(cacheFolder(env), `node-${line}`)

/** Removes the files of a folder that are not kept. */
export async function keepOnly(folder: string, isKept: (name: string) => boolean): Promise<void> {
  for (const name of await readdir(folder)) if (!isKept(name)) await rm(join(folder, name))
}
