/** Hosts in a sandbox: a hostile graph finds nothing of the machine, and a decent application works as without one. */
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer as createHttp } from 'node:http'
import { createServer } from 'node:net'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { root } from '../../cli/root.js'
import { venvOf, withoutPython } from '../../scripts/checks/venv.js'
import { type Cluster, startCluster } from '../helpers/cluster.js'

t.setTimeout(240_000)

const probe = spawnSync('bwrap', ['--unshare-user', '--unshare-pid', '--ro-bind', '/', '/', 'true'])
/** bubblewrap 0.8 and later. */
const hasClosed = `${spawnSync('bwrap', ['--help'], { encoding: 'utf8' }).stdout}`.includes('--disable-userns')
const skip = probe.status === 0 ? false : 'bubblewrap cannot make a sandbox here'

const app = join(root, 'test/apps/sandbox')
const folder = mkdtempSync(join(tmpdir(), 'weft-sandbox-'))
/** In the repository of the application, which its hosts see. */
const data = mkdtempSync(join(root, 'dist', 'sandbox-data-'))
t.teardown(() => {
  for (const each of [folder, data]) rmSync(each, { recursive: true, force: true })
})

/** Asks by two clients that read the variables of the proxy. */
const ASKING = `
import asyncio
import urllib.error
import urllib.request
from typing import TypedDict

import httpx
from langgraph.graph import START, StateGraph


class State(TypedDict, total=False):
    urls: list[str]
    answers: list[str]


def ask(url: str) -> int:
    try:
        return urllib.request.urlopen(url).status
    except urllib.error.HTTPError as error:
        return error.code


async def node(state: State) -> State:
    async with httpx.AsyncClient() as client:
        first = [(await client.get(url)).status_code for url in state["urls"]]
    second = [await asyncio.to_thread(ask, url) for url in state["urls"]]
    return {"answers": [f"{a} {b}" for a, b in zip(first, second)]}


graph = StateGraph(State).add_node(node).add_edge(START, "node").compile()
`

interface Attempt {
  got?: unknown
  refused?: string
}
interface Seen {
  lists: Attempt[]
  reads: Attempt[]
  writes: Attempt[]
  own: Attempt
  pids: number
  environments: string
  kill: Attempt
  mount: Attempt
  nested: Attempt
  port: Attempt
  loopback: Attempt
  home: string
  asked: Attempt[]
  fetched: Attempt[] | null
}

/** The findings of the hostile graph. */
async function attack(cluster: Cluster, port: number, urls: string[] = []): Promise<Seen> {
  const secret = join(folder, 'secret.txt')
  writeFileSync(secret, 'of another project')
  const input = {
    paths: [data, homedir(), folder, tmpdir()],
    files: [secret, '/etc/shadow', join(data, 'control.key'), `/proc/${process.pid}/environ`],
    pid: process.pid,
    port,
    urls,
  }
  const answer = await fetch(`${cluster.url}/runs/wait`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ assistant_id: 'spy', input }),
  })
  const values = (await answer.json()) as { seen?: Seen }
  if (values.seen === undefined) throw new Error(JSON.stringify(values))
  return values.seen
}

