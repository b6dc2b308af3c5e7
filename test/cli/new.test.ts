/** `weft new`: the applications that it makes run as they are. */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { root } from '../../cli/root.js'
import { venvOf, withoutPython } from '../../scripts/checks/venv.js'
import { startCluster } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'

t.setTimeout(120_000)
const folder = mkdtempSync(join(tmpdir(), 'weft-new-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))

function weftNew(...args: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(root, 'dist/cli/weft.js'), 'new', ...args], {
    cwd: folder,
    encoding: 'utf8',
  })
  return { status, stdout, stderr }
}

for (const [name, flags, skip] of [
  ['typescript', [], false],
  ['python', ['--python'], withoutPython() ?? false],
] as const)
  t.test(`a new application in ${name} answers`, { skip }, async t => {
    t.match(weftNew(name, ...flags), { status: 0, stdout: new RegExp(`start it: weft dev --app ${name}`) })
    t.match(readFileSync(join(folder, name, '.gitignore'), 'utf8'), /\.env/)
    t.ok(existsSync(join(folder, name, name === 'python' ? 'requirements.txt' : 'package.json')))
    const env =
      skip || name !== 'python' ? {} : { WEFT_PYTHON: await venvOf(join(root, 'test/host-python/requirements.txt')) }
    const cluster = await startCluster({ app: join(folder, name), env: env as { [name: string]: string } })
    t.teardown(() => cluster.stop())
    const input = { messages: [{ role: 'user', content: 'hello' }] }
    const tokens: string[] = []
    const options = { input, streamMode: 'messages-tuple' as const }
    for await (const { event, data } of lines[0]!.connect(cluster.url).runs.stream(null, 'agent', options))
      if (event === 'messages') tokens.push((data as unknown as [{ content: string }])[0].content)
    t.equal(tokens.join(''), 'You said: hello. I am a scripted model.')
    t.ok(tokens.length > 3, 'token by token')
  })

t.test('the command that is printed is one of a shell', async t => {
  t.match(weftNew("my agent's"), { status: 0, stdout: /^start it: weft dev --app 'my agent'\\''s'$/m })
})

t.test('a folder that holds something is not changed, and a wrong command line is one sentence', async t => {
  mkdirSync(join(folder, 'mine'))
  writeFileSync(join(folder, 'mine/agent.py'), 'mine')
  t.match(weftNew('mine', '--python'), { status: 2, stderr: /^weft: mine exists already/ })
  t.equal(readFileSync(join(folder, 'mine/agent.py'), 'utf8'), 'mine')
  t.notOk(existsSync(join(folder, 'mine/langgraph.json')))
  t.match(weftNew(), { status: 2, stderr: /missing required argument 'folder'/ })
  t.match(weftNew('x', '--ruby'), { status: 2, stderr: /unknown option '--ruby'/ })
})
