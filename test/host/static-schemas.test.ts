/** JSON Schemas from the types of TypeScript graphs. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Annotation, StateGraph } from '@langchain/langgraph'
import t from 'tap'
import { root } from '../../cli/root.js'
import { extractionsOf } from '../../workers/host/loading.js'
import { subgraphs } from '../../workers/host/schemas/describe.js'
import { extract } from '../../workers/host/schemas/extract.js'
import { openSchemaCache } from '../../workers/host/schemas/schema-cache.js'
import { openStaticSchemas } from '../../workers/host/schemas/static-schemas.js'
import { until } from '../helpers/until.js'

t.setTimeout(180_000)
const folder = join(root, 'test/apps/types')
const graph = (name: string, file = 'graph.ts') =>
  ({ graph_id: name, file: join(folder, file), name }) as Parameters<typeof extractionsOf>[1][number]

t.test('what the types said is kept on disk until a file changes', async t => {
  const app = mkdtempSync(join(folder, 'cached-'))
  t.teardown(() => rmSync(app, { recursive: true }))
  const file = join(app, 'graph.ts')
  const write = (type: string) => {
    writeFileSync(join(app, 'item.ts'), `export type Item = ${type}`)
    writeFileSync(
      file,
      `import { Annotation, StateGraph } from '@langchain/langgraph'
       import type { Item } from './item.js'
       export const graph = new StateGraph(Annotation.Root({ item: Annotation<Item> }))`,
    )
  }
  const extractions = extractionsOf(app, [{ ...graph('graph'), file }])
  const kept = () => openSchemaCache(extractions, import.meta.filename, join(app, 'cache'))
  const stateOf = async () => {
    const schemas = openStaticSchemas(extractions, { cache: kept() })
    const found = await until(() => schemas.of('graph').catch(() => undefined))
    return found!.state!.properties
  }
  write('number')
  t.equal(kept().read(), null)
  t.same(await stateOf(), { item: { type: 'number' } })
  t.match(kept().read(), { graph: { state: { properties: { item: { type: 'number' } } } } })
  write('string')
  t.equal(kept().read(), null, 'a file that the graph imports has changed')
  t.same(await stateOf(), { item: { type: 'string' } })
  rmSync(join(app, 'item.ts'))
  t.equal(kept().read(), null)
})

t.test('the types of graphs, builders and factories', async t => {
  const names = ['graph', 'builder', 'factory', 'untyped']
  const [extraction] = extractionsOf(
    folder,
    names.map(name => graph(name)),
  )
  const { found } = extract(extraction!)
  t.same(Object.keys(found), names)
  const { state, input, output, config } = found.graph!
  t.match(state, {
    type: 'object',
    properties: {
      messages: { type: 'array', langgraph_type: 'messages' },
      count: { type: 'number', description: 'How often it ran.' },
      items: { type: 'array', items: { $ref: '#/definitions/Item' } },
      notes: { type: 'array', items: { type: 'string' } },
    },
    definitions: {
      Item: {
        properties: {
          id: { type: 'string' },
          kind: { enum: ['a', 'b'] },
          parent: { $ref: '#/definitions/Item' },
          tags: { type: 'array' },
        },
        required: ['id', 'kind'],
      },
    },
  })
  t.ok('free' in (state!.properties as object))
  t.match(input, { properties: { question: { type: 'string' } } })
  t.notOk(input!.required, 'an input may name some fields only')
  t.same(Object.keys(output!.properties as object), ['question'])
  t.match(config, {
    properties: { model: { enum: ['large', 'small'] }, depth: { type: 'number' } },
    required: ['model'],
  })
  t.same(found.builder!.state, state)
  t.same(found.factory, found.builder)
  t.match(found.builder!.input, {
    properties: { messages: { langgraph_type: 'messages' }, count: { type: 'number' }, notes: { anyOf: Array } },
  })
  t.equal(found.builder!.config, null, 'a graph without settings')
  t.same(found.untyped, { state: null, input: null, output: null, config: null })
  t.notMatch(JSON.stringify(found), /import\(|node_modules|\/test\//, 'no path of this machine')
})

t.test('what cannot be read has no types, and costs the others nothing', async t => {
  const extractions = extractionsOf(folder, [graph('graph'), graph('nobody'), graph('lost', 'missing.ts')])
  const schemas = openStaticSchemas(extractions)
  const ask = async (id: string) => {
    for (;;) {
      const found = await schemas
        .of(id)
        .catch(error => (error.code === 'unavailable' ? undefined : Promise.reject(error)))
      if (found !== undefined) return found
    }
  }
  t.match((await ask('graph'))!.state, { properties: { count: {} } })
  t.match(await ask('nobody'), { state: null })
  t.match(await ask('lost'), { state: null })
  t.equal(await schemas.of('javascript'), null, 'it has no TypeScript file')
})

t.test('a subgraph has the types of the fields that it shares with its graph', async t => {
  const inner = new StateGraph(Annotation.Root({ items: Annotation<unknown>, own: Annotation<unknown> }))
    .addNode('inside', () => ({}))
    .addEdge('__start__', 'inside')
    .compile()
  const outer = new StateGraph(Annotation.Root({ items: Annotation<unknown> }))
    .addNode('sub', inner)
    .addEdge('__start__', 'sub')
    .compile()
  const items = { type: 'array', items: { $ref: '#/definitions/Item' } }
  const state = { type: 'object', properties: { items }, definitions: { Item: { type: 'object' } } }
  const types = { of: async () => ({ state, input: null, output: null, config: null }) }
  const call = {
    verb: 'subgraphs',
    graph_id: 'outer',
    thread_id: '',
    config: {},
    namespace: null,
    recurse: false,
  } as const
  const found = JSON.parse(await subgraphs(call, outer as never, null, types))
  t.match(found.sub.state_schema, { properties: { items, own: {} }, definitions: state.definitions })
})

t.test('a compiler that does not end is stopped', async t => {
  const schemas = openStaticSchemas(extractionsOf(folder, [graph('graph')]), { limit_ms: 10 })
  t.equal(await schemas.of('graph'), null)
})
