/** Which packages an application needs, which Python runs it, and the commands that make an environment of both. */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { type Description, exportOf, partsOf } from '../../schemas/description.js'
import { aside, type HostUser } from './process.js'
import type { Started } from './sandbox.js'
import type { Uv } from './uv.js'

const run = promisify(execFile)

/** Python and library that hosts need: `asyncio` tasks with a context, and the `context` of graphs. */
export const OLDEST_PYTHON: Version = [3, 11]
const OLDEST_LIBRARY: Version = [0, 6]
/** The input that decides which packages are installed. */
const INPUTS = ['pyproject.toml', 'setup.py', 'setup.cfg', 'requirements.txt', 'uv.lock']
const PROBE_MS = 30_000
const PROBE = `import json, sys
from importlib import metadata
try:
    library = metadata.version("langgraph")
except metadata.PackageNotFoundError:
    library = None
print(json.dumps({"python": "%d.%d.%d" % sys.version_info[:3], "library": library, "program": sys.executable}))`

type Version = readonly [number, number]

/** The Python settings of an application. */
export type PythonNeeds = Pick<Description, 'folder' | 'given'>

/** A Python, and its version. */
export interface Interpreter {
  file: string
  python: string
}

/** One that environments are made of. */
export interface Base extends Interpreter {
  /** The absolute path of the program: on PATH there may be a script in its place. */
  program: string
}

/** One that has langgraph, and the version of it. */
export interface Python extends Interpreter {
  library: string
}

const VERSION = /^\d+(\.\d+)*$/

export const interpreterIn = (environment: string): string => join(environment, 'bin', 'python')

interface Probed {
  python: string
  library: string | null
  program: string
}

/**
 * `user`: whose it is, and who executes it, therefore; ourselves when null. `boxed`: how it is started when it is a part of
 * an application in a sandbox.
 */
export async function probe(
  file: string,
  user: HostUser | null = null,
  boxed?: (command: string, args: string[]) => Started,
): Promise<Probed> {
  try {
    // Python looks for modules in the folder that it is started in, which may be that of an application.
    const options = { timeout: PROBE_MS, cwd: '/', ...(user === null ? {} : aside(user)) }
    const words = ['-c', PROBE]
    // A program of the application gets no variable of ours.
    const { command, args, ...more } = boxed?.(file, words) ?? { command: file, args: words }
    const { stdout } = await run(command, args, { ...options, ...more })
    return JSON.parse(stdout) as Probed
  } catch (error) {
    const { message, stderr } = error as Error & { stderr?: string }
    // The command of a sandbox has a page of words.
    const why = boxed === undefined ? message.split('\n')[0] : (stderr?.trim().split('\n').at(-1) ?? 'no output')
    throw new Error(`${file} is no Python that starts: ${why}`)
  }
}

export function usable(found: Python): Python {
  const { file, python, library } = found
  if (isBefore(python, OLDEST_PYTHON))
    throw new Error(`${file} is Python ${python}; Weft runs graphs with Python ${OLDEST_PYTHON.join('.')} and later`)
  if (isBefore(library, OLDEST_LIBRARY))
    throw new Error(`${file} has langgraph ${library}; Weft runs langgraph ${OLDEST_LIBRARY.join('.')} and later`)
  return found
}

export function wantedVersion({ given }: Pick<PythonNeeds, 'given'>): string | null {
  const { python_version: version } = given
  return typeof version === 'string' || typeof version === 'number' ? `${version}` : null
}

/** A Python on PATH: of the wanted version, else the first that is new enough. */
export async function baseInterpreter(wanted: string | null): Promise<Base> {
  const names =
    wanted === null ? ['python3', 'python3.13', 'python3.12', 'python3.11', 'python'] : [`python${wanted}`, 'python3']
  // The application says it: it must not become a path.
  for (const file of wanted === null || VERSION.test(wanted) ? names : []) {
    const found = await probe(file).catch(() => null)
    if (found === null || isBefore(found.python, OLDEST_PYTHON)) continue
    const { python, program } = found
    if (wanted === null || python.startsWith(`${wanted}.`)) return { file, python, program }
  }
  const version = wanted ?? `${OLDEST_PYTHON.join('.')} or later`
  throw new Error(`the graphs need Python ${version}, which is not on PATH: install it, or set WEFT_PYTHON`)
}

