/** The Weft that a handler starts: one for a process, which ends with it. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { isRunning } from '../../cli/processes.js'
import { root } from '../../cli/root.js'
import { below } from '../helpers/cluster.js'
import { until } from '../helpers/until.js'

t.setTimeout(120_000)
const folder = mkdtempSync(join(tmpdir(), 'weft-started-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))
const HANDLER = pathToFileURL(join(root, 'dist/programs/handler.js')).href

const GRAPH = `import { Annotation, StateGraph } from '@langchain/langgraph'
export const graph = new StateGraph(Annotation.Root({ says: Annotation<string>() }))
  .addNode('a', () => ({ says: 'this' })).addEdge('__start__', 'a').compile()`
writeFileSync(join(folder, 'small.ts'), GRAPH)
symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
writeFileSync(join(folder, 'langgraph.json'), '{"graphs":{"small":"./small.ts:graph"}}')

/** A process with the file of the package; \`load\` gives a handler, each time of a module that is loaded anew. */
function run(code: string, more: { [name: string]: string } = {}) {
  const text = `let n = 0
  const load = async (options = {}) => (await import('${HANDLER}?' + n++)).createHandler(options)
  const ask = async (weft, path) => { const a = await weft(new Request('http://x' + path)); return [a.status, await a.json()] }
  ${code}`
  const child = spawn(process.execPath, ['--input-type=module', '-e', text], {
    cwd: folder,
    env: { ...process.env, NODE_OPTIONS: '', WEFT_TEST: '1', LOG_LEVEL: 'warn', ...more },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  t.teardown(() => void child.kill('SIGKILL'))
  let output = ''
  child.stdout.on('data', part => {
    output += part
  })
  child.stderr.resume()
  return { child, line: () => until(() => /^.*\n/.exec(output)?.[0].trim()), code: once(child, 'exit') }
}

t.test('one for all modules of a process; it is started anew when it has ended, and ends with the process', async t => {
  const { child, line } = run(`
    const [a, b] = [await load(), await load()]
    const [one, two] = await Promise.all([a.ready(), b.ready()])
    const ok = await ask(a, '/ok')
    await a.close()
    const three = await b.ready()
    console.log(JSON.stringify({ same: one === two, ok, three: await ask(a, '/ok') }))
    setInterval(() => {}, 1000)`)
  t.same(JSON.parse(await line()), { same: true, ok: [200, { ok: true }], three: [200, { ok: true }] })
  const pids = below(child.pid!)
  t.ok(pids.length > 2)
  child.kill('SIGKILL')
  await until(() => !pids.some(isRunning))
})

t.test('it does not keep a process that has done its work', async t => {
  const { code } = run(`await ask(await load(), '/ok')`)
  t.same(await code, [0, null])
})

t.test('one that cannot start is a sentence', async t => {
  const { line } = run(`console.log(JSON.stringify(await ask(await load({ app: 'none' }), '/ok')))`)
  t.same(JSON.parse(await line()), [503, { detail: 'Weft has ended with exit code 2; it has printed why' }])
})

t.test('an application that cannot be loaded is served after the change that mends it', async t => {
  const file = join(folder, 'auth.ts')
  writeFileSync(file, "throw new Error('broken')")
  writeFileSync(
    join(folder, 'langgraph.json'),
    '{"graphs":{"small":"./small.ts:graph"},"auth":{"path":"./auth.ts:auth"}}',
  )
  const { child, line } = run(`console.log(JSON.stringify(await ask(await load(), '/ok')))`)
  let log = ''
  child.stderr.on('data', part => {
    log += part
  })
  await until(() => /waiting for a change[\s\S]*watching/.test(log))
  writeFileSync(
    file,
    "import { Auth } from '@langchain/langgraph-sdk/auth'\nexport const auth = new Auth().authenticate(() => 'one')",
  )
  t.same(JSON.parse(await line()), [200, { ok: true }])
})
