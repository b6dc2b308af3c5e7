/** WEFT_HOST_NODE: another Node.js executes graphs, and installs, builds and probes of deployments. */
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { chooseHostNode, findHostNode } from '../../workers/child/node.js'
import { startCluster } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'
import { controlOf, deployEnv } from './control.js'
import { makeRepository, sourcesFolder } from './repository.js'

t.setTimeout(120_000)

function program(path: string, script: string): string {
  writeFileSync(path, `#!/bin/sh\n${script}\n`)
  chmodSync(path, 0o755)
  return path
}

/** A Node.js that code can tell from that of the tests. */
const OTHER = `OTHER_NODE=yes exec ${process.execPath} "$@"`
const GRAPH = `
import { readFileSync } from 'node:fs'
import { Annotation, END, START, StateGraph } from '@langchain/langgraph'
if (process.env.OTHER_NODE !== 'yes') throw new Error('loaded by the Node.js of Weft')
const built = () => { try { return readFileSync('./built', 'utf8').trim() } catch { return null } }
export const graph = new StateGraph(Annotation.Root({ other: Annotation(), built: Annotation() }))
  .addNode('node', async () => ({ other: process.env.OTHER_NODE, built: built() }))
  .addEdge(START, 'node')
  .addEdge('node', END)
  .compile()
`
const files = {
  'langgraph.json': '{"graphs":{"agent":"./graph.mjs:graph"}}',
  'graph.mjs': GRAPH,
  'build.sh': 'node -p process.env.OTHER_NODE > built\n',
}

t.test('graphs of the application and of deployments', async t => {
  const { folder, remove } = sourcesFolder()
  t.teardown(remove)
  mkdirSync(join(folder, 'bin'))
  const node = program(join(folder, 'bin', 'node'), OTHER)
  const repository = makeRepository(folder, 'app', files)
  const cluster = await startCluster({ app: repository.folder, env: { ...deployEnv(folder), WEFT_HOST_NODE: node } })
  t.teardown(() => cluster.stop())
  t.match(cluster.output(), /graph hosts run on this Node.js/)
  t.same(await lines[0]!.connect(cluster.url).runs.wait(null, 'agent', { input: {} }), { other: 'yes', built: null })
  const drawn = await fetch(`${cluster.url}/assistants/agent/graph`)
  t.equal(drawn.status, 200, 'the host that draws graphs')

  const control = controlOf(cluster.url)
  const made = await control.create('other-node', repository.url, { config: { build_command: 'sh build.sh' } })
  await control.deployed(made)
  const values = await lines[0]!.connect(control.urlOf(made)).runs.wait(null, 'agent', { input: {} })
  t.same(values, { other: 'yes', built: 'yes' })
})

t.test('a program that cannot execute hosts is refused with one sentence', async t => {
  const folder = t.testdir()
  const at = (name: string) => join(folder, name)
  const old = program(at('old'), `echo '{"node":"18.20.0","modules":"108"}'`)
  const other = program(at('other'), 'echo hello')
  writeFileSync(at('plain'), 'no program')
  t.throws(() => findHostNode(old, null), {
    message: `WEFT_HOST_NODE: ${old} is Node.js 18.20.0; graph hosts need 20 or newer`,
  })
  for (const path of [other, at('plain'), at('missing')])
    t.throws(() => findHostNode(path, null), {
      message: `WEFT_HOST_NODE: ${path} is no Node.js that this user can execute`,
    })
  const own = { path: process.execPath, version: process.version, modules: process.versions.modules }
  t.same(findHostNode('', null), own)
  t.same(findHostNode(process.execPath, null), own)
  const start = startCluster({ app: 'test/apps/basic', env: { WEFT_HOST_NODE: at('missing') } })
  await t.rejects(
    start.then(cluster => {
      t.teardown(() => cluster.stop())
    }),
    { message: /WEFT_HOST_NODE: .*missing is no Node.js/ },
  )
})

t.test('a program is executed once for all roles of a process', async t => {
  const folder = t.testdir()
  const node = program(join(folder, 'node'), `echo >>"${folder}/starts"; echo '{"node":"24.1.0","modules":"137"}'`)
  const found = { path: node, version: 'v24.1.0', modules: '137' }
  t.same(findHostNode(node, null), found)
  t.same(findHostNode(node, null), found)
  t.equal(readFileSync(join(folder, 'starts'), 'utf8'), '\n')
})

t.test('a newer Node.js takes the place of that of Weft, unless it cannot', async t => {
  const folder = t.testdir({
    plain: { 'langgraph.json': '{}', node_modules: { '@scope': { one: {} }, two: { 'package.json': '{}' } } },
    dispensable: { node_modules: { 'cpu-features': { 'binding.gyp': '{}' } } },
    compiled: { app: {}, node_modules: { '@scope': { addon: { 'binding.gyp': '{}' } } } },
    pnpm: { node_modules: { '.pnpm': { 'addon@1': { node_modules: { addon: { 'binding.gyp': '{}' } } } } } },
  })
  const at = (name: string) => join(folder, name)
  const newer = program(at('newer'), `echo '{"node":"24.1.0","modules":"137"}'`)
  const lines: string[] = []
  const log = {
    info: (...of: unknown[]) => lines.push(`${of.at(-1)}`),
    warn: (text: string) => lines.push(text),
  } as never
  const choose = (app?: string, newest_node = newer, host_node = '') =>
    chooseHostNode({ host_node, newest_node }, null, log, app).path
  t.equal(choose(), newer)
  t.equal(choose(at('plain/langgraph.json')), newer)
  t.equal(choose(at('dispensable')), newer)
  t.equal(choose(at('compiled/app')), process.execPath, 'the packages of a parent folder count')
  t.equal(choose(at('pnpm')), process.execPath)
  t.match(lines.at(-1), /a package of the application is compiled; WEFT_HOST_NODE/)
  t.equal(choose(at('pnpm'), newer, newer), newer, 'WEFT_HOST_NODE decides for itself')
  t.equal(choose(at('plain'), at('missing')), process.execPath)
  t.match(lines.at(-1), /missing is no Node.js/)
  t.equal(choose(at('plain'), ''), process.execPath)
})
