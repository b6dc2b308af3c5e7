/**
 * Finds the Python of an application: WEFT_PYTHON, else the active or a `.venv` environment beside or above langgraph.json,
 * else one that is made in the cache from `dependencies` and kept until they change. It is made in a temporary folder and
 * renamed, so that two starts at once do not disturb each other.
 */
import { spawn } from 'node:child_process'
import { createHash, randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, rename, utimes, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { type Description, localFolders } from '../../schemas/description.js'
import { isReason } from './output.js'
import { asUser, canWrite, checkPython, type HostUser, homeOf, startIn, withoutOwn } from './process.js'
import { pruneEnvironments } from './python-cache.js'
import {
  type Base,
  baseInterpreter,
  type InstallStep,
  inputsOf,
  interpreterIn,
  type Python,
  type PythonNeeds,
  probe,
  stepsFor,
  usable,
  wantedVersion,
} from './python-install.js'
import { inSandbox, type Sandbox } from './sandbox.js'
import { readAs } from './user-file.js'
import { erase, keepReadOnly, makeFor } from './user-tree.js'
import { findUv } from './uv.js'
import type { Received } from './wheel.js'

const INSTALL_MS = 900_000
const ENVIRONMENTS = ['.venv', 'venv']
type Env = { readonly [name: string]: string | undefined }

export interface PythonOptions {
  description: Pick<Description, 'path' | 'folder' | 'given'>
  /** WEFT_PYTHON; nothing is installed into it. */
  given: string
  /** WEFT_FETCH_UV. */
  fetchesUv: boolean
  /** Variables of this process, for installers. */
  env: Env
  /** The user of hosts; our own when null. */
  user: HostUser | null
  /** Where programs of the application are executed; null: where this process is. */
  sandbox?: Sandbox | null
  /** Progress, and the output of installers. */
  log(line: string): void
  /** How much of a download is done. */
  received?: Received
}

/** Throws an Error with one sentence: there is no Python, it is too old, or packages cannot be installed. */
export async function findPython(options: PythonOptions): Promise<Python> {
  const { description, given, env, user, sandbox = null, log } = options
  const wanted = wantedVersion(description)
  const boxed =
    sandbox === null
      ? undefined
      : (command: string, args: string[]) =>
          inSandbox(sandbox, { app: description.path, cwd: '/', command, args, env: { PATH: env.PATH }, own: {} })
  // A path is one from here, and is executed elsewhere.
  const known = given.includes('/') ? resolve(given) : given || existing(description.folder, env)
  if (known) {
    // It may be a program of the application.
    if (user !== null && sandbox === null) checkPython(user, known)
    const { python, library } = await probe(known, user, boxed)
    if (wanted !== null && !python.startsWith(`${wanted}.`))
      log(`langgraph.json asks for Python ${wanted}; ${known} is Python ${python}`)
    if (library === null)
      throw new Error(`${known} has no langgraph: install it there, or set WEFT_PYTHON to a Python that has it`)
    return usable({ file: known, python, library })
  }
  if (sandbox?.deployed)
    throw new Error(`there is no .venv beside ${description.path} or above it, which the build of a deployment makes`)
  return made(options, wanted)
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

/** The environment in the cache for these dependencies. */
async function made(options: PythonOptions, wanted: string | null): Promise<Python> {
  const { env, user, log } = options
  const { folder, given } = options.description
  const base = await baseInterpreter(wanted)
  const needs = { folder, given }
  const { files, text } = inputsOf(needs)
  const key = createHash('sha256').update(JSON.stringify([{ file: base.file, python: base.python }, folder, text]))
  for (const input of files) key.update(`\0${input}\0`).update((await readAs(user, input)) ?? '')
  const cache = join(cacheOf(env), 'python')
  const target = join(cache, key.digest('hex').slice(0, 16))
  const file = interpreterIn(target)
  if (!existsSync(file)) await make(target, needs, base, options)
  // The time of its last use.
  await utimes(target, new Date(), new Date()).catch(() => {})
  await pruneEnvironments(cache, { keep: target }).catch(error =>
    log(`the cache could not be tidied: ${error.message}`),
  )
  if (user !== null) checkPython(user, file)
  const { python, library } = await probe(file, user)
  if (library === null) throw new Error(`the environment ${target} has no langgraph: remove the folder`)
  return usable({ file, python, library })
}

/** Setuptools writes its notes where this file says, else into the folder of the package, which may be read-only. */
const SETUPTOOLS = 'setuptools.cfg'

const cacheOf = (env: Env) => join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'weft')

async function make(target: string, needs: PythonNeeds, base: Base, options: PythonOptions) {
  const { env, fetchesUv, log, received } = options
  const draft = `${target}.${randomUUID()}`
  const folder = join(draft, 'environment')
  await mkdir(dirname(target), { recursive: true })
  log(`making a Python environment in ${target}`)
  try {
    const uv = await findUv({ env, cache: cacheOf(env), fetches: fetchesUv, log, ...(received && { received }) })
    const user = options.user !== null && changesCode(options.user, needs) ? options.user : null
    if (user === null) await mkdir(draft)
    else await makeFor(user, draft)
    await writeFile(join(draft, SETUPTOOLS), `[egg_info]\negg_base = ${draft}\n`, { flag: 'wx', mode: 0o644 })
    for (const step of stepsFor(needs, { base, target: folder, editable: true, uv }))
      await install(step, { env, user, draft, folder: needs.folder }, log)
    const finished = `${draft}.finished`
    await rename(folder, finished)
    if (user !== null) await keepReadOnly(finished, user)
    await rename(finished, target).catch(async error => {
      await erase(finished)
      // Another start has made it meanwhile.
      if (!existsSync(interpreterIn(target))) throw error
    })
  } finally {
    await erase(draft)
  }
}

/** Whether the user can change what is executed when local packages are installed: then it is executed as that user. */
function changesCode(user: HostUser, needs: PythonNeeds): boolean {
  const { dependencies } = needs.given
  const folders = localFolders(Array.isArray(dependencies) ? dependencies.map(String) : [], needs.folder)
  return [...folders, ...inputsOf(needs).files].some(path => canWrite(user, path))
}

interface Installer {
  env: Env
  user: HostUser | null
  draft: string
  /** The folder of the application: uv reads its settings from there. */
  folder: string
}

/** Throws an Error with the last line of the output. */
async function install(
  { words, env: more }: InstallStep,
  { env, user, draft, folder }: Installer,
  log: (line: string) => void,
): Promise<void> {
  // Python looks for modules in the folder that it is started in: one of the application is not taken for pip.
  const { cwd, command, args } = startIn(user, words[1] === '-m' ? '/' : folder, words[0], words.slice(1))
  // An environment that is active here is not the one that is made. Local packages run code of the application.
  const { VIRTUAL_ENV: _, PYTHONHOME: __, ...others } = withoutOwn(env)
  const own = user === null ? {} : { UV_CACHE_DIR: join(draft, 'cache'), PIP_CACHE_DIR: join(draft, 'cache') }
  const child = spawn(command, args, {
    env: { DIST_EXTRA_CONFIG: join(draft, SETUPTOOLS), ...others, ...more, ...own, ...homeOf(user) },
    ...asUser(user),
    cwd,
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: INSTALL_MS,
  })
  let last = ''
  for (const stream of [child.stdout, child.stderr])
    createInterface(stream).on('line', line => {
      if (line.trim() === '') return
      if (isReason(line)) last = line.trim()
      log(line.trim())
    })
  const code = await new Promise<number | null>((done, failed) => child.once('error', failed).once('close', done))
  if (code !== 0) throw new Error(`"${words.slice(0, 4).join(' ')} …" failed: ${last || `exit code ${code}`}`)
}
