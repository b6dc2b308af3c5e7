/** WEFT_HOST_USER: neither graphs nor builds of a deployment can read the keys of Weft. */
import { chmodSync, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { root } from '../../cli/root.js'
import { venvOf, withoutPython } from '../../scripts/checks/venv.js'
import { findHostNode } from '../../workers/child/node.js'
import { findHostUser } from '../../workers/child/process.js'
import { startCluster } from '../helpers/cluster.js'
import { PUBLIC_NODE } from '../helpers/public-node.js'
import { lines } from '../helpers/sdk.js'
import { controlOf, deployEnv } from './control.js'
import { makeRepository, sourcesFolder } from './repository.js'

t.setTimeout(120_000)

t.test('a deployment under another user', { skip: process.getuid?.() !== 0 }, async t => {
  const { folder, remove } = sourcesFolder()
  t.teardown(remove)
  const env = { ...deployEnv(folder), WEFT_HOST_USER: 'nobody', WEFT_HOST_NODE: PUBLIC_NODE }
  const cluster = await startCluster({ app: 'test/apps/basic', env })
  t.teardown(() => cluster.stop())
  const control = controlOf(cluster.url)
  const key = join(cluster.data, 'encryption.key')
  t.ok(existsSync(key))
  const graph = `
import { readFileSync } from 'node:fs'
import { Annotation, END, START, StateGraph } from '@langchain/langgraph'
const attempt = work => { try { return String(work()) } catch (error) { return error.code } }
export const graph = new StateGraph(Annotation.Root({ uid: Annotation(), key: Annotation(), parent: Annotation(), file: Annotation() }))
  .addNode('node', async () => ({
    uid: process.getuid(),
    key: attempt(() => readFileSync(${JSON.stringify(key)}, 'utf8')),
    parent: attempt(() => readFileSync('/proc/' + process.ppid + '/environ', 'utf8')),
    file: attempt(() => readFileSync('./built', 'utf8').trim()),
  }))
  .addEdge(START, 'node')
  .addEdge('node', END)
  .compile()
`
  const files = { 'langgraph.json': '{"graphs":{"agent":"./graph.mjs:graph"}}', 'graph.mjs': graph }
  const repository = makeRepository(folder, 'app', { ...files, 'build.sh': 'id -u > built\nchmod 600 built\n' })
  const made = await control.create('other-user', repository.url, { config: { build_command: 'sh build.sh' } })
  await control.deployed(made)
  const values = await lines[0]!.connect(control.urlOf(made)).runs.wait(null, 'agent', { input: {} })
  t.same(values, { uid: 65534, key: 'EACCES', parent: 'EACCES', file: '65534' })

  const steals = `cat ${key}`
  const thief = await control.create('thief', repository.url, { config: { build_command: steals } })
  t.match(await control.over(thief), { status: 'BUILD_FAILED', status_message: /Permission denied/ })
})

t.test('a data folder that the user cannot enter', { skip: process.getuid?.() !== 0 }, async t => {
  const { folder, remove } = sourcesFolder()
  t.teardown(remove)
  chmodSync(folder, 0o700)
  const start = startCluster({
    app: 'test/apps/basic',
    env: { ...deployEnv(folder), WEFT_HOST_USER: 'nobody', WEFT_HOST_NODE: PUBLIC_NODE },
    data: join(folder, 'inner'),
  })
  await t.rejects(
    start.then(cluster => {
      t.teardown(() => cluster.stop())
    }),
    /nobody cannot enter/,
  )
})

t.test('a Node.js of Weft that the user cannot execute', { skip: process.getuid?.() !== 0 }, async t => {
  const hidden = t.testdir({ node: '' })
  chmodSync(hidden, 0o700)
  const { execPath } = process
  process.execPath = join(hidden, 'node')
  t.teardown(() => {
    process.execPath = execPath
  })
  t.throws(() => findHostNode('', findHostUser('nobody')), {
    message: `WEFT_HOST_USER: nobody cannot execute ${hidden}/node, the Node.js of Weft; WEFT_HOST_NODE names one that it can`,
  })
})

t.test(
  'a Python that the user cannot execute',
  { skip: process.getuid?.() !== 0 || withoutPython() !== null },
  async t => {
    const { folder, remove } = sourcesFolder()
    t.teardown(remove)
    const hidden = join(folder, 'hidden')
    mkdirSync(hidden, { mode: 0o700 })
    const python = await venvOf(join(root, 'test/host-python/requirements.txt'))
    const file = join(hidden, 'python')
    writeFileSync(file, `#!/bin/sh\nexec ${python} "$@"\n`, { mode: 0o755 })
    const start = startCluster({
      app: 'test/apps/basic-py',
      env: { WEFT_PYTHON: file, WEFT_HOST_USER: 'nobody', WEFT_HOST_NODE: PUBLIC_NODE },
    })
    await t.rejects(
      start.then(cluster => {
        t.teardown(() => cluster.stop())
      }),
      /WEFT_HOST_USER: nobody cannot execute .*\/hidden\/python; expected a Python in folders that it can enter/,
    )
  },
)
