/** Drawings, schemas and subgraphs of graphs (docs/spec/assistants.md#drawing). */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { type Cluster, startCluster } from '../helpers/cluster.js'
import { sender } from '../helpers/http.js'
import { lines } from '../helpers/sdk.js'
import { until } from '../helpers/until.js'

t.setTimeout(120_000)

const require = createRequire(import.meta.url)
const { RemoteGraph } = require('@langchain/langgraph/remote') as typeof import('@langchain/langgraph/remote')

interface Drawing {
  nodes: { id: string; type: string; data: unknown }[]
  edges: { source: string; target: string; data?: string; conditional?: boolean }[]
}
type Schemas = { [name: string]: { properties?: { [name: string]: { [member: string]: unknown } } } | null }

let cluster: Cluster
let send: ReturnType<typeof sender>
t.before(async () => {
  cluster = await startCluster({ app: 'test/apps/shapes' })
  send = sender(cluster.url)
})
t.teardown(() => cluster?.stop())

const draw = async (id: string, query = '') => (await send('GET', `/assistants/${id}/graph${query}`)).body as Drawing
const ids = ({ nodes }: Drawing) => nodes.map(node => node.id)

t.test('a drawing has nodes and edges, and subgraphs to the depth that is asked for', async t => {
  const plain = await draw('tree')
  t.same(ids(plain), ['__start__', 'first', 'middle', '__end__'])
  t.match(plain.nodes[1], { type: 'runnable', data: { name: 'first' } })
  t.equal(plain.nodes[0]!.type, 'schema')
  t.match(
    plain.edges.find(edge => edge.source === 'first' && edge.target === 'middle'),
    { data: 'go', conditional: true },
  )
  for (const edge of plain.edges)
    for (const member of Object.keys(edge)) t.ok(['source', 'target', 'data', 'conditional'].includes(member))
  for (const query of ['?xray=false', '?xray=0', '?xray=']) t.same(await draw('tree', query), plain)
  const one = await draw('tree', '?xray=1')
  t.ok(ids(one).includes('middle:m1'))
  t.notOk(ids(one).some(id => id.endsWith('l1')))
  for (const query of ['?xray=true', '?xray=2']) t.ok(ids(await draw('tree', query)).includes('middle:leaf:l1'), query)
})

t.test('schemas of states by zod, StateSchema and Annotation', async t => {
  const schemas = async (id: string) => (await send('GET', `/assistants/${id}/schemas`)).body as Schemas
  const four = await schemas('zod4')
  t.equal(four.graph_id as unknown, 'zod4')
  t.same(Object.keys(four.input_schema!.properties!), ['name'])
  t.same(Object.keys(four.output_schema!.properties!), ['steps'])
  t.same(Object.keys(four.state_schema!.properties!), ['name', 'steps'])
  t.same(four.context_schema!.properties!.model!.enum, ['small', 'large'])
  t.same(four.config_schema, four.context_schema)
  const three = await schemas('zod3')
  t.match(three.state_schema!.properties, { name: { type: 'string', description: 'who' }, count: { default: 1 } })
  t.equal(three.config_schema, null)
  const state = await schemas('stateSchema')
  t.match(state.input_schema!.properties, { total: { type: 'string', title: 'Total' } }, 'the input of a reducer')
  t.match(state.state_schema!.properties, { total: { type: 'number', title: 'Total' } })
  t.match(state.state_schema!.properties, { messages: { langgraph_type: 'messages' } })
  const names = await schemas('annotation')
  t.same(Object.keys(names.state_schema!.properties!), ['messages', 'topic'])
  t.match(names.input_schema!.properties!.messages, { langgraph_type: 'messages' })
})