/** A command of an installer, and variables that it needs. */
export interface InstallStep {
  words: readonly [command: string, ...args: string[]]
  env: { [name: string]: string }
}

interface EnvironmentOptions {
  base: Interpreter
  /** The folder of the environment. */
  target: string
  /** Local packages are used where they are. Otherwise they are copied: the application is moved later. */
  editable: boolean
  /** The commands of uv; null: there is none. */
  uv: Uv | null
}

/**
 * The commands that make the environment, with uv if there is one. A `uv.lock` beside `pyproject.toml` decides the
 * versions; pip does not read it.
 */
export function stepsFor(needs: PythonNeeds, options: EnvironmentOptions): InstallStep[] {
  const { base, target, editable, uv } = options
  const { locals, others } = dependenciesOf(needs)
  const python = interpreterIn(target)
  const isLocked = ({ files }: Local) => uv !== null && files.includes('uv.lock') && files.includes('pyproject.toml')
  const packages = locals.flatMap(local => {
    const { place, files } = local
    if (isLocked(local)) return []
    if (files.includes('pyproject.toml') || files.includes('setup.py'))
      return editable ? ['--editable', place] : [place]
    return files.includes('requirements.txt') ? ['--requirement', join(place, 'requirements.txt')] : []
  })
  // Requirements of the application are no options of the installer.
  const wanted = [...packages, '--', ...others]
  if (uv === null) {
    const options = ['--disable-pip-version-check', '--progress-bar=off', '--no-input']
    return [
      { words: [base.file, '-m', 'venv', '--clear', target], env: {} },
      { words: [python, '-m', 'pip', 'install', ...options, ...wanted], env: {} },
    ]
  }
  // Files of the cache of uv must not change when a deployment makes its own read-only.
  const env: InstallStep['env'] = { ...uv.env, ...(editable ? {} : { UV_LINK_MODE: 'copy', UV_COMPILE_BYTECODE: '1' }) }
  const sync = ({ place }: Local): InstallStep => ({
    words: [
      uv.file,
      'sync',
      '--frozen',
      '--no-dev',
      '--inexact',
      '--project',
      place,
      ...(editable ? [] : ['--no-editable']),
    ],
    env: { ...env, UV_PROJECT_ENVIRONMENT: target },
  })
  return [
    { words: [uv.file, 'venv', '--quiet', '--clear', '--python', base.file, target], env },
    ...locals.filter(isLocked).map(sync),
    { words: [uv.file, 'pip', 'install', '--python', python, ...wanted], env },
  ]
}

/** The files whose contents decide what is installed, and everything else that does, as text. */
export function inputsOf(needs: PythonNeeds): { files: string[]; text: string } {
  const { locals, others } = dependenciesOf(needs)
  return {
    files: locals.flatMap(({ place, files }) => files.map(name => join(place, name))),
    text: JSON.stringify(others),
  }
}

/** A folder of `dependencies`, and which of INPUTS it has. */
interface Local {
  place: string
  files: string[]
}

function dependenciesOf({ folder, given }: PythonNeeds): { locals: Local[]; others: string[] } {
  const dependencies = Array.isArray(given.dependencies) ? given.dependencies.map(String) : []
  const isLocal = (dependency: string) => dependency.startsWith('.')
  const locals = dependencies.filter(isLocal).map(dependency => {
    const place = resolve(folder, dependency)
    return { place, files: INPUTS.filter(name => existsSync(join(place, name))) }
  })
  return { locals, others: [...dependencies.filter(one => !isLocal(one)), ...serversOf(given), 'langgraph'] }
}

/** Packages that parts of the application need beside its own: a server for `http.app`, and the Request of `auth`. */
function serversOf(given: Description['given']): string[] {
  const { auth, http } = partsOf(given)
  const isPython = (part: string | null) => part !== null && exportOf(part, '/').language === 'python'
  return [...(isPython(auth) ? ['starlette'] : []), ...(isPython(http) ? ['uvicorn', 'websockets'] : [])]
}

function isBefore(version: string, oldest: Version): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  return major < oldest[0] || (major === oldest[0] && minor < oldest[1])
}
