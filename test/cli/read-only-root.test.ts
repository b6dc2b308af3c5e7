/** The server as its image runs it: root read-only but for /tmp, the data in a volume, a user without rights. */
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { findNatsServer } from '../../cli/nats/server.js'
import { freePort } from '../../cli/ports.js'
import { root } from '../../cli/root.js'
import { pathWithUv, venvOf, withoutPython } from '../../scripts/checks/venv.js'
import { below } from '../helpers/cluster.js'
import { until } from '../helpers/until.js'
import { makeLinkedWheel, wheelEnv } from '../helpers/wheels.js'

t.setTimeout(240_000)

const USER = 10_001
/** A folder that every machine has. */
const DATA = '/mnt'
const isRoot = process.getuid?.() === 0
const hasBwrap = spawnSync('bwrap', ['--version']).error === undefined
const skip = isRoot && hasBwrap ? false : 'needs bubblewrap, and root, which gives its rights up'

interface Options {
  /** The folder of the application, there. */
  app: string
  /** Folders that it reads, too: where they are here, and there. */
  places?: { [from: string]: string }
  /** More of PATH, first. */
  path?: readonly string[]
  env?: { [name: string]: string }
}

/** Settings of both images, with the data folder elsewhere. */
const ENV = Object.fromEntries(
  ['WEFT_DATA', 'XDG_CACHE_HOME'].map(name => {
    const file = readFileSync(join(root, 'Dockerfile'), 'utf8')
    const [, value] = new RegExp(`AS roles\n[^]*^ENV (?:.*\\\\\n)*.*${name}=(\\S+)[^]*AS one\n`, 'm').exec(file)!
    return [name, value!.replace('/data', DATA)]
  }),
)

/** `weft start` with root read-only, as the image runs it; resolves when it is ready. */
async function startReadOnly(t: Test, { app, places = {}, path = [], env = {} }: Options) {
  const data = mkdtempSync(join(tmpdir(), 'weft-data-'))
  t.teardown(() => rmSync(data, { recursive: true, force: true }))
  chownSync(data, USER, USER)
  const port = await freePort()
  const node = realpathSync(process.execPath)
  // Other users may not reach what is in the home of this one.
  const all = {
    [root]: '/srv/weft',
    [dirname(node)]: '/srv/node',
    [dirname(await findNatsServer())]: '/srv/nats',
    ...places,
  }
  const mounts = [
    ...['--ro-bind', '/', '/', '--dev', '/dev', '--proc', '/proc'],
    ...['/tmp', '/srv', homedir()].flatMap(path => ['--perms', path === '/tmp' ? '1777' : '0755', '--tmpfs', path]),
    ...Object.entries(all).flatMap(([from, to]) => ['--perms', '0755', '--dir', to, '--ro-bind', from, to]),
    ...['--bind', data, DATA, '--remount-ro', '/srv', '--remount-ro', homedir(), '--die-with-parent', '--chdir', app],
  ]
  const user = [`--reuid=${USER}`, `--regid=${USER}`, '--clear-groups', '--no-new-privs', '--bounding-set=-all']
  const weft = ['/srv/node/node', '/srv/weft/dist/cli/weft.js', 'start', '--app', '.', '--port', `${port}`]
  const child = spawn('bwrap', [...mounts, 'setpriv', ...user, ...weft], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH: [...path, '/srv/nats', '/usr/bin', '/bin'].join(':'),
      HOME: '/home/weft',
      LOG_FORMAT: 'json',
      ...ENV,
      ...env,
    },
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', part => (output += part))
  t.teardown(() => child.kill('SIGKILL'))
  const url = `http://127.0.0.1:${port}`
  await until(async () => {
    if (child.exitCode !== null) throw new Error(output)
    return (await fetch(`${url}/ready`).catch(() => null))?.ok
  })
  const launcher = below(child.pid!)[0]!
  t.match(readFileSync(`/proc/${launcher}/status`, 'utf8'), new RegExp(`Uid:\\s+${USER}[^]*CapEff:\\s+0+\n`))
  return {
    data,
    async ask(path: string, body?: object) {
      const answer = await fetch(url + path, body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) })
      return { status: answer.status, text: await answer.text() }
    },
    /** In order; nothing could not be written. */
    async stop() {
      const over = once(child, 'exit')
      process.kill(launcher, 'SIGTERM')
      t.same(await over, [0, null])
      t.notMatch(output, /EROFS|EACCES|Read-only|"level":[56]0/)
    },
  }
}
type Server = Awaited<ReturnType<typeof startReadOnly>>