for (const network of [true, false])
  t.test(`a hostile graph, network ${network ? 'on' : 'off'}`, { skip }, async t => {
    const server = createServer(socket => socket.end()).listen(0, '127.0.0.1')
    t.teardown(() => server.close())
    await once(server, 'listening')
    const { port } = server.address() as { port: number }
    const env = { WEFT_HOST_SANDBOX: 'bubblewrap', WEFT_HOST_NETWORK: String(network), WEFT_HOSTS: '1' }
    const cluster = await startCluster({ app, data, env })
    t.teardown(() => cluster.stop())
    const seen = await attack(cluster, port)
    t.ok(existsSync(join(data, 'control.key')), 'there is something to find')
    for (const [i, { got = [] }] of seen.lists.entries()) {
      const names = (got as string[]).join()
      t.notMatch(names, /control|weft\.db|\.bash|secret/, `folder ${i} shows nothing of ours`)
    }
    for (const { refused } of seen.reads) t.match(refused, /ENOENT|EACCES/)
    for (const { refused } of seen.writes) t.match(refused, /EROFS|EACCES|EPERM|ENOENT/)
    t.same(seen.own, { got: 'x' }, 'a private temporary folder')
    t.notOk(existsSync('/tmp/own.txt'))
    t.ok(seen.pids < 10, 'its own processes only')
    t.notMatch(seen.environments, /NATS_URL|WEFT_CONTROL_KEY|MONGODB_URL|DATABASE_URI/)
    t.match(seen.kill, { refused: 'ESRCH' }, 'no process of ours')
    t.ok(seen.mount.refused, 'no rights of a namespace')
    if (hasClosed) t.match(seen.nested, { refused: /unshare failed/ }, 'and no namespace inside of it')
    t.match(seen.port, network ? { got: 'open' } : { refused: /ECONNREFUSED|ENETUNREACH/ })
    t.match(seen.loopback, { got: 1 }, 'its own server is reached over a socket')
    t.equal(seen.home, '/tmp/home')
    t.equal(await (await fetch(`${cluster.url}/mine`)).text(), 'mine', 'http.app in a sandbox')
  })

t.test('hosts that may reach listed addresses', { skip: skip || (withoutPython() ?? false) }, async t => {
  const server = createHttp((_, answer) => void answer.end('served')).listen(0, '127.0.0.2')
  const other = createHttp((_, answer) => void answer.end('served')).listen(0, '127.0.0.2')
  for (const each of [server, other]) t.teardown(() => each.close())
  await Promise.all([server, other].map(each => once(each, 'listening')))
  const [port, closed] = [server, other].map(each => (each.address() as { port: number }).port)
  const app = join(folder, 'listed')
  mkdirSync(app)
  const graphs = { spy: './graph.mjs:graph', python: './agent.py:graph' }
  writeFileSync(join(app, 'langgraph.json'), JSON.stringify({ dependencies: [], graphs }))
  copyFileSync(join(root, 'test/apps/sandbox/graph.mjs'), join(app, 'graph.mjs'))
  writeFileSync(join(app, 'agent.py'), ASKING)
  const python = await venvOf(join(root, 'test/host-python/requirements.txt'))
  const env = {
    WEFT_HOST_SANDBOX: 'bubblewrap',
    WEFT_HOST_NETWORK: `127.0.0.2:${port}, localhost, *.example.com`,
    WEFT_PYTHON: python,
    WEFT_HOSTS: '1',
  }
  const cluster = await startCluster({ app, data, env })
  t.teardown(() => cluster.stop())
  const urls = [
    `http://127.0.0.2:${port}/`,
    `http://127.0.0.2:${closed}/`,
    `http://localhost:${closed}/`,
    `http://[::ffff:127.0.0.2]:${closed}/`,
    'http://169.254.169.254/',
    'http://example.com/',
  ]
  const seen = await attack(cluster, port!, urls)
  const refused = urls.slice(1).map(() => 403)
  t.same(
    seen.asked.map(({ got }) => got),
    [200, 'HTTP/1.1 200 OK', ...refused.flatMap(status => [status, status])],
    'what is listed is reached by the proxy, and nothing else',
  )
  t.match(seen.port, { refused: /ECONNREFUSED|ENETUNREACH/ }, 'there is no other way')
  t.match(seen.loopback, { got: 2 }, 'its own server is reached over a socket')
  if (seen.fetched !== null) t.same(seen.fetched, [{ got: 200 }, ...refused.map(() => ({ refused: 'fetch failed' }))])
  t.match(cluster.output(), /is not in WEFT_HOST_NETWORK/, 'the log says what was refused')
  const answer = await fetch(`${cluster.url}/runs/wait`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ assistant_id: 'python', input: { urls: urls.slice(0, 2) } }),
  })
  t.same(await answer.json(), { urls: urls.slice(0, 2), answers: ['200 200', '403 403'] })
})

