/** The numbers of the pipe are written twice: for Node.js and for Python. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { root } from '../../cli/root.js'
import { withoutPython } from '../../scripts/checks/venv.js'
import { CONFIRMED_MS } from '../../workers/host/guards/node-gate.js'
import { LARGEST_ANSWER, LARGEST_STATE } from '../../workers/host/limits.js'
import { ANSWER, ASK, CHUNK, FROM_HOST, START, STOP, TO_HOST } from '../../workers/pipe.js'

const folder = join(root, 'workers/host-python')
/** Runs with any Python: the files are read, and nothing of the library is imported. */
const PROGRAM = `
import ast, json, sys
def numbers(file):
    found = {}
    for node in ast.parse(open(file).read()).body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = {each.targets[0].id.lower(): each.value.value for each in node.body if isinstance(each, ast.Assign) and isinstance(each.value, ast.Constant)}
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                found[node.targets[0].id] = eval(compile(ast.Expression(node.value), file, "eval"), {"__builtins__": {}})
            except Exception:
                pass
    return {name: value for name, value in found.items() if isinstance(value, (int, dict)) and value}
print(json.dumps({file: numbers(f"{sys.argv[1]}/weft_host/{file}.py") for file in ("frames", "limits", "node_gate")}))
`

t.test('both sides of the pipe have the same numbers', { skip: withoutPython() ?? false }, async t => {
  const python = JSON.parse(execFileSync('python3', ['-c', PROGRAM, folder], { encoding: 'utf8' }))
  const { FromHost, ToHost, Start, Chunk, Stop, Answer, Ask } = python.frames
  t.same([FromHost, ToHost, Start], [FROM_HOST, TO_HOST, START])
  t.same([Chunk, Stop, Answer, Ask], [CHUNK, STOP, ANSWER, ASK])
  const pipe = readFileSync(join(root, 'workers/pipe.ts'), 'utf8')
  t.match(pipe, `const MAX_BODY = ${python.frames.MAX_BODY / 1024 / 1024} * 1024 * 1024`)
  t.match(python.limits, { LARGEST_STATE, LARGEST_ANSWER })
  t.match(python.node_gate, { CONFIRMED_MS })
})

t.test('docs/pipe.md has a row for each kind of frame', async t => {
  const page = readFileSync(join(root, 'docs/pipe.md'), 'utf8')
  const rows = new Map([...page.matchAll(/^\| (\d+) \| `(\w+)` \|/gm)].map(([, kind, name]) => [name, Number(kind)]))
  t.same(Object.fromEntries(rows), { ...FROM_HOST, ...TO_HOST })
})
