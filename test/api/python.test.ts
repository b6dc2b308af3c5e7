import { join } from 'node:path'
import t from 'tap'
import { venvOf, withoutPython } from '../../scripts/checks/venv.js'
import { basicServer } from '../helpers/cluster.js'
import { pythonChecks, runChecks } from '../helpers/python-checks.js'

t.setTimeout(300_000)

// Weft itself needs no Python: a machine without it skips these tests.
const skip = withoutPython() ?? false

t.test('through the official Python SDK', { skip }, async t => {
  const program = await venvOf(join(pythonChecks, 'requirements.txt'))
  const cluster = await basicServer()
  t.teardown(() => cluster.stop())
  for (const file of ['check.py', 'check_runs.py', 'check_assistants.py', 'check_remote.py'])
    await runChecks(t, program, file, { WEFT_URL: cluster.url })
})
