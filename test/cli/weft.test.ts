import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { stopShare } from '../../cli/commands/roles.js'
import { root } from '../../cli/root.js'
import { SETTINGS } from '../../schemas/config.js'
import { alive, allGone, below, type Cluster, exampleApp, startCluster } from '../helpers/cluster.js'
import { runWeft as weft } from '../helpers/command.js'
import { lines } from '../helpers/sdk.js'

t.setTimeout(120_000)

/** Polls until the answer is true; returns the duration. */
async function until(what: () => Promise<boolean>, ms = 10_000): Promise<number> {
  const since = Date.now()
  while (!(await what().catch(() => false))) {
    if (Date.now() - since > ms) throw new Error(`not within ${ms} ms`)
    await sleep(10)
  }
  return Date.now() - since
}

/** The process that runs the roles. */
const rolesOf = ({ launcher }: Cluster) =>
  below(launcher.pid).find(pid => readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('roles-main'))

const ready = (url: string) => async () => (await fetch(`${url}/ready`)).status === 200

t.test('help, version', async t => {
  const help = await weft(['help'])
  t.match(help, { code: 0, stdout: /^ {2}start .*serve an application/m })
  t.equal((await weft([])).stdout, help.stdout)
  t.match(await weft(['help', 'start']), { code: 0, stdout: /--app <path>/ })
  t.match(await weft(['help', 'nope']), {
    code: 2,
    stdout: '',
    stderr: /^weft: unknown command 'nope'; see `weft help`\n$/,
  })
  t.match(await weft(['settings']), { code: 0, stdout: /^PORT \[2024\]$/m })
  const settings = JSON.parse((await weft(['settings', '--json'])).stdout) as { variable: string }[]
  t.ok(
    Object.values(SETTINGS).every(
      ({ env, isInternal }) => isInternal || settings.some(({ variable }) => variable === env),
    ),
  )
  t.match(await weft(['--version']), { code: 0, stdout: /^\d+\.\d+\.\d+\n$/ })
})

t.test('a wrong command line gets one sentence and exit code 2', async t => {
  const folder = t.testdir({ broken: { 'langgraph.json': '{' }, empty: { 'langgraph.json': '{"graphs":{}}' } })
  const cases: [string[], RegExp][] = [
    [['start', '--prot', '1'], /unknown option '--prot' \(Did you mean --port\?\)/],
    [['serve'], /unknown command 'serve'/],
    [['start', 'now'], /too many arguments for 'start'/],
    [['resources', '--port', '1'], /unknown option '--port'/],
    [['start', '--port', 'x'], /--port must be a whole number/],
    [['start', '--port', '70000'], /--port must be a whole number/],
    [['start', '--app', join(folder, 'none')], /there is no application at .*none: expected a langgraph\.json/],
    [['start', '--app', folder], /there is no application at .*langgraph\.json/],
    [['start', '--app', join(folder, 'broken')], /is not valid JSON/],
    [['start', '--app', join(folder, 'empty')], /names no graphs/],
    [['start', '--app', exampleApp, '--host', '0.0.0.0'], /--insecure/],
  ]
  const found = await Promise.all(cases.map(([args]) => weft(args)))
  for (const [i, [args, sentence]] of cases.entries()) {
    t.match(found[i], { code: 2, stderr: sentence }, args.join(' '))
    t.equal(found[i]!.stderr.trim().split('\n').length, 1)
  }
  t.match(await weft(['start'], { PORT: 'many' }), { code: 2, stderr: /PORT must be a number/ })
  t.match(await weft(['start'], { WEFT_REVISION: 'r1' }), { code: 2, stderr: /its command must be `weft graphs`/ })
  for (const WEFT_PUBLIC_URL of ['weft.example', 'ftp://weft.example', 'https://me:secret@weft.example']) {
    const { code, stderr } = await weft(['start'], { WEFT_PUBLIC_URL })
    t.match({ code, stderr }, { code: 2, stderr: /WEFT_PUBLIC_URL must be an http or https URL/ })
    t.notMatch(stderr, /secret/)
  }
})

