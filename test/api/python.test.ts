import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { venvOf, withoutPython } from '../../scripts/checks/venv.js'
import { root } from '../../scripts/root.js'
import { basicServer } from '../helpers/cluster.js'

const run = promisify(execFile)
const folder = join(root, 'test', 'python')

t.setTimeout(300_000)

// Weft itself needs no Python: a machine without it skips these tests.
const skip = withoutPython() ?? false

t.test('through the official Python SDK', { skip }, async t => {
  const program = await venvOf(join(folder, 'requirements.txt'))
  const cluster = await basicServer()
  t.teardown(() => cluster.stop())
  for (const checks of ['check.py', 'check_runs.py', 'check_assistants.py', 'check_remote.py']) {
    const { stdout } = await run(program, [join(folder, checks)], {
      env: { ...process.env, WEFT_URL: cluster.url, PYTHONDONTWRITEBYTECODE: '1' },
      timeout: 120_000,
    })
    t.match(stdout, /\d+ checks/, checks)
    for (const line of stdout.split('\n').filter(line => line.startsWith('ok '))) t.pass(line.slice(3))
  }
})
