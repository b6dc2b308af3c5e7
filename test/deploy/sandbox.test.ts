/** Builds and probes in a sandbox: packages that try each way out get nothing, and decent ones are built as without one. */
import { execFile, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer as createRegistry } from 'node:http'
import { createServer, type Server } from 'node:net'
import { homedir, tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { root } from '../../cli/root.js'
import { venvOf, withoutPython } from '../../scripts/checks/venv.js'
import { startCluster } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'
import { makeLinkedWheel, wheelEnv } from '../helpers/wheels.js'
import { controlOf, deployEnv } from './control.js'
import { graphFile, makeRepository, sourcesFolder } from './repository.js'

t.setTimeout(300_000)

const probe = spawnSync('bwrap', ['--unshare-user', '--unshare-pid', '--ro-bind', '/', '/', 'true'])
const skip = probe.status === 0 ? (withoutPython() ?? false) : 'bubblewrap cannot make a sandbox here'
const hostile = join(root, 'test/apps/hostile')

const PYTHON = `
import os
from typing import TypedDict

from langgraph.graph import START, StateGraph


class State(TypedDict, total=False):
    text: str
    answer: str


async def node(state: State) -> State:
    return {"answer": os.environ.get(state["text"], "not there")}


graph = StateGraph(State).add_node(node).add_edge(START, "node").compile()
`

interface Attack {
  way: string
  what: unknown
  got?: string
  refused?: string
}

/** A service that a package finds when it looks around. */
function listening(t: Test, where: { path: string } | { port: number; host: string }): Server {
  const server = createServer(socket => socket.end()).listen(where)
  t.teardown(() => server.close())
  return server
}

/** A registry with one package, at an address of this machine. */
async function openRegistry(t: Test, name: string, tarball: string): Promise<string> {
  const server = createRegistry(({ url = '' }, answer) => {
    if (url.endsWith('.tgz')) return void answer.end(readFileSync(tarball))
    const dist = { tarball: `${address()}/${name}.tgz` }
    const found = { name, 'dist-tags': { latest: '1.0.0' }, versions: { '1.0.0': { name, version: '1.0.0', dist } } }
    answer.setHeader('content-type', 'application/json').end(JSON.stringify(found))
  }).listen(0, '127.0.0.2')
  t.teardown(() => server.close())
  await once(server, 'listening')
  const address = () => `http://127.0.0.2:${(server.address() as { port: number }).port}`
  return address()
}

/** A tarball as registries have it. */
async function pack(folder: string, name: string, files: { [path: string]: string }): Promise<string> {
  const from = join(folder, `${name}-source`)
  mkdirSync(from)
  for (const [path, text] of Object.entries(files)) writeFileSync(join(from, path), text)
  // The connections of the test see what the server closes meanwhile.
  const { stdout } = await promisify(execFile)('npm', ['pack', '--silent', '--pack-destination', folder], { cwd: from })
  return join(folder, stdout.trim())
}

t.test('packages that install scripts and build backends come from', { skip }, async t => {
  const { folder, remove } = sourcesFolder()
  t.teardown(remove)
  const outside = mkdtempSync(join(tmpdir(), 'weft-outside-'))
  t.teardown(() => rmSync(outside, { recursive: true, force: true }))
  const wheels = join(folder, 'wheels')
  mkdirSync(wheels)
  const python = await venvOf(join(root, 'test/host-python/requirements.txt'))
  makeLinkedWheel(wheels, python)
  const fetched = await pack(folder, 'fetched', { 'package.json': '{"name":"fetched","version":"1.0.0"}' })
  const registry = await openRegistry(t, 'fetched', fetched)
  const installers = { ...wheelEnv(wheels), NPM_CONFIG_REGISTRY: registry }
  const env = {
    ...deployEnv(folder),
    ...installers,
    // The Python that environments are made of has the modules of the linked package.
    PATH: [dirname(python), process.env.PATH].join(delimiter),
    WEFT_BUILD_ENV: Object.keys(installers).join(),
    WEFT_HOST_SANDBOX: 'bubblewrap',
    WEFT_ALLOW_HOSTS: new URL(registry).host,
    SECRET_OF_THE_SERVER: 'of-the-server',
  }
  const cluster = await startCluster({ app: 'test/apps/basic', env })
  t.teardown(() => cluster.stop())
  const control = controlOf(cluster.url)
  const deploy = join(cluster.data, 'deploy')

  const description = JSON.stringify({
    dependencies: ['.'],
    graphs: { agent: './graph.mjs:graph', python: './agent.py:graph' },
    env: '.env',
  })
  const common = { 'langgraph.json': description, 'agent.py': PYTHON, 'graph.mjs': graphFile('hello') }
  const decent = makeRepository(folder, 'decent', {
    ...common,
    '.env': 'FROM_FILE=read\n',
    'requirements.txt': 'langgraph\n',
    'package.json': JSON.stringify({ dependencies: { decent: 'file:./decent-1.0.0.tgz', fetched: '1.0.0' } }),
  })
  const script = { postinstall: 'echo installed > made.txt && echo cached > "$HOME/cached.txt"' }
  cpSync(
    await pack(folder, 'decent-package', {
      'package.json': JSON.stringify({ name: 'decent', version: '1.0.0', scripts: script }),
    }),
    join(decent.folder, 'decent-1.0.0.tgz'),
  )
  decent.commit({})
  const made = await control.create('decent', decent.url, { secrets: [{ name: 'TOKEN', value: 'of-decent' }] })
  await control.deployed(made)
  const ask = (deployment: typeof made, graph: string, input: { [name: string]: string }) =>
    lines[0]!.connect(control.urlOf(deployment)).runs.wait(null, graph, { input })
  t.match(await ask(made, 'agent', { text: 'you' }), { answer: 'hello you' }, 'a decent build with npm')
  t.match(await ask(made, 'python', { text: 'TOKEN' }), { answer: 'of-decent' }, 'and with pip')
  t.match(await ask(made, 'python', { text: 'FROM_FILE' }), { answer: 'read' })
  const home = join(deploy, 'home', made.id)
  t.equal(readFileSync(join(home, 'cached.txt'), 'utf8'), 'cached\n', 'it has a home of its own')
  const [artefact] = readdirSync(join(deploy, 'artefacts'))
  const tree = join(deploy, 'artefacts', artefact!, 'tree')
  t.ok(existsSync(join(tree, 'node_modules/decent/made.txt')), 'its install script ran')
  t.ok(existsSync(join(tree, 'node_modules/fetched/package.json')), 'a registry that the operator opens is reached')

  const server = listening(t, { host: '127.0.0.1', port: 0 })
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  const socket = join(outside, 'service.sock')
  listening(t, { path: socket })
  writeFileSync(join(outside, 'env'), 'STOLEN=secret\n')
  const pids = [process.pid, ...cluster.pids()]
  const left = `left-by-${process.pid}`
  const targets = {
    lists: [cluster.data, deploy, join(deploy, 'home'), home, tree, folder, outside, homedir(), tmpdir()],
    reads: [join(outside, 'env'), join(cluster.data, 'control.key'), join(home, 'cached.txt'), '/etc/shadow'],
    writes: [
      ...[outside, home, tree, cluster.data, wheels, '/usr', '/etc', '/dev', homedir()].map(at => join(at, 'x')),
      join(home, '.npmrc'),
      '/x',
      join(root, 'dist/programs/x'),
    ],
    folders: [join(deploy, 'artefacts', 'f'.repeat(64), 'tree')],
    pid: pids.at(-1)!,
    ports: [port, Number(new URL(cluster.url).port)],
    socket,
    abstract: '@weft-nothing',
    left,
  }
  const text = JSON.stringify(targets)
  const attack = readFileSync(join(hostile, 'attack.mjs'), 'utf8')
  const evil = makeRepository(folder, 'evil', {
    ...common,
    '.env': 'FROM_FILE=read\n',
    'pyproject.toml':
      '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n[project]\nname = "evil"\nversion = "1"\n',
    'backend.py': readFileSync(join(hostile, 'backend.py'), 'utf8'),
    'targets.json': text,
    'package.json': JSON.stringify({ dependencies: { evil: 'file:./evil-1.0.0.tgz' } }),
    // Its output is that of the build, which the output of an install script is not.
    'say.sh': `cat "$HOME/node-attack.txt" "$HOME/python-attack.txt"
mv .venv/bin/python .venv/bin/python3.real && mv interpreter.sh .venv/bin/python && chmod 755 .venv/bin/python`,
    'interpreter.sh': `#!/bin/sh\necho ran >> ${outside}/ran\nexec "$(dirname "$0")/python3.real" "$@"\n`,
  })
  cpSync(
    await pack(folder, 'evil-package', {
      'package.json': JSON.stringify({
        name: 'evil',
        version: '1.0.0',
        scripts: { postinstall: 'node attack.mjs > "$HOME/node-attack.txt" 2>&1' },
      }),
      'attack.mjs': attack,
      'targets.json': text,
    }),
    join(evil.folder, 'evil-1.0.0.tgz'),
  )
  evil.commit({})
  const secrets = [
    { name: 'TOKEN', value: 'of-evil' },
    { name: 'VIRTUAL_ENV', value: outside },
  ]
  const config = { build_command: 'sh say.sh' }
  const bad = await control.create('evil', evil.url, { secrets, config })
  await control.deployed(bad)
  const log = await control.buildLog(bad.id, bad.latest_revision_id!)
  const attacks = log.flatMap(line => {
    const [, found] = /^(?:attack )?(\{"way".*\})$/.exec(line) ?? []
    return found === undefined ? [] : [JSON.parse(found) as Attack]
  })
  const of = (...ways: string[]) => attacks.filter(({ way }) => ways.includes(way))
  t.equal(of('own').length, 2, 'both languages have tried everything')
  for (const { what, got } of of('own')) t.ok(got, `${what}`)
  t.notOk(existsSync('/tmp/own.txt'))

  t.equal(of('list').length, 2 * targets.lists.length)
  for (const { what, got = '' } of of('list'))
    t.notMatch(
      got,
      /control|weft\.db|cached|secret|bash|service|decent|\benv\b|artefacts|graph/,
      `${what} shows nothing`,
    )
  t.equal(of('read').length, 2 * (targets.reads.length + 1))
  t.equal(of('write').length, 2 * targets.writes.length + targets.folders.length)
  t.equal(of('connect').length, 1 + 1 + targets.ports.length * 6 + 2)
  for (const { way, what, got } of of('read', 'kill', 'mount', 'connect', 'root'))
    t.equal(got, undefined, `${way} ${what}`)
  const asked = of('connect').filter(({ what }) => /by the proxy|169/.test(`${what}`))
  for (const { what, refused } of asked) t.equal(refused, '403', `${what} is refused by the proxy`)
  // Folders in its temporary folder lead to what it may see: it may write beside that, where nothing comes of it.
  for (const { what, got } of of('write')) t.ok(got === undefined || `${what}`.startsWith(tmpdir()), `write ${what}`)
  for (const path of [...targets.writes, ...targets.folders]) t.notOk(existsSync(path), `nothing is at ${path}`)
  for (const { got } of of('environ')) t.notMatch(got, /SECRET|of-evil|NATS|WEFT_(?!BUILD_MARK|HOST_SAND)|CONTROL/)
  t.same(readdirSync(outside).sort(), ['env', 'service.sock'], 'nothing was written, and no interpreter ran outside')
  t.same(readdirSync(join(home)).includes('.npmrc'), false)
  const commands = spawnSync('sh', ['-c', 'cat /proc/[0-9]*/cmdline'], { encoding: 'latin1' }).stdout
  t.notMatch(commands, left, 'no process was left')
  t.match(await ask(bad, 'python', { text: 'STOLEN' }), { answer: 'not there' }, 'a link leads to no file')
  t.match(await ask(bad, 'python', { text: 'TOKEN' }), { answer: 'of-evil' })
})