t.test('a taken port, and a role without a broker: one sentence', async t => {
  const server = createServer()
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done))
  t.teardown(() => server.close())
  const port = `${(server.address() as AddressInfo).port}`
  const taken = await weft(['start', '--app', exampleApp, '--port', port, '--data', t.testdir()])
  t.match(taken, { code: 1, stderr: new RegExp(`^weft: port ${port} .* is taken.*\n$`) })
  t.match(await weft(['resources', '--data', t.testdir()]), { code: 1, stderr: /set NATS_URL, or give --data/ })
})

t.test('an application that cannot be loaded ends the start at once, with the reason', async t => {
  const app = t.testdir({ 'langgraph.json': '{"graphs":{"agent":"./none.mjs:graph"}}' })
  const { code, stderr } = await weft(['start', '--app', app, '--port', '0', '--data', join(app, 'data')])
  t.equal(code, 1)
  t.match(stderr, /none\.mjs/)
  t.match(stderr, /giving up/)
  t.notMatch(stderr, /starting it again/)
  const left = readdirSync(join(app, 'data'))
  t.ok(left.includes('weft.db'))
  t.same(
    left.filter(name => /^weft\.db-|^weft\.lock/.test(name)),
    [],
    'the store was closed: the next start has nothing to check',
  )
})

t.test('a start that takes longer than its limit is given up at once, with the setting that helps', async t => {
  const slow = 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 60_000); export const graph = 1'
  const app = t.testdir({ 'langgraph.json': '{"graphs":{"agent":"./slow.mjs:graph"}}', 'slow.mjs': slow })
  const { code, stderr } = await weft(['start', '--app', app, '--port', '0', '--data', join(app, 'data')], {
    WEFT_START_SECS: '3',
  })
  t.equal(code, 1)
  t.match(stderr, /giving up: .*it did not start within 3 s; WEFT_START_SECS sets another limit/)
  t.notMatch(stderr, /starting it again/)
})

t.test('an application whose auth names no file ends the start, too', async t => {
  const graph = join(root, 'examples/new/typescript/agent.ts')
  const text = JSON.stringify({ graphs: { agent: `${graph}:agent` }, auth: { path: './none.mjs:auth' } })
  const app = t.testdir({ 'langgraph.json': text })
  const { code, stderr } = await weft(['start', '--app', app, '--port', '0', '--data', join(app, 'data')])
  t.equal(code, 1)
  t.match(stderr, /auth\.path: the file .*none\.mjs does not exist/)
  t.notMatch(stderr, /starting it again/)
  const file = join(app, 'langgraph.json')
  const none = await weft(['start', '--app', app, '--port', '0', '--data', file])
  t.match(none, { code: 2, stderr: /--data: .*langgraph\.json is a file; expected a folder/ })
})

