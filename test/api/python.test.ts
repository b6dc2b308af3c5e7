import { execFile, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { root } from '../../scripts/root.js'
import { startCluster } from '../helpers/cluster.js'

const run = promisify(execFile)
const folder = join(root, 'test', 'python')

/** A virtual environment with the pinned SDK and library, created once per list of requirements. */
async function python(): Promise<string> {
  const requirements = join(folder, 'requirements.txt')
  const name = createHash('sha256').update(readFileSync(requirements)).digest('hex').slice(0, 12)
  const venv = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'weft', `python-${name}`)
  const program = join(venv, 'bin', 'python')
  const mark = join(venv, '.complete')
  if (existsSync(mark)) return program
  rmSync(venv, { recursive: true, force: true })
  await run('python3', ['-m', 'venv', venv]).catch(error => {
    throw new Error(
      `the tests of the Python SDK need python3 with venv and pip: install them (Debian: python3-venv); ${error.message}`,
    )
  })
  await run(program, ['-m', 'pip', 'install', '--quiet', '-r', requirements], { timeout: 170_000 })
  writeFileSync(mark, '')
  return program
}

t.setTimeout(300_000)

// Weft itself needs no Python: a machine without it skips these tests.
const skip = spawnSync('python3', ['--version']).error === undefined ? false : 'python3 is not installed'

t.test('through the official Python SDK', { skip }, async t => {
  const program = await python()
  const cluster = await startCluster({ app: 'test/apps/basic' })
  t.teardown(() => cluster.stop())
  for (const checks of ['check.py', 'check_runs.py', 'check_remote.py']) {
    const { stdout } = await run(program, [join(folder, checks)], {
      env: { ...process.env, WEFT_URL: cluster.url, PYTHONDONTWRITEBYTECODE: '1' },
      timeout: 120_000,
    })
    t.match(stdout, /\d+ checks/, checks)
    for (const line of stdout.split('\n').filter(line => line.startsWith('ok '))) t.pass(line.slice(3))
  }
})
