/** The code of the application in a run that failed: the entry of the log, and the place in the stored error. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { root } from '../../cli/root.js'
import { venvOf, withoutPython } from '../../scripts/checks/venv.js'
import { type Cluster, startCluster } from '../helpers/cluster.js'
import { sender } from '../helpers/http.js'
import { until } from '../helpers/until.js'

t.setTimeout(120_000)

const AGENT = [
  "import { Annotation, START, StateGraph } from '@langchain/langgraph'",
  "import { refuse } from 'refusing'",
  '',
  'interface Settings {',
  '  model: { name: string }',
  '}',
  'const settings = undefined as unknown as Settings',
  'const nameOfModel = () => settings.model.name',
  'export const graph = new StateGraph(Annotation.Root({ out: Annotation<string> }))',
  "  .addNode('good', () => ({}))",
  "  .addNode('broken', () => ({ out: nameOfModel() }))",
  "  .addEdge(START, 'good')",
  "  .addEdge('good', 'broken')",
  '  .compile()',
  'async function askPackage(): Promise<object> {',
  '  await refuse("x\\n    at quoted (/nowhere/else.ts:1:1)")',
  '  return {}',
  '}',
  'export const calling = new StateGraph(Annotation.Root({ out: Annotation<string> }))',
  "  .addNode('ask', askPackage)",
  "  .addEdge(START, 'ask')",
  '  .compile()',
  'function plan(): object {',
  "  throw new Error('no plan')",
  '}',
  'const single = (node: () => object) => new StateGraph(Annotation.Root({})).addNode("one", node).addEdge(START, "one")',
  'export const named = single(plan).compile()',
  'export const nameless = single(() => plan.call(null, (null as unknown as string[])[0]!)).compile()',
].join('\n')
const PACKAGE = 'export async function refuse(text) {\n  throw new RangeError(text)\n}\n'

const PYTHON = `from langgraph.graph import START, StateGraph

from helpers.orders import price_of


def total(state: dict) -> dict:
    return {"total": price_of(state)}


graph = StateGraph(dict).add_node("total", total).add_edge(START, "total").compile()
`
const HELPER = `def price_of(state: dict) -> float:
    order = {}
    return order["price"]
`

function applicationOf(t: Test, files: { [path: string]: string }, graphs: { [name: string]: string }): string {
  const folder = mkdtempSync(join(tmpdir(), 'weft-failing-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  for (const [path, text] of Object.entries({ ...files, 'langgraph.json': JSON.stringify({ graphs }) })) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
  return folder
}

/** The answer of wait, and the error of the run and of its thread. */
async function errorsOf({ url }: Cluster, assistant_id: string) {
  const send = sender(url)
  const { thread_id } = (await send('POST', '/threads', {})).body as { thread_id: string }
  const waited = (await send('POST', `/threads/${thread_id}/runs/wait`, { assistant_id, input: {} })).body
  const [run] = (await send('GET', `/threads/${thread_id}/runs`)).body as { run_id: string; error: unknown }[]
  const got = (await send('GET', `/runs/${run!.run_id}`)).body as { error: unknown }
  const search = { thread_id, select: ['error'] }
  const [found] = (await send('POST', '/runs/search', search)).body as { error: unknown }[]
  const joined = (await send('GET', `/threads/${thread_id}/runs/${run!.run_id}/join`)).body
  const thread = (await send('GET', `/threads/${thread_id}`)).body as { error: unknown }
  return { waited, joined, listed: run!.error, got: got.error, found: found!.error, thread: thread.error }
}

const entriesOf = (cluster: Cluster) =>
  cluster
    .output()
    .split('\n')
    .filter(line => line.includes('"run failed"'))
    .map(line => JSON.parse(line) as { [name: string]: unknown })

t.test('an error in a node of TypeScript', async t => {
  const folder = applicationOf(
    t,
    {
      'src/agent.ts': AGENT,
      'node_modules/refusing/package.json': '{"name":"refusing","type":"module","exports":"./index.js"}',
      'node_modules/refusing/index.js': PACKAGE,
    },
    {
      failing: './src/agent.ts:graph',
      calling: './src/agent.ts:calling',
      named: './src/agent.ts:named',
      nameless: './src/agent.ts:nameless',
    },
  )
  const cluster = await startCluster({ app: join(folder, 'langgraph.json'), env: { LOG_FORMAT: 'json' } })
  t.teardown(() => cluster.stop())
  const plain = { error: 'TypeError', message: "Cannot read properties of undefined (reading 'model')" }
  const whole = { ...plain, at: { file: 'src/agent.ts', line: 8, function: 'nameOfModel' } }
  const answers = { waited: { __error__: plain }, joined: { __error__: plain }, thread: plain }
  t.same(await errorsOf(cluster, 'failing'), { ...answers, listed: whole, got: whole, found: whole })
  await until(async () => entriesOf(cluster).length > 0)
  t.match(entriesOf(cluster), [
    {
      level: 50,
      msg: 'run failed',
      graph_id: 'failing',
      node: 'broken',
      run_id: String,
      assistant_id: String,
      at: `${join(folder, 'src/agent.ts')}:8:36`,
      err: { type: 'TypeError', message: /reading 'model'/, stack: /nameOfModel \(.*agent\.ts:8:36/ },
    },
  ])
  t.equal(entriesOf(cluster).length, 1)
  const logged = cluster.output()
  for (const message of ['run started', 'run ended'])
    t.match(logged, new RegExp(`"graph_id":"failing"[^\\n]*"${message}"`), `${message} names the graph`)

  const { got } = await errorsOf(cluster, 'calling')
  t.match(
    got,
    { error: 'RangeError', at: { file: 'src/agent.ts', line: 16, function: 'askPackage' } },
    'the line that called a package, and not one that the message quotes',
  )
  const placeOf = async (graph: string) => ((await errorsOf(cluster, graph)).got as { at: object }).at
  t.same(await placeOf('named'), { file: 'src/agent.ts', line: 24, function: 'plan' })
  t.same(await placeOf('nameless'), { file: 'src/agent.ts', line: 28, function: null })
})

t.test('an error in a node of Python', { skip: withoutPython() ?? false }, async t => {
  const python = await venvOf(join(root, 'test/host-python/requirements.txt'))
  const folder = applicationOf(
    t,
    { 'agent.py': PYTHON, 'helpers/__init__.py': '', 'helpers/orders.py': HELPER },
    { failing: './agent.py:graph' },
  )
  const env = { LOG_FORMAT: 'json', WEFT_PYTHON: python }
  const cluster = await startCluster({ app: join(folder, 'langgraph.json'), env })
  t.teardown(() => cluster.stop())
  const plain = { error: 'KeyError', message: "'price'" }
  const whole = { ...plain, at: { file: 'helpers/orders.py', line: 3, function: 'price_of' } }
  const answers = { waited: { __error__: plain }, joined: { __error__: plain }, thread: plain }
  t.same(await errorsOf(cluster, 'failing'), { ...answers, listed: whole, got: whole, found: whole })
  await until(async () => entriesOf(cluster).length > 0)
  t.match(entriesOf(cluster), [{ node: 'total', at: `${join(folder, 'helpers/orders.py')}:3:12` }])
})