t.test('Python in a sandbox', { skip: skip || (withoutPython() ?? false) }, async t => {
  const python = await venvOf(join(root, 'test/host-python/requirements.txt'))
  const env = { WEFT_HOST_SANDBOX: 'bubblewrap', WEFT_PYTHON: python, WEFT_HOSTS: '1' }
  const cluster = await startCluster({ app: 'test/apps/basic-py', env })
  t.teardown(() => cluster.stop())
  for (const assistant_id of ['counter', 'javascript']) {
    const answer = await fetch(`${cluster.url}/runs/wait`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ assistant_id, input: { steps: 2 } }),
    })
    t.match(await answer.json(), { numbers: [1, 2] }, assistant_id)
  }
})

t.test('what cannot be started is said', { skip }, async t => {
  await t.rejects(startCluster({ app, env: { WEFT_HOST_SANDBOX: 'firejail' } }), /expected bubblewrap or nothing/)
  const path = join(folder, 'empty')
  mkdirSync(path, { recursive: true })
  const { findSandbox } = await import('../../workers/child/sandbox.js')
  const before = process.env.PATH
  process.env.PATH = path
  t.throws(
    () => findSandbox({ host_sandbox: 'bubblewrap', data: folder }, null),
    /bwrap was not found; install bubblewrap/,
  )
  process.env.PATH = before
})

t.test('variables of a deployment decide nothing that is shown', async t => {
  const { inSandbox } = await import('../../workers/child/sandbox.js')
  const tree = join(folder, 'tree')
  mkdirSync(join(tree, '.venv/bin'), { recursive: true })
  mkdirSync(join(folder, 'bin'))
  writeFileSync(join(folder, 'bin/python'), '')
  symlinkSync(join(folder, 'bin/python'), join(tree, '.venv/bin/python'))
  const env = {
    VIRTUAL_ENV: folder,
    WEFT_APP_SOCKETS: folder,
    WEFT_LOOPBACK: folder,
    LD_PRELOAD: join(tree, 'evil.so'),
  }
  const given = { app: join(tree, 'langgraph.json'), command: join(tree, '.venv/bin/python'), args: [], env }
  const sandbox = {
    namespaces: [],
    hidden: [data],
    shared: [],
    network: 'off',
    deployed: { tree, python: null },
  } as const
  const started = inSandbox(sandbox, { ...given, own: {} })
  t.ok(started.args.includes(tree))
  t.notOk(started.args.includes(folder), 'no folder that they or a link name')
  t.equal(started.env.LD_PRELOAD, undefined, 'bubblewrap itself loads nothing of theirs')
  t.match(started.args.join(' '), /--setenv LD_PRELOAD /, 'their program gets all of them')

  const own = { WEFT_APP_SOCKETS: folder }
  const app = inSandbox(sandbox, { ...given, own })
  const bindings = app.args.join(' ')
  t.match(bindings, `--ro-bind-try ${folder} ${folder} `, 'sockets that we connect to cannot be exchanged')
  t.match(bindings, `--bind ${folder}/app ${folder}/app`, 'the application binds its own beside them')
})

t.test('a repository around the data folder is not shown to deployments', async t => {
  const { inSandbox } = await import('../../workers/child/sandbox.js')
  const project = join(folder, 'project')
  const tree = join(project, '.weft/deploy/artefacts/a/tree')
  mkdirSync(join(tree, 'apps/agent'), { recursive: true })
  mkdirSync(join(project, '.git'))
  const sandbox = { namespaces: [], hidden: [join(project, '.weft')], shared: [], network: 'off' } as const
  const given = { app: join(tree, 'apps/agent/langgraph.json'), command: process.execPath, args: [], env: {}, own: {} }
  const shown = (deployed: { tree: string; python: null } | null) => inSandbox({ ...sandbox, deployed }, given).args
  t.ok(shown({ tree, python: null }).includes(tree), 'all of its own files')
  t.notOk(shown({ tree, python: null }).includes(project))
  t.ok(shown(null).includes(project), 'an application of the operator lies in its repository')
})