t.test('schemas of states by Annotation in TypeScript, from their types', async t => {
  const typed = await startCluster({ app: 'test/apps/types' })
  t.teardown(() => typed.stop())
  const send = sender(typed.url)
  const schemas = async (id: string) => {
    // 503 while the compiler works.
    for (;;) {
      const { status, body } = await send('GET', `/assistants/${id}/schemas`)
      if (status !== 503) return body as Schemas
    }
  }
  const { state_schema, input_schema, output_schema, config_schema, context_schema } = await schemas('graph')
  t.match(state_schema!.properties, {
    messages: { langgraph_type: 'messages' },
    count: { type: 'number', description: 'How often it ran.' },
    items: { type: 'array', items: { $ref: '#/definitions/Item' } },
  })
  t.match(input_schema!.properties, { question: { type: 'string' } })
  t.match(output_schema!.properties, { question: { type: 'string' } })
  t.match(config_schema!.properties, { model: { enum: ['large', 'small'] } })
  t.same(context_schema, config_schema)
  const { state_schema: names } = await schemas('untyped')
  t.same(names!.properties!.count, {}, 'without types: the names of its fields')
})

t.test('subgraphs: the first level, all levels, and those below a path', async t => {
  const names = async (path: string) =>
    Object.keys((await send('GET', `/assistants/tree/subgraphs${path}`)).body as object)
  t.same(await names(''), ['middle'])
  t.same(await names('?recurse=true'), ['middle', 'middle|leaf'])
  t.same(await names('/middle?recurse=false'), ['middle'])
  t.same(await names(`/${encodeURIComponent('middle|leaf')}`), ['middle|leaf'])
  t.same(await names('/nobody'), [])
  const { body } = await send('GET', '/assistants/tree/subgraphs')
  t.match((body as { middle: object }).middle, { graph_id: 'tree', state_schema: { properties: { x: {} } } })
})

t.test('a factory is called with the config of the assistant, in a host that executes no runs', async t => {
  const create = async (node: string) =>
    (await send('POST', '/assistants', { graph_id: 'factory', config: { configurable: { node } } })).body as {
      assistant_id: string
    }
  const [ada, bob] = [await create('ada'), await create('bob')]
  const drawn = await draw(ada.assistant_id)
  t.ok(ids(drawn).includes('ada'))
  t.ok(ids(await draw(bob.assistant_id)).includes('bob'))
  const { body } = await send('POST', '/runs/wait', { assistant_id: ada.assistant_id, input: {} })
  const { pid } = body as { pid: number }
  t.ok(pid > 0)
  t.notOk(ids(drawn).includes(`pid${pid}`))
})

t.test('through the SDKs and RemoteGraph', async t => {
  for (const { name, connect } of lines) {
    const { assistants } = connect(cluster.url)
    t.same(
      (await assistants.getGraph('tree', { xray: true })).nodes.map(node => node.id),
      ids(await draw('tree', '?xray=true')),
      name,
    )
    t.match(await assistants.getSchemas('zod4'), { graph_id: 'zod4' })
    t.same(Object.keys(await assistants.getSubgraphs('tree', { recurse: true })), ['middle', 'middle|leaf'])
  }
  const drawable = await new RemoteGraph({ graphId: 'tree', url: cluster.url }).getGraphAsync({ xray: true })
  t.match(drawable.drawMermaid(), /middle/)
})

t.test('what is refused, and a graph that cannot be made', async t => {
  for (const [path, status, detail] of [
    ['/assistants/tree/graph?xray=maybe', 422, /^xray: expected true, false or a depth/],
    ['/assistants/tree/subgraphs?recurse=maybe', 422, /^recurse: expected true or false/],
    ['/assistants/00000000-0000-4000-8000-000000000000/graph', 404, /not found/],
    ['/assistants/nobody/schemas', 422, /expected a uuid or the id of a graph/],
    ['/assistants/broken/graph', 500, /no such luck/],
  ] as const)
    t.match(await send('GET', path), { status, body: { detail } }, path)
})

t.test('the types of TypeScript graphs are read after the start, before anybody asks', async t => {
  const cache = mkdtempSync(join(tmpdir(), 'weft-types-'))
  t.teardown(() => rmSync(cache, { recursive: true, force: true }))
  const typed = await startCluster({ app: 'test/apps/types', env: { XDG_CACHE_HOME: cache } })
  t.teardown(() => typed.stop())
  const folder = join(cache, 'weft/schemas')
  const file = await until(() => existsSync(folder) && readdirSync(folder).find(name => name.endsWith('.json')))
  const { found } = JSON.parse(readFileSync(join(folder, file), 'utf8'))
  t.match(found.builder.state, { properties: { count: { type: 'number' } } })
})
