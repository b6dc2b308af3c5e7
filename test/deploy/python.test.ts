/** A deployment with a Python graph and an `auth` in Python: its environment, its roll over, and what can go wrong. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { root } from '../../cli/root.js'
import { pathWithUv, venvOf, withoutPython } from '../../scripts/checks/venv.js'
import { startCluster } from '../helpers/cluster.js'
import { sender } from '../helpers/http.js'
import { makeLinkedWheel, makeWheel, wheelEnv } from '../helpers/wheels.js'
import { controlOf, deployEnv } from './control.js'
import { type Files, makeRepository, sourcesFolder } from './repository.js'

t.setTimeout(300_000)
const skip = withoutPython() ?? false

const graph = (word: string): string => `
import os
from typing import TypedDict

from langgraph.graph import START, StateGraph


class State(TypedDict, total=False):
    text: str
    answer: str


async def node(state: State) -> State:
    return {"answer": f"${word} {state['text']} {os.environ['TOKEN']}"}


graph = StateGraph(State).add_node(node).add_edge(START, "node").compile()
`
const application = (word: string): Files => ({
  'langgraph.json': JSON.stringify({
    dependencies: ['.'],
    graphs: { agent: './src/agent.py:graph' },
    auth: { path: './auth.py:auth' },
  }),
  'requirements.txt': 'langgraph\n',
  'src/agent.py': graph(word),
  'auth.py': `
from langgraph_sdk import Auth

auth = Auth()


@auth.authenticate
async def authenticate(authorization: str | None) -> str:
    if authorization != "Bearer ada":
        raise Auth.exceptions.HTTPException(status_code=401, detail="Who are you?")
    return "ada"
`,
})

t.test('a deployment with a Python graph', { skip }, async t => {
  const { folder, remove } = sourcesFolder()
  t.teardown(remove)
  const wheels = join(folder, 'wheels')
  mkdirSync(wheels)
  const python = await venvOf(join(root, 'test/host-python/requirements.txt'))
  makeLinkedWheel(wheels, python)
  // Its modules are those of the linked environment, too.
  makeWheel(wheels, 'starlette', '1.0.0', { 'linked_starlette.py': '' })
  const installers = wheelEnv(wheels)
  // The environments are made without a network, and uv makes them with a quarter of the CPU time.
  const PATH = await pathWithUv()
  const env = { ...deployEnv(folder), ...installers, PATH, WEFT_BUILD_ENV: Object.keys(installers).join() }
  const cluster = await startCluster({ app: 'test/apps/basic', env })
  t.teardown(() => cluster.stop())
  const control = controlOf(cluster.url)
  const repository = makeRepository(folder, 'agent', application('one'))
  const secrets = [{ name: 'TOKEN', value: 'of-the-deployment' }]
  const created = await control.create('agent', repository.url, { secrets })

  await t.test('is installed, probed and served', async t => {
    await control.deployed(created)
    const send = sender(control.urlOf(created))
    const run = { assistant_id: 'agent', input: { text: 'hello' } }
    t.match(await send('POST', '/runs/wait', run), { status: 401, body: { detail: 'Who are you?' } })
    const answer = await send('POST', '/runs/wait', run, { authorization: 'Bearer ada' })
    t.match(answer, { status: 200, body: { answer: 'one hello of-the-deployment' } })
    const log = await control.buildLog(created.id, created.latest_revision_id!)
    for (const line of [
      /^install: an environment with Python 3\.\d+/,
      /pip install/,
      /Successfully installed langgraph|\+ langgraph==/,
    ])
      t.ok(
        log.some(text => line.test(text)),
        `${line}`,
      )
    t.ok(log.includes('probe: agent can be loaded'))
  })

  await t.test('rolls over to the next revision; a failed one changes nothing', async t => {
    const send = sender(control.urlOf(created))
    const answer = async () => {
      const run = { assistant_id: 'agent', input: { text: 'x' } }
      return (await send('POST', '/runs/wait', run, { authorization: 'Bearer ada' })).body
    }
    const fail = async (files: Files, why: RegExp) => {
      repository.commit(files)
      t.match(await control.over(await control.again(created.id)), { status: 'BUILD_FAILED', status_message: why })
      t.match(await answer(), { answer: 'one x of-the-deployment' })
    }
    await fail({ 'requirements.txt': 'no-such-package-of-weft==1.0\n' }, /install failed .*no-such-package-of-weft/)
    await fail(
      { 'requirements.txt': '', 'src/agent.py': 'import absent_module\n' },
      /probe: .*No module named 'absent_module'/,
    )
    const config = { ...JSON.parse(application('x')['langgraph.json']!), python_version: '3.4' }
    await fail(
      { 'langgraph.json': JSON.stringify(config) },
      /install: the graphs need Python 3\.4, which is not on PATH/,
    )
    repository.commit(application('two'))
    await control.deployed(await control.again(created.id))
    t.match(await answer(), { answer: 'two x of-the-deployment' })
  })

  await t.test('an install command makes the environment, or the build fails', async t => {
    const none = await control.create('none', repository.url, { secrets, config: { install_command: 'true' } })
    const why = /install: there is no \.venv\/bin\/python beside langgraph\.json/
    t.match(await control.over(none), { status: 'BUILD_FAILED', status_message: why })
  })
})
