/** weft-asgi: lint, format, types, and its tests in Python with FastAPI on uvicorn. */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import { root } from '../../cli/root.js'
import { venvOf, withoutPython } from '../../scripts/checks/venv.js'

t.setTimeout(400_000)
const PACKAGE = join(root, 'handler/python')
const EXAMPLE = join(root, 'examples/fastapi/server.py')
const TESTS = join(root, 'test/handler/python')

t.test('weft-asgi', { skip: withoutPython() ?? false }, async t => {
  const python = await venvOf(join(TESTS, 'requirements.txt'))
  const graphs = await venvOf(join(root, 'test/host-python/requirements.txt'))
  const config = join(PACKAGE, 'pyproject.toml')
  const checks: [program: string, ...args: string[]][] = [
    [python, '-m', 'ruff', 'check', '--no-cache', '--config', config, PACKAGE, TESTS],
    [python, '-m', 'ruff', 'format', '--check', '--no-cache', '--config', config, PACKAGE, TESTS],
    [process.execPath, join(root, 'node_modules/pyright/index.js'), '-p', PACKAGE, '--pythonpath', python],
    [process.execPath, join(root, 'node_modules/pyright/index.js'), '--pythonpath', python, EXAMPLE],
    [python, '-B', '-m', 'pytest', '-q', '-c', config, '-p', 'no:cacheprovider', TESTS],
  ]
  for (const [program, ...args] of checks) {
    const { status, stdout, stderr } = spawnSync(program, args, {
      cwd: root,
      encoding: 'utf8',
      env: { ...process.env, PYTHONPATH: PACKAGE, WEFT_PYTHON: graphs, PYTHONDONTWRITEBYTECODE: '1' },
      // It may wait for what a test has started.
      timeout: 180_000,
      killSignal: 'SIGKILL',
    })
    t.equal(status, 0, `${args.find(arg => !arg.startsWith('-'))}: ${status === 0 ? 'correct' : stdout + stderr}`)
  }
})
