/**
 * Finds the Python of an application: WEFT_PYTHON, else the active or a `.venv` environment beside or above langgraph.json,
 * else one that is made in the cache from `dependencies` and kept until they change. It is made in a temporary folder and
 * renamed, so that two starts at once do not disturb each other.
 */
import { execFile, spawn } from 'node:child_process'
import { createHash, randomUUID } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, rename, rm, utimes } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { type Description, exportOf, partsOf } from '../../schemas/description.js'

const run = promisify(execFile)

/** Python and library that hosts need: `asyncio` tasks with a context, and the `context` of graphs. */
const OLDEST_PYTHON: Version = [3, 11]
const OLDEST_LIBRARY: Version = [0, 6]
const PROBE_MS = 30_000
const INSTALL_MS = 900_000
const ENVIRONMENTS = ['.venv', 'venv']
/** What decides which packages are installed. */
const INPUTS = ['pyproject.toml', 'setup.py', 'setup.cfg', 'requirements.txt', 'uv.lock']
const PROBE = `import json, sys
from importlib import metadata
try:
    library = metadata.version("langgraph")
except metadata.PackageNotFoundError:
    library = None
print(json.dumps({"python": "%d.%d.%d" % sys.version_info[:3], "library": library}))`

type Version = readonly [number, number]
type Env = { readonly [name: string]: string | undefined }

export interface Python {
  /** The interpreter. */
  file: string
  /** Its version, and that of langgraph. */
  python: string
  library: string
}

export interface PythonOptions {
  description: Pick<Description, 'path' | 'folder' | 'given'>
  /** WEFT_PYTHON; nothing is installed into it. */
  given: string
  /** Variables of this process, for installers. */
  env: Env
  /** Progress, and the output of installers. */
  log(line: string): void
}

/** Throws an Error with one sentence: there is no Python, it is too old, or packages cannot be installed. */
export async function findPython({ description, given, env, log }: PythonOptions): Promise<Python> {
  const wanted = wantedVersion(description)
  const known = given || existing(description.folder, env)
  if (known) {
    const { python, library } = await probe(known)
    if (wanted !== null && !python.startsWith(`${wanted}.`))
      log(`langgraph.json asks for Python ${wanted}; ${known} is Python ${python}`)
    if (library === null)
      throw new Error(`${known} has no langgraph: install it there, or set WEFT_PYTHON to a Python that has it`)
    return usable({ file: known, python, library })
  }
  return made(description, wanted, env, log)
}

function usable(found: Python): Python {
  const { file, python, library } = found
  if (isBefore(python, OLDEST_PYTHON))
    throw new Error(`${file} is Python ${python}; Weft runs graphs with Python ${OLDEST_PYTHON.join('.')} and later`)
  if (isBefore(library, OLDEST_LIBRARY))
    throw new Error(`${file} has langgraph ${library}; Weft runs langgraph ${OLDEST_LIBRARY.join('.')} and later`)
  return found
}

function wantedVersion({ given }: PythonOptions['description']): string | null {
  const { python_version: version } = given
  return typeof version === 'string' || typeof version === 'number' ? `${version}` : null
}

/** The active environment, if the application lies in its folder; else the nearest one up to the root of the repository. */
function existing(folder: string, env: Env): string | null {
  const active = env.VIRTUAL_ENV
  if (active && !relative(dirname(active), folder).startsWith('..')) return interpreterIn(active)
  for (let at = folder; ; at = dirname(at)) {
    const found = ENVIRONMENTS.map(name => interpreterIn(join(at, name))).find(file => existsSync(file))
    if (found !== undefined) return found
    if (existsSync(join(at, '.git')) || at === dirname(at) || !isInRepository(at)) return null
  }
}

function isInRepository(folder: string): boolean {
  for (let at = dirname(folder); ; at = dirname(at)) {
    if (existsSync(join(at, '.git'))) return true
    if (at === dirname(at)) return false
  }
}

const interpreterIn = (environment: string): string => join(environment, 'bin', 'python')

async function probe(file: string): Promise<{ python: string; library: string | null }> {
  try {
    const { stdout } = await run(file, ['-c', PROBE], { timeout: PROBE_MS })
    return JSON.parse(stdout) as { python: string; library: string | null }
  } catch (error) {
    throw new Error(`${file} is no Python that starts: ${(error as Error).message.split('\n')[0]}`)
  }
}

