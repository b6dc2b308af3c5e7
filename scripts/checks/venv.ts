/** Virtual environments of tests in Python, created once per list of requirements and kept in the cache folder. */
import { execFile, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { delimiter, dirname, isAbsolute, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { findUv } from '../../workers/child/uv.js'

const run = promisify(execFile)
const INSTALL_MS = 170_000
const LEFT_MS = 2 * INSTALL_MS
const LOOK_MS = 200
/** A file in a folder that was filled. */
const COMPLETE = '.complete'

/** Why tests in Python are skipped; null when there is a Python. */
export const withoutPython = (): string | null =>
  spawnSync('python3', ['--version']).error === undefined ? null : 'python3 is not installed'

/** The newest of these commands that runs; null: none does. */
export const newestPython = (names: readonly string[]): string | null =>
  names.find(name => spawnSync(name, ['--version']).status === 0) ?? null

/**
 * The interpreter of an environment with these requirements, made of `python`, a command. Throws one sentence when it
 * cannot be made.
 */
export async function venvOf(requirements: string, python = 'python3'): Promise<string> {
  return make(nameOf(requirements, python), requirements, python, async (venv, program) => {
    await newVenv(python, [venv])
    await run(program, ['-m', 'pip', 'install', '--quiet', '-r', requirements], { timeout: INSTALL_MS })
  })
}

/** An environment with these requirements was made before. */
export const hasVenv = (requirements: string): boolean =>
  existsSync(join(cached(`python-${nameOf(requirements, 'python3')}`), COMPLETE))

function nameOf(requirements: string, python: string): string {
  const key = createHash('sha256').update(readFileSync(requirements))
  return (python === 'python3' ? key : key.update(python)).digest('hex').slice(0, 12)
}

/** The same with a Python without pip: without uv, that of `tools`, the Python of an environment, installs. */
export function venvBy(tools: string, requirements: string, python: string): Promise<string> {
  const name = createHash('sha256').update(readFileSync(requirements)).update(python).digest('hex').slice(0, 12)
  return make(name, requirements, python, async (venv, program) => {
    await newVenv(python, ['--without-pip', venv])
    const install = ['-m', 'pip', '--python', program, 'install', '--quiet', '-r', requirements]
    await run(tools, install, { timeout: INSTALL_MS })
  })
}

/** Installs with uv, which takes 0.6 s of CPU time where pip takes 12. Without uv, `byPip` makes the environment. */
async function make(
  name: string,
  requirements: string,
  python: string,
  byPip: (venv: string, program: string) => Promise<void>,
): Promise<string> {
  const venv = cached(`python-${name}`)
  const program = join(venv, 'bin', 'python')
  await once(venv, async () => {
    const { env } = process
    const uv = await findUv({ env, cache: dirname(venv), fetches: true, log: () => {} })
    if (uv === null) return byPip(venv, program)
    await newVenv(python, ['--without-pip', venv])
    const install = ['pip', 'install', '--quiet', '--python', program, '-r', requirements]
    await run(uv.file, install, { timeout: INSTALL_MS, env: { ...env, ...uv.env } })
  })
  return program
}

/** The PATH with uv on it, for a server under test that installs; without uv the PATH alone, and the server installs with pip. */
export async function pathWithUv(): Promise<string> {
  const { PATH = '', ...env } = process.env
  const uv = await findUv({ env: { ...env, PATH }, cache: cached(''), fetches: true, log: () => {} })
  return uv === null || !isAbsolute(uv.file) ? PATH : [dirname(uv.file), PATH].join(delimiter)
}

const newVenv = (python: string, args: string[]) =>
  run(python, ['-m', 'venv', ...args]).catch(error => {
    throw new Error(
      `tests in Python need ${python} with venv and pip: install them (Debian: python3-venv); ${error.message}`,
    )
  })

/** A folder of the cache of tests. */
export const cached = (name: string): string =>
  join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'weft', name)

/** Fills a folder unless it is complete; test files that need it at the same time wait for the first one. */
export async function once(folder: string, fill: () => Promise<void>): Promise<void> {
  const mark = join(folder, COMPLETE)
  const lock = `${folder}.lock`
  mkdirSync(dirname(folder), { recursive: true })
  while (!existsSync(mark)) {
    if (!take(lock)) {
      await sleep(LOOK_MS)
      continue
    }
    try {
      if (existsSync(mark)) return
      rmSync(folder, { recursive: true, force: true })
      await fill()
      writeFileSync(mark, '')
    } finally {
      rmSync(lock, { recursive: true, force: true })
    }
  }
}

/** False: another process has it. One that is older than an install can take was left by a process that was killed. */
function take(lock: string): boolean {
  try {
    mkdirSync(lock)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    const since = statSync(lock, { throwIfNoEntry: false })?.mtimeMs ?? Date.now()
    if (Date.now() - since > LEFT_MS) rmSync(lock, { recursive: true, force: true })
    return false
  }
}