/** The input of a graph, as its types say. */
async function inputOf({ ask }: Server, graph_id: string) {
  const [assistant] = JSON.parse((await ask('/assistants/search', { graph_id })).text) as { assistant_id: string }[]
  const read = () => ask(`/assistants/${assistant!.assistant_id}/schemas`)
  let answer = await read()
  // A busy machine reads types for longer than a request waits.
  await until(async () => answer.status !== 503 || (answer = await read()).status !== 503, 90_000)
  return (JSON.parse(answer.text) as { input_schema: { properties: object } | null }).input_schema
}

t.test('an application in JavaScript', { skip }, async t => {
  const server = await startReadOnly(t, { app: '/srv/weft/test/apps/basic' })
  t.match(await server.ask('/runs/wait', { assistant_id: 'counter', input: { steps: 2 } }), {
    status: 200,
    text: /"numbers":\[1,2\]/,
  })
  t.match(await inputOf(server, 'counter'), { properties: { steps: {} } })
  t.match(await server.ask('/console'), { status: 200 })
  await server.stop()
  t.ok(readdirSync(server.data).includes('weft.db'))
})

t.test('an application in TypeScript', { skip }, async t => {
  const server = await startReadOnly(t, { app: '/srv/weft/test/apps/types' })
  t.match(await server.ask('/runs/wait', { assistant_id: 'graph', input: {} }), { status: 200, text: /"count":1/ })
  t.match(await inputOf(server, 'graph'), { properties: { question: { type: 'string' } } })
  await server.stop()
  t.equal(readdirSync(join(server.data, 'cache/weft/schemas')).length, 1, 'kept for the next start')
})

const PACKAGE = `[project]
name = "packaged"
version = "1.0"
dependencies = ["langgraph"]

[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
`
const AGENT = `from typing import TypedDict
from langgraph.graph import StateGraph
from packaged.words import WORD

class State(TypedDict):
    text: str

graph = StateGraph(State).add_node("say", lambda state: {"text": WORD}).add_edge("__start__", "say").compile()
`

t.test(
  'an application in Python, a package whose environment is made',
  { skip: skip || withoutPython() || false },
  async t => {
    const python = await venvOf(join(root, 'test/host-python/requirements.txt'))
    const folder = mkdtempSync(join(tmpdir(), 'weft-package-'))
    t.teardown(() => rmSync(folder, { recursive: true, force: true }))
    const [app, wheels] = [join(folder, 'app'), join(folder, 'wheels')]
    mkdirSync(join(app, 'src/packaged'), { recursive: true })
    mkdirSync(wheels)
    const graphs = { agent: './src/packaged/agent.py:graph' }
    writeFileSync(join(app, 'langgraph.json'), JSON.stringify({ dependencies: ['.'], graphs }))
    writeFileSync(join(app, 'pyproject.toml'), PACKAGE)
    writeFileSync(join(app, 'src/packaged/words.py'), 'WORD = "hello"\n')
    writeFileSync(join(app, 'src/packaged/agent.py'), AGENT)
    makeLinkedWheel(wheels, python)
    execFileSync('python3', ['-m', 'pip', 'download', '--quiet', '--no-deps', '--dest', wheels, 'setuptools'])
    const base = dirname(dirname(realpathSync(python)))
    const [uv = ''] = (await pathWithUv()).split(':')
    const hidden = [dirname(dirname(python)), base, uv].filter(path => path.startsWith(`${homedir()}/`))
    const server = await startReadOnly(t, {
      app: '/srv/app',
      places: { [app]: '/srv/app', [wheels]: '/srv/wheels', ...Object.fromEntries(hidden.map(path => [path, path])) },
      path: [uv, join(base, 'bin')],
      env: { ...wheelEnv('/srv/wheels'), UV_CACHE_DIR: '/tmp/uv' },
    })
    const { status, text } = await server.ask('/runs/wait', { assistant_id: 'agent', input: { text: '' } })
    t.same([status, JSON.parse(text)], [200, { text: 'hello' }])
    t.match(await inputOf(server, 'agent'), { properties: { text: { type: 'string' } } })
    await server.stop()
    t.equal(readdirSync(join(server.data, 'cache/weft/python')).length, 1, 'kept for the next start')
  },
)
