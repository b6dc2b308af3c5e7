/** A2A by both lines of the official Python client, unmodified. */
import { join } from 'node:path'
import t from 'tap'
import { venvOf, withoutPython } from '../../../scripts/checks/venv.js'
import { basicServer } from '../../helpers/cluster.js'
import { pythonChecks, runChecks } from '../../helpers/python-checks.js'

t.setTimeout(300_000)

t.test('through the official Python client of A2A', { skip: withoutPython() ?? false }, async t => {
  const cluster = await basicServer()
  t.teardown(() => cluster.stop())
  for (const version of [0, 1]) {
    const program = await venvOf(join(pythonChecks, `requirements-a2a-${version}.txt`))
    await runChecks(t, program, `check_a2a_${version}.py`, { WEFT_URL: cluster.url })
  }
})