/** The environment in the cache for these dependencies. */
async function made(
  { folder, given }: PythonOptions['description'],
  wanted: string | null,
  env: Env,
  log: PythonOptions['log'],
): Promise<Python> {
  const base = await baseInterpreter(wanted)
  const dependencies = Array.isArray(given.dependencies) ? given.dependencies.map(String) : []
  const { packages, files } = requirementsOf(folder, [...dependencies, ...serversOf(given)])
  const key = createHash('sha256').update(JSON.stringify([base, folder, packages]))
  for (const file of files) key.update(`\0${file}\0`).update(readFileSync(file))
  const name = key.digest('hex').slice(0, 16)
  const target = join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'weft', 'python', name)
  const file = interpreterIn(target)
  if (!existsSync(file)) await make(target, base.file, packages, env, log)
  // The time of the last use, for those who tidy the cache.
  await utimes(target, new Date(), new Date()).catch(() => {})
  const { python, library } = await probe(file)
  if (library === null) throw new Error(`the environment ${target} has no langgraph: remove the folder`)
  return usable({ file, python, library })
}

async function make(target: string, base: string, packages: string[], env: Env, log: (line: string) => void) {
  const folder = `${target}.${randomUUID()}`
  const python = interpreterIn(folder)
  await mkdir(dirname(target), { recursive: true })
  log(`making a Python environment for the graphs in ${target}`)
  try {
    if (await isOnPath('uv')) {
      await install('uv', ['venv', '--quiet', '--python', base, folder], env, log)
      await install('uv', ['pip', 'install', '--python', python, ...packages], env, log)
    } else {
      await install(base, ['-m', 'venv', folder], env, log)
      const options = ['--disable-pip-version-check', '--progress-bar=off']
      await install(python, ['-m', 'pip', 'install', ...options, ...packages], env, log)
    }
    await rename(folder, target).catch(error => {
      // Another start has made it meanwhile.
      if (!existsSync(interpreterIn(target))) throw error
    })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Arguments of `pip install`, and the files whose contents decide what it installs. */
function requirementsOf(folder: string, dependencies: readonly string[]): { packages: string[]; files: string[] } {
  const packages: string[] = []
  const files: string[] = []
  for (const dependency of dependencies) {
    if (!dependency.startsWith('.')) {
      packages.push(dependency)
      continue
    }
    const place = resolve(folder, dependency)
    const has = (name: string) => existsSync(join(place, name))
    files.push(...INPUTS.filter(has).map(name => join(place, name)))
    if (has('pyproject.toml') || has('setup.py')) packages.push('--editable', place)
    else if (has('requirements.txt')) packages.push('--requirement', join(place, 'requirements.txt'))
  }
  return { packages: [...packages, 'langgraph'], files }
}

/** What parts of the application need beside its own packages: a server for `http.app`, and the Request of `auth`. */
function serversOf(given: Description['given']): string[] {
  const { auth, http } = partsOf(given)
  const isPython = (part: string | null) => part !== null && exportOf(part, '/').language === 'python'
  return [...(isPython(auth) ? ['starlette'] : []), ...(isPython(http) ? ['uvicorn', 'websockets'] : [])]
}

/** A Python on PATH: of the wanted version, else the first that is new enough. */
async function baseInterpreter(wanted: string | null): Promise<{ file: string; python: string }> {
  const names = wanted === null ? ['python3', 'python3.13', 'python3.12', 'python3.11', 'python'] : [`python${wanted}`]
  for (const file of wanted === null ? names : [...names, 'python3']) {
    const found = await probe(file).catch(() => null)
    if (found === null || isBefore(found.python, OLDEST_PYTHON)) continue
    if (wanted === null || found.python.startsWith(`${wanted}.`)) return { file, python: found.python }
  }
  const version = wanted ?? `${OLDEST_PYTHON.join('.')} or later`
  throw new Error(`the graphs need Python ${version}, which is not on PATH: install it, or set WEFT_PYTHON`)
}

const isOnPath = (command: string): Promise<boolean> =>
  run(command, ['--version'], { timeout: PROBE_MS }).then(
    () => true,
    () => false,
  )

/** Throws an Error with the last line of the output. */
async function install(command: string, args: string[], env: Env, log: (line: string) => void): Promise<void> {
  // An environment that is active here is not the one that is made.
  const { VIRTUAL_ENV: _, PYTHONHOME: __, ...others } = env
  const child = spawn(command, args, { env: others, stdio: ['ignore', 'pipe', 'pipe'], timeout: INSTALL_MS })
  let last = ''
  for (const stream of [child.stdout, child.stderr])
    createInterface(stream).on('line', line => {
      if (line.trim() === '') return
      last = line.trim()
      log(last)
    })
  const code = await new Promise<number | null>((done, failed) => child.once('error', failed).once('close', done))
  if (code !== 0) throw new Error(`"${command} ${args.slice(0, 3).join(' ')} …" failed: ${last || `exit code ${code}`}`)
}

function isBefore(version: string, oldest: Version): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  return major < oldest[0] || (major === oldest[0] && minor < oldest[1])
}
