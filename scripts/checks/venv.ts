/** Virtual environments of tests in Python, created once per list of requirements and kept in the cache folder. */
import { execFile, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
const INSTALL_MS = 170_000

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
  const key = createHash('sha256').update(readFileSync(requirements))
  const name = (python === 'python3' ? key : key.update(python)).digest('hex').slice(0, 12)
  const venv = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'weft', `python-${name}`)
  const program = join(venv, 'bin', 'python')
  const mark = join(venv, '.complete')
  if (existsSync(mark)) return program
  rmSync(venv, { recursive: true, force: true })
  await run(python, ['-m', 'venv', venv]).catch(error => {
    throw new Error(
      `tests in Python need ${python} with venv and pip: install them (Debian: python3-venv); ${error.message}`,
    )
  })
  await run(program, ['-m', 'pip', 'install', '--quiet', '-r', requirements], { timeout: INSTALL_MS })
  writeFileSync(mark, '')
  return program
}