t.test('a started server', async t => {
  const cluster = await startCluster()
  const { url, data } = cluster
  const natsPid = () => Number(readFileSync(join(data, 'nats-server.pid'), 'utf8'))
  const natsPort = () => JSON.parse(readFileSync(join(data, 'nats-server.json'), 'utf8')).port as number
  const rolesPid = () => rolesOf(cluster)

  await t.test('prints its address and how to stream', async t => {
    t.equal((await fetch(`${url}/ready`)).status, 200)
    await until(async () => cluster.output().includes('curl -N'))
    t.match(cluster.output(), new RegExp(`curl -N ${url}/runs/stream -d .*"stream_mode":"messages-tuple"`))
  })

  await t.test('a refused request is one line of the log', async t => {
    const refused = await fetch(`${url}/threads/00000000-0000-4000-8000-000000000000`)
    t.equal(refused.status, 404)
    const id = refused.headers.get('x-request-id')!
    await until(async () => cluster.output().includes(id))
    const lines = cluster
      .output()
      .split('\n')
      .filter(line => line.includes(id))
    t.equal(lines.length, 1)
    t.match(JSON.parse(lines[0]!), {
      level: 30,
      msg: 'request refused',
      status: 404,
      method: 'GET',
      detail: /not found/i,
    })
  })

  await t.test('its NATS server comes back at the same port after kill -9', async t => {
    const [pid, port] = [natsPid(), natsPort()]
    process.kill(pid, 'SIGKILL')
    await until(async () => natsPid() !== pid)
    const ms = await until(ready(url))
    t.equal(natsPort(), port)
    t.comment(`ready again after ${ms} ms`)
  })

  await t.test('its roles come back at the same address after kill -9', async t => {
    const pid = rolesPid()!
    process.kill(pid, 'SIGKILL')
    await allGone([pid])
    const ms = await until(ready(url))
    t.not(rolesPid(), pid)
    t.comment(`ready again after ${ms} ms`)
    // The system chose the port; now it is known before the graphs are loaded.
    const client = lines[0]!.connect(url)
    const { thread_id } = await client.threads.create()
    await client.runs.wait(thread_id, 'agent', { input: { messages: [{ role: 'user', content: 'hi' }] } })
    t.match(
      (await client.threads.getState(thread_id)).metadata,
      { langgraph_api_url: url },
      'runs know the address of the server',
    )
  })

  await t.test('SIGTERM ends everything, with exit code 0', async t => {
    const pids = cluster.pids()
    t.ok(pids.length >= 3, `${pids.length} processes`)
    t.equal(await cluster.stop(), 0)
    await allGone(pids)
  })
})

t.test('with LOG_FORMAT=json everything that a server prints is lines of JSON', async t => {
  const cluster = await startCluster({ env: { LOG_FORMAT: 'json' } })
  t.teardown(() => cluster.stop())
  process.kill(rolesOf(cluster)!, 'SIGKILL')
  await until(async () => /exit|again/.test(cluster.output()))
  await until(ready(cluster.url))
  await cluster.stop()
  const printed = cluster.output().trim().split('\n')
  const records = printed.map(line => JSON.parse(line) as { msg: string; url?: string })
  t.equal(records.find(({ msg }) => msg === 'serving')?.url, cluster.url)
  t.ok(records.some(({ msg }) => msg === 'stopping'))
  const failed = await weft(['start', '--app', 'nowhere'], { LOG_FORMAT: 'json' })
  t.equal(failed.code, 2)
  t.match(JSON.parse(failed.stderr), { level: 60, msg: /nowhere/ })
})

t.test('when the launcher is killed, the roles stop in order, then the NATS server ends', async t => {
  const cluster = await startCluster()
  const pids = cluster.pids()
  const nats = Number(readFileSync(join(cluster.data, 'nats-server.pid'), 'utf8'))
  const roles = rolesOf(cluster)!
  // A run that takes longer than the time for a stop: it is handed back, which needs the broker.
  const thread = await lines[0]!.connect(cluster.url).threads.create()
  await lines[0]!.connect(cluster.url).runs.create(thread.thread_id, 'agent', { input: { messages: [] } })
  cluster.launcher.kill('SIGKILL')
  let served = true
  while (alive(roles)) {
    // Looked at first: both may end between the two questions.
    const before = alive(nats)
    if (alive(roles) && !before) served = false
    await sleep(20)
  }
  t.ok(served, 'the NATS server serves as long as the roles run')
  await allGone(pids)
  t.notMatch(cluster.output(), /broker connection/)
  await cluster.stop()
})

t.test('secrets of the operator are in the environment of no process that the launcher starts', async t => {
  const secrets = {
    WEFT_CONTROL_KEY: 'operator-chosen-control-key',
    LANGGRAPH_AES_KEY: 'operator-chosen-aes-key-00000000',
    WEFT_WEBHOOK_SECRET: 'operator-chosen-webhook-secret',
  }
  const cluster = await startCluster({ env: { ...secrets, OWN_VARIABLE: 'for-graphs' } })
  t.teardown(() => cluster.stop())
  const graphs = []
  for (const pid of cluster.pids()) {
    const environ = readFileSync(`/proc/${pid}/environ`, 'utf8')
    for (const [name, value] of Object.entries(secrets)) t.notOk(environ.includes(value), `${name} in ${pid}`)
    const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8')
    if (command.includes('programs/host')) graphs.push(environ.includes('OWN_VARIABLE=for-graphs'))
  }
  t.ok(graphs.length > 0 && graphs.every(Boolean), 'graphs see the other variables')
  const { status } = await fetch(`${cluster.url}/v2/deployments`, {
    headers: { 'x-api-key': secrets.WEFT_CONTROL_KEY },
  })
  t.equal(status, 200, 'the settings have arrived')
})

