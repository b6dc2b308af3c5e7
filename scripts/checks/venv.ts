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

/** The interpreter of an environment with these requirements. Throws one sentence when it cannot be made. */
export async function venvOf(requirements: string): Promise<string> {
  const name = createHash('sha256').update(readFileSync(requirements)).digest('hex').slice(0, 12)
  const venv = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'weft', `python-${name}`)
  const program = join(venv, 'bin', 'python')
  const mark = join(venv, '.complete')
  if (existsSync(mark)) return program
  rmSync(venv, { recursive: true, force: true })
  await run('python3', ['-m', 'venv', venv]).catch(error => {
    throw new Error(
      `tests in Python need python3 with venv and pip: install them (Debian: python3-venv); ${error.message}`,
    )
  })
  await run(program, ['-m', 'pip', 'install', '--quiet', '-r', requirements], { timeout: INSTALL_MS })
  writeFileSync(mark, '')
  return program
}
