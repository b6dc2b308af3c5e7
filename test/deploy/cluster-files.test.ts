/**
 * The shipped cluster files, as far as this machine can run them: three NATS servers with their configuration and variables,
 * and the roles with theirs. Only addresses and folders are others; the secrets come from the commands in their comments.
 */
import { spawnSync } from 'node:child_process'
import { chmodSync, cpSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { findNatsServer } from '../../cli/nats/server.js'
import { freePort } from '../../cli/ports.js'
import { root } from '../../cli/root.js'
import { spawnTied } from '../../cli/tied-process.js'
import { launch, type Proc } from '../helpers/cluster.js'
import { runWeft } from '../helpers/command.js'
import { storeEnv } from '../helpers/stores/store.js'
import { until } from '../helpers/until.js'
import {
  composePrograms,
  helmOptions,
  kubernetesPrograms,
  manifestsOf,
  type Program,
  renderChart,
} from '../scripts/cluster-files.js'
import { controlOf, deployEnv, KEY } from './control.js'
import { application, makeRepository, sourcesFolder } from './repository.js'

t.setTimeout(300_000)

type Env = { [name: string]: string }
const envOf = (lines: string): Env =>
  Object.fromEntries(
    lines
      .trim()
      .split('\n')
      .map(line => /^(\w+)=(.*)$/s.exec(line)!.slice(1) as [string, string]),
  )
const secretOf = (secrets: Env) => (name: string) => {
  if (secrets[name] === undefined) throw new Error(`no secret ${name}`)
  return secrets[name]
}
const mapValues = (env: Env, change: (text: string) => string): Env =>
  Object.fromEntries(Object.entries(env).map(([name, text]) => [name, change(text)]))

interface Machine {
  /** Starts a role; `more` are flags and variables for this machine. */
  start(name: string, more?: { flags?: string[]; env?: Env }): Promise<Proc>
  /** The variables of a role. */
  envOf(name: string): Env
  /** The users of the clients of all servers. */
  users(): Promise<string[]>
}

/** The configuration of the servers, as their containers see it. */
const NATS_FILES: { [name: string]: string } = Object.fromEntries(
  ['cluster.conf', 'server.conf', 'users.conf'].map(file => [
    file,
    readFileSync(join(root, 'deploy/nats', file), 'utf8'),
  ]),
)

/** Starts the NATS servers of the files. */
async function startMachine(t: Test, programs: readonly Program[], natsFiles = NATS_FILES): Promise<Machine> {
  const data = t.testdir()
  const servers = programs.filter(({ image }) => image.startsWith('nats:'))
  t.equal(servers.length, 3)
  const ports = new Map<string, { client: number; route: number; monitor: number }>()
  for (const { name } of servers)
    ports.set(name, { client: await freePort(), route: await freePort(), monitor: await freePort() })
  /** The same with the addresses of this machine. */
  const here = (text: string) =>
    text.replaceAll(/\b((?:weft-)?nats-\d)[.\w-]*:(4222|6222)/g, (_, name: string, port: string) => {
      const { client, route } = ports.get(name)!
      return `127.0.0.1:${port === '4222' ? client : route}`
    })
  for (const { name, args, env } of servers) {
    const { client, route, monitor } = ports.get(name)!
    const folder = join(data, name)
    mkdirSync(folder)
    for (const [file, content] of Object.entries(natsFiles)) {
      const text = content
        .replace('0.0.0.0:4222', `127.0.0.1:${client}`)
        .replace('0.0.0.0:6222', `127.0.0.1:${route}`)
        .replace('"/data"', JSON.stringify(join(folder, 'data')))
      writeFileSync(join(folder, file), text)
    }
    const own = args.map(arg => arg.replace('/etc/nats', folder))
    const child = spawnTied([await findNatsServer(), ...own, '--log', join(folder, 'log')], {
      env: { PATH: process.env.PATH, ...mapValues(env, here), NATS_MONITOR: `127.0.0.1:${monitor}` },
    })
    const over = new Promise(done => child.once('exit', done))
    t.teardown(() => {
      child.stdin!.end()
      return over
    })
  }
  const asked = (path: string) =>
    Promise.all([...ports.values()].map(({ monitor }) => fetch(`http://127.0.0.1:${monitor}${path}`)))
  await until(async () => (await asked('/healthz').catch(() => [])).every(({ ok }) => ok) || undefined)

  const store = join(data, 'store')
  const database = await storeEnv(store)
  const variables = (name: string): Env => {
    const { env } = programs.find(program => program.name === name)!
    return { WEFT_REQUIRE_KEYS: '1', ...mapValues(env, here), ...('MONGODB_URL' in env ? database : {}) }
  }
  return {
    envOf: variables,
    async start(name, { flags = [], env = {} } = {}) {
      const { args } = programs.find(program => program.name === name)!
      const folder = args[0] === 'resources' ? store : join(data, `of-${name}`)
      const own = { ...variables(name), WEFT_HEALTH_PORT: `${await freePort()}`, ...env }
      const proc = await launch([...args, '--data', folder, ...flags], own)
      t.teardown(() => proc.stop())
      return proc
    },
    async users() {
      const pages = await asked('/connz?auth=1&limit=1000')
      const all = await Promise.all(
        pages.map(page => page.json() as Promise<{ connections: { authorized_user: string }[] }>),
      )
      return all.flatMap(({ connections }) => connections.map(({ authorized_user }) => authorized_user))
    },
  }
}

async function send(url: string, path: string, key?: string, body?: object) {
  const answer = await fetch(url + path, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { 'content-type': 'application/json', ...(key === undefined ? {} : { 'x-api-key': key }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return { status: answer.status, body: await answer.json() }
}

/** Runs deploy/docker/make-env.sh in a folder beside copies of nothing else, with a `docker` that runs `weft` of this tree. */
function makeEnv(t: Test) {
  const folder = t.testdir({ deploy: { docker: {} }, bin: {} })
  cpSync(join(root, 'deploy/docker/make-env.sh'), join(folder, 'deploy/docker/make-env.sh'))
  const docker = join(folder, 'bin/docker')
  const weft = join(root, 'dist/cli/weft.js')
  writeFileSync(
    docker,
    `#!/bin/sh
case "$*" in
  'build --tag weft .') ;;
  'run --rm weft '*) shift 3; exec '${process.execPath}' '${weft}' "$@" ;;
  *) echo "docker $*" >&2; exit 1 ;;
esac`,
  )
  chmodSync(docker, 0o755)
  const run = () =>
    spawnSync('sh', [join(folder, 'deploy/docker/make-env.sh')], {
      encoding: 'utf8',
      env: { ...process.env, PATH: `${join(folder, 'bin')}:${process.env.PATH}` },
    })
  return { file: join(folder, '.env'), run }
}

t.test('docker-compose.yml', async t => {
  const { file, run } = makeEnv(t)
  const made = run()
  t.equal(made.status, 0, made.stderr)
  t.equal(statSync(file).mode & 0o777, 0o600)
  const text = readFileSync(file, 'utf8')
  t.equal(run().status, 1, 'an existing file stays')
  t.equal(readFileSync(file, 'utf8'), text)

  const secrets = envOf(text)
  const programs = composePrograms('docker-compose.yml', secretOf(secrets))
  const folderOf = (name: string, path: string) => programs.find(program => program.name === name)!.folders[path]!
  const machine = await startMachine(t, programs)
  const chat = ['--app', join(root, folderOf('graphs-default', '/app'))]
  // A pool is let in when a resource worker is there.
  const graphs = machine.start('graphs-default', { flags: chat })
  await machine.start('resources')
  await graphs
  await machine.start('graphs-research', { flags: ['--app', join(root, 'test/apps/basic')] })
  const edge = await machine.start('edge-1', { flags: ['--port', '0', ...chat] })
  const url = `http://127.0.0.1:${edge.port}`

  const run_ = { assistant_id: 'agent', input: { messages: [{ role: 'user', content: 'hello' }] } }
  t.equal((await send(url, '/runs/wait', undefined, run_)).status, 401)
  const created = await runWeft(['keys', 'create', 'me', '--scope', 'admin'], machine.envOf('resources'))
  t.equal(created.code, 0, created.stderr)
  const key = created.stdout.trim()
  t.match(await send(url, '/runs/wait', key, run_), { status: 200, body: { messages: [{}, {}] } })
  const other = { assistant_id: 'counter', input: { steps: 2 } }
  t.match(await send(url, '/deployments/research/runs/wait', key, other), { status: 200 })
  t.same([...new Set(await machine.users())].sort(), ['built-in.default', 'edge', 'research.research', 'resources'])

  const wrong = { NATS_URL: machine.envOf('edge-1').NATS_URL!.replace(secrets.NATS_EDGE_PASSWORD!, 'wrong') }
  await t.rejects(machine.start('edge-1', { env: wrong }), /no NATS server answers as "edge" .*Authorization/i)
})

t.test('the manifests of Kubernetes', async t => {
  const lines = (await runWeft(['nats', 'init', '--pool', 'default'])).stdout
  const secrets = envOf(lines)
  const manifests = [...manifestsOf('deploy/kubernetes'), ...manifestsOf('deploy/kubernetes-deployer')]
  const machine = await startMachine(t, kubernetesPrograms(manifests, secretOf(secrets)))
  const { folder, remove } = sourcesFolder()
  t.teardown(remove)
  const settings = deployEnv(folder)
  await machine.start('weft-resources', { env: { ...settings, ...(await storeEnv(folder)) } })
  await machine.start('weft-graphs-default', { flags: ['--app', join(root, 'test/apps/basic')] })
  const edge = await machine.start('weft-edge', { flags: ['--port', '0'] })
  await machine.start('weft-deployer', { env: { ...settings, WEFT_IMAGE_DRIVER: '' } })
  const url = `http://127.0.0.1:${edge.port}`

  const created = await runWeft(['keys', 'create', 'me', '--scope', 'admin'], machine.envOf('weft-resources'))
  const key = created.stdout.trim()
  t.match(await send(url, '/runs/wait', key, { assistant_id: 'counter', input: { steps: 2 } }), { status: 200 })

  const control = controlOf(url)
  const repository = makeRepository(folder, 'one', application('one'))
  const deployment = await control.create('one', repository.url)
  const { id } = await control.deployed(deployment)
  const run = { assistant_id: 'agent', input: { text: 'hello' } }
  t.match(await send(await control.urlOf(deployment), '/runs/wait', key, run), { body: { answer: 'one hello' } })
  t.same(
    [...new Set(await machine.users())].sort(),
    ['built-in.default', 'deployer', 'edge', 'resources', `${deployment.id}.rev_${id}`].sort(),
  )
  t.equal((await send(url, '/v2/deployments', KEY)).status, 200)
})

t.test('the Helm chart with the secrets that it makes', helmOptions, async t => {
  const manifests = renderChart({ store: { type: 'mongodb', url: 'mongodb://db.invalid/weft' } })
  const made = manifests.flatMap(({ kind, data, stringData = {} }) =>
    kind !== 'Secret'
      ? []
      : [
          ...Object.entries(mapValues(data ?? {}, text => Buffer.from(text, 'base64').toString())),
          ...Object.entries(stringData),
        ],
  )
  const { data: files } = manifests.find(({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === 'weft-nats')!
  const programs = kubernetesPrograms(manifests, secretOf(Object.fromEntries(made)))
  const machine = await startMachine(t, programs, files)
  const graphs = machine.start('weft-graphs-default', { flags: ['--app', join(root, 'test/apps/basic')] })
  await machine.start('weft-resources')
  await graphs
  const edge = await machine.start('weft-edge', { flags: ['--port', '0'] })
  const created = await runWeft(['keys', 'create', 'me', '--scope', 'admin'], machine.envOf('weft-resources'))
  t.equal(created.code, 0, created.stderr)
  const run = { assistant_id: 'counter', input: { steps: 2 } }
  t.match(await send(`http://127.0.0.1:${edge.port}`, '/runs/wait', created.stdout.trim(), run), { status: 200 })
  t.same([...new Set(await machine.users())].sort(), ['edge', 'graphs', 'resources'])
})