t.test(
  'the data folder is closed to others and ignored by git; a generated key is not printed into a file',
  async t => {
    const data = join(t.testdir(), '.weft')
    const cluster = await startCluster({ data })
    t.teardown(() => cluster.stop())
    t.equal(statSync(data).mode & 0o777, 0o700)
    t.equal(readFileSync(join(data, '.gitignore'), 'utf8'), '*\n')
    await until(async () => cluster.output().includes('Key of the control plane'))
    t.match(cluster.output(), `created now and stored in ${join(data, 'control.key')}`)
    t.notMatch(cluster.output(), readFileSync(join(data, 'control.key'), 'utf8').trim())
  },
)

t.test('the banner lists the graphs with their files, and the example names one that is loaded', async t => {
  // Does nothing when the bundle is that of the sources.
  const built = spawnSync(process.execPath, [join(root, 'scripts/build-console.mjs')])
  t.equal(built.status, 0, `${built.stderr}`)
  const app = t.testdir({
    'langgraph.json': '{"graphs":{"broken":"./broken.mjs:graph","topics":{"path":"./topics.mjs:graph"}}}',
    'broken.mjs': "import '@lib/none'",
    'topics.mjs': `import { Annotation, StateGraph } from '@langchain/langgraph'
const State = Annotation.Root({ topic: Annotation(), text: Annotation() })
export const graph = new StateGraph(State, { input: Annotation.Root({ topic: Annotation() }) })
  .addNode('write', ({ topic }) => ({ text: 'about ' + topic })).addEdge('__start__', 'write').compile()`,
  })
  const cluster = await startCluster({ app })
  t.teardown(() => cluster.stop())
  await until(async () => cluster.output().includes('curl -N'))
  t.match(cluster.output(), /✗ broken {2}\.\/broken\.mjs:graph {2}Graph "broken" cannot be loaded: .*@lib\/none/)
  for (const [path, body] of [
    ['/assistants/broken'],
    ['/assistants/broken/schemas'],
    ['/assistants/broken/graph'],
    ['/assistants', { graph_id: 'broken' }],
    ['/runs/wait', { assistant_id: 'broken' }],
  ] as const) {
    const answer = await fetch(cluster.url + path, {
      headers: { 'content-type': 'application/json' },
      ...(body && { method: 'POST', body: JSON.stringify(body) }),
    })
    t.equal(answer.status, 404, path)
    t.match(await answer.json(), { detail: /^Graph "broken" cannot be loaded: .*@lib\/none/ }, path)
  }
  t.match(cluster.output(), / {2}topics {2}\.\/topics\.mjs:graph\n/)
  t.match(cluster.output(), `with its console at ${cluster.url}/console\n`)
  t.equal((await fetch(`${cluster.url}/console`)).status, 200)
  const [, url, body] = /curl -N (\S+) .*-d '(.*)'/.exec(cluster.output())!
  t.match(JSON.parse(body!), { assistant_id: 'topics', input: { topic: '…' } })
  const answer = await fetch(url!, { method: 'POST', headers: { 'content-type': 'application/json' }, body: body! })
  t.match(await answer.text(), /about …/, 'the example runs as it is printed')
})

t.test('a role on its own has the whole time of a stop', t => {
  for (const role of ['edge', 'graphs', 'deployer', 'resources'] as const) t.equal(stopShare(role, [role]), 1)
  const all = ['edge', 'resources', 'graphs', 'deployer'] as const
  t.same(
    all.map(role => stopShare(role, all)),
    [0.2, 0.2, 0.6, 0.6],
    'graphs and deployer stop at the same time',
  )
  t.end()
})
