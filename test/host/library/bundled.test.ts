/** The bundle of LangGraph that hosts load for applications without a copy of their own. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { bundledModules } from '../../../workers/host/library/bundled.js'
import { startHost } from '../host-helper.js'

const TABLE = fileURLToPath(new URL('../../../programs/library/table.json', import.meta.url))

t.test('each module exports what the installed file exports', async t => {
  const modules = [...bundledModules()]
  t.ok(modules.length > 50, `${modules.length} modules`)
  for (const [installed, bundled] of modules) {
    const [from, to] = await Promise.all([import(installed), import(bundled)])
    t.same(Object.keys(to), Object.keys(from), installed)
  }
})

t.test('installed packages of other versions, and a bundle that cannot be read, are no bundle', async t => {
  const table = JSON.parse(readFileSync(TABLE, 'utf8'))
  const folder = t.testdir({ 'table.json': JSON.stringify(table) })
  const write = (text: string) => writeFileSync(join(folder, 'table.json'), text)
  t.equal(bundledModules(folder).size, bundledModules().size)
  for (const name of Object.keys(table.packages)) {
    const packages = { ...table.packages, [name]: { ...table.packages[name], version: '0.0.1' } }
    write(JSON.stringify({ packages }))
    t.equal(bundledModules(folder).size, 0, name)
  }
  write(JSON.stringify({ packages: { ...table.packages, '@langchain/not-here': { version: '1.0.0', modules: {} } } }))
  t.equal(bundledModules(folder).size, 0, 'a package that is not installed')
  write('{"packages": ')
  t.equal(bundledModules(folder).size, 0, 'half a table')
  t.equal(bundledModules(join(folder, 'none')).size, 0)
})

const graph = `
import { Annotation, StateGraph } from '@langchain/langgraph'
import { AIMessage, BaseMessage } from '@langchain/core/messages'
import { z } from 'zod'
const State = Annotation.Root({ seen: Annotation })
const names = ['@langchain/langgraph', '@langchain/langgraph/web', '@langchain/core/messages', 'zod']
const seen = () => names.map(name => import.meta.resolve(name).split('/').at(-2))
export const graph = new StateGraph(State)
  .addNode('look', () => ({ seen: [...seen(), new AIMessage('') instanceof BaseMessage, z.string().parse('text')] }))
  .addEdge('__start__', 'look')
  .compile()
`

for (const [file, node_loader, place] of [
  ['graph.mjs', undefined, 'library'],
  ['graph.mts', undefined, 'library'],
  ['graph.mjs', './loader.mjs', 'dist'],
] as const)
  t.test(`${file}, ${node_loader ?? 'without a loader'}: the library is in ${place}`, async t => {
    const folder = t.testdir({
      [file]: graph,
      'loader.mjs': '',
      'package.json': '{}',
      'langgraph.json': JSON.stringify({ graphs: { graph: `./${file}:graph` }, node_loader }),
    })
    const host = await startHost(join(folder, 'langgraph.json'))
    t.teardown(() => host.stop())
    t.match(await host.hello, { graphs: [{ graph_id: 'graph', error: null }] })
    const { values } = await host.run({ graph_id: 'graph', kwargs: { input: {} } })
    const { seen } = values as { seen: unknown[] }
    t.same(seen.slice(4), [true, 'text'])
    t.same(seen.slice(0, 2), [place, place])
    t.same(seen[2], place === 'library' ? place : 'messages')
  })
