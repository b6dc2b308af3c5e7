/** The checks of the graph host for Python: ruff (lint, format), pyright (types), pytest. */
import { spawn } from 'node:child_process'
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../../cli/root.js'
import type { Counts } from './tap-report.js'
import { venvOf, withoutPython } from './venv.js'

const HOST = join(root, 'workers/host-python')
const TESTS = join(root, 'test/host-python')
const PYRIGHT = join(root, 'node_modules/pyright/index.js')
const LIMIT_MS = 300_000

/** Prints only what failed. Lint, format and types have no tests: each adds a failure or nothing. Without a Python all of it is one skipped test. */
export async function checkPython(say: (line: string) => void): Promise<Counts> {
  const reason = withoutPython()
  if (reason !== null) {
    say(`skipped: ${reason}`)
    return { passed: 0, failed: 0, skipped: 1 }
  }
  const python = await venvOf(join(TESTS, 'requirements.txt'))
  const withAgents = await venvOf(join(root, 'test/api/examples/requirements.txt'))
  const report = join(root, '.tap/python.xml')
  rmSync(report, { force: true })
  const ruff = ['-m', 'ruff', '--config', join(HOST, 'pyproject.toml'), '--no-cache']
  const pytest = ['-B', '-m', 'pytest', '-q', '-c', join(HOST, 'pyproject.toml'), '-p', 'no:cacheprovider']
  const checks: [name: string, program: string, args: string[]][] = [
    ['ruff check', python, [...ruff.slice(0, 2), 'check', ...ruff.slice(2), HOST, TESTS]],
    ['ruff format', python, [...ruff.slice(0, 2), 'format', '--check', ...ruff.slice(2), HOST, TESTS]],
    ['pyright', process.execPath, [PYRIGHT, '-p', HOST, '--pythonpath', python]],
    ['pyright of examples', process.execPath, [PYRIGHT, '-p', join(root, 'examples'), '--pythonpath', withAgents]],
    ['pytest', python, [...pytest, `--junit-xml=${report}`, TESTS]],
  ]
  let failed = 0
  for (const [name, program, args] of checks) {
    const { code, output } = await run(program, args)
    if (code === 0) continue
    say(`FAIL ${name}: ${code === null ? `did not end within ${LIMIT_MS / 1000} s` : `exit code ${code}`}\n${output}`)
    failed++
  }
  const counts = countsOf(report)
  // A failed pytest is counted by its tests, if it has reported any.
  return { ...counts, failed: counts.failed > 0 ? failed - 1 + counts.failed : failed }
}

function countsOf(report: string): Counts {
  let text = ''
  try {
    text = readFileSync(report, 'utf8')
  } catch {
    // pytest did not run.
  }
  const count = (name: string) => Number(new RegExp(`<testsuite [^>]*\\b${name}="(\\d+)"`).exec(text)?.[1] ?? 0)
  const [failed, skipped] = [count('failures') + count('errors'), count('skipped')]
  return { passed: count('tests') - failed - skipped, failed, skipped }
}

/** The exit code, null when it had to be stopped, and what it printed. */
function run(program: string, args: string[]): Promise<{ code: number | null; output: string }> {
  const env = { ...process.env, PYTHONDONTWRITEBYTECODE: '1' }
  const child = spawn(program, args, { cwd: HOST, env, stdio: ['ignore', 'pipe', 'pipe'], timeout: LIMIT_MS })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', text => {
      output += text
    })
  return new Promise((done, failed) => child.once('error', failed).once('close', code => done({ code, output })))
}
