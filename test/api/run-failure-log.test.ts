import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { startCluster } from '../helpers/cluster.js'
import { until } from '../helpers/until.js'

t.setTimeout(120_000)

t.test('an error in a node is one entry of the log: graph, node, line of the source, stack', async t => {
  const folder = mkdtempSync(join(tmpdir(), 'weft-failing-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const lines = [
    "import { Annotation, START, StateGraph } from '@langchain/langgraph'",
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
  ]
  writeFileSync(join(folder, 'agent.ts'), lines.join('\n'))
  writeFileSync(join(folder, 'langgraph.json'), JSON.stringify({ graphs: { failing: './agent.ts:graph' } }))
  const cluster = await startCluster({ app: join(folder, 'langgraph.json'), env: { LOG_FORMAT: 'json' } })
  t.teardown(() => cluster.stop())
  const response = await fetch(`${cluster.url}/runs/wait`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ assistant_id: 'failing', input: {} }),
  })
  t.match(await response.json(), { __error__: { error: 'TypeError' } })
  const entries = () =>
    cluster
      .output()
      .split('\n')
      .filter(line => line.includes('"run failed"'))
      .map(line => JSON.parse(line) as { [name: string]: unknown })
  await until(async () => entries().length > 0)
  t.match(entries(), [
    {
      level: 50,
      msg: 'run failed',
      graph_id: 'failing',
      node: 'broken',
      run_id: String,
      assistant_id: String,
      at: `${join(folder, 'agent.ts')}:7:36`,
      err: { type: 'TypeError', message: /reading 'model'/, stack: /nameOfModel \(.*agent\.ts:7:36/ },
    },
  ])
  t.equal(entries().length, 1)
  const logged = cluster.output()
  for (const message of ['run started', 'run ended'])
    t.match(logged, new RegExp(`"graph_id":"failing"[^\\n]*"${message}"`), `${message} names the graph`)
})
