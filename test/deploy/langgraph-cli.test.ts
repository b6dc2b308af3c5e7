/**
 * `langgraph deploy` of the official command line (PyPI), unmodified, against the control plane: deployments from a
 * repository and from an image, their revisions and logs.
 */
import { type ExecFileException, execFile, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import t from 'tap'
import { root } from '../../cli/root.js'
import type { Deployment } from '../../schemas/deployments.js'
import { venvOf, withoutPython } from '../../scripts/checks/venv.js'
import { startCluster } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'
import { until } from '../helpers/until.js'
import { controlOf, deployEnv, KEY } from './control.js'
import { type FakeImage, startEngine } from './docker/engine.js'
import { startImageWorker } from './image-worker.js'
import { application, makeRepository, sourcesFolder, writeFiles } from './repository.js'

t.setTimeout(240_000)
const IMAGE = 'registry.test/app'
const digest = (digit: string) => `${IMAGE}@sha256:${digit.repeat(64)}`
const NONE = '0198aaaa-0000-7000-8000-000000000001'

t.test('langgraph deploy', { skip: withoutPython() ?? false }, async t => {
  const program = await venvOf(join(root, 'test', 'python', 'requirements-langgraph-cli.txt'))
  const { folder, remove } = sourcesFolder()
  t.teardown(remove)
  const imageOf = (word: string): FakeImage => ({
    program: container =>
      startImageWorker({
        app: join(folder, word),
        env: container.env,
        onOutput: text => container.say(text),
        onExit: code => container.exit(code),
      }),
  })
  for (const word of ['one', 'two']) writeFiles(join(folder, word), application(word))
  const engine = await startEngine({ [digest('1')]: imageOf('one'), [digest('2')]: imageOf('two') })
  t.teardown(() => engine.close())
  const cluster = await startCluster({
    app: 'test/apps/basic',
    env: {
      ...deployEnv(folder),
      WEFT_IMAGE_DRIVER: 'docker',
      WEFT_DOCKER_NETWORK: 'host',
      DOCKER_HOST: engine.host,
    },
  })
  t.teardown(() => cluster.stop())
  const control = controlOf(cluster.url)

  // The command looks for langgraph.json and .env where it stands.
  const project = mkdtempSync(join(tmpdir(), 'weft-project-'))
  t.teardown(() => rmSync(project, { recursive: true, force: true }))
  const config = JSON.stringify({ node_version: '20', graphs: { agent: './graph.mjs:graph' }, env: '.env' })
  writeFiles(project, { ...application('local'), 'langgraph.json': config, '.env': 'TOKEN=a-secret-value\n' })
  const options = {
    cwd: project,
    env: {
      PATH: process.env.PATH,
      HOME: project,
      LANGGRAPH_CLI_NO_ANALYTICS: '1',
      LANGGRAPH_HOST_URL: `${cluster.url}/api-host`,
      LANGSMITH_API_KEY: KEY,
    },
  }
  const langgraph = join(dirname(program), 'langgraph')
  const run = (...args: string[]) =>
    new Promise<{ code: number; out: string; err: string }>(resolve =>
      execFile(langgraph, ['deploy', ...args], options, (error: ExecFileException | null, out, err) =>
        resolve({ code: error === null ? 0 : Number(error.code), out, err }),
      ),
    )
  const deploy = (...args: string[]) => run('--no-input', ...args)
  const ask = (url: string) => lines[0]!.connect(url).runs.wait(null, 'agent', { input: { text: 'x' } })

  await t.test('nothing is deployed yet', async t => {
    t.match(await run('list'), { code: 0, out: /No deployments found/ })
    t.match(await run('list', '--json'), { code: 0, out: '[]\n' })
    t.match(await run('listeners', 'list'), { code: 0, out: /No listeners found/ })
    t.match(await run('revisions', 'list', NONE), { code: 1, err: /404: deployment ID .* not found/i })
    t.match(await run('list', '--api-key', 'wrong'), { code: 1, err: /401: This is not the key/ })
  })

  const repository = makeRepository(folder, 'app', application('built'))
  const built = await control.create('built', repository.url)
  const first = await control.deployed(built)

  await t.test('a deployment from a repository: list, revisions, logs', async t => {
    t.match(await run('list', '--name-contains', 'UIL'), {
      out: new RegExp(`${built.id} +built +${control.urlOf(built)}`),
    })
    t.match(await run('list', '--name-contains', 'other'), { out: /No deployments found/ })
    t.match(await run('revisions', 'list', built.id), { out: new RegExp(`${first.id} +DEPLOYED +2`) })
    const head = repository.git('rev-parse', 'HEAD')
    t.match(await run('logs', '--name', 'built', '--type', 'build'), {
      code: 0,
      out: new RegExp(`\\[INFO\\] .*${head}`),
    })
    t.match(await run('logs', '--name', 'built', '--type', 'build', '-q', head, '--limit', '1'), {
      out: new RegExp(`${first.id}\n[^\n]*${head}[^\n]*\n$`),
    })
    t.match(await run('logs', '--name', 'built', '--level', 'critical'), { code: 0, out: /No log entries found/ })
    t.match(await run('logs', '--name', 'none'), { code: 1, err: /'none' not found/ })
    t.match(await run('logs', '--deployment-id', built.id, '--start-time', 'soon'), { code: 1, err: /start_time/ })
  })

  await t.test('logs are followed', async t => {
    const followed = spawn(langgraph, ['deploy', 'logs', '--deployment-id', built.id, '--follow'], {
      ...options,
      env: { ...options.env, PYTHONUNBUFFERED: '1' },
    })
    let out = ''
    followed.stdout.on('data', text => {
      out += text
    })
    await until(() => out.includes('\n'))
    const next = await control.deployed(await control.again(built.id))
    await until(async () => {
      const { body } = await control.ask<{ logs: { message: string }[] }>(
        'GET',
        `/v2/deployments/${built.id}/revisions/${next.id}/logs?stage=deploy,runtime`,
      )
      return body.logs.length > 0 && body.logs.every(({ message }) => out.includes(message))
    })
    const ended = new Promise(done => followed.once('exit', done))
    followed.kill('SIGINT')
    await ended
    t.match(out, /Stopped\.\n$/)
    const shown = out.trimEnd().split('\n')
    t.equal(new Set(shown).size, shown.length, 'no line comes twice')
    t.match(await run('revisions', 'list', built.id), { out: /DEPLOYED[\s\S]*REPLACED/ })
  })

  await t.test('an image of a registry: create, then a new revision', async t => {
    const made = await deploy('--name', 'Image', '--image-uri', digest('1'), '--json')
    t.equal(made.code, 0, made.out + made.err)
    const events = made.out.split('\n').flatMap(line => (line === '' ? [] : [JSON.parse(line)]))
    const { deployment_id, url, status } = events.find(({ event }) => event === 'result')
    t.equal(status, 'succeeded')
    const shown = await fetch(events.find(({ event }) => event === 'status_url').url, { redirect: 'manual' })
    t.match(shown.headers.get('location'), `/console#/deployments/${deployment_id}`)
    t.match(await ask(url), { answer: 'one x' })
    const again = await deploy('--name', 'image', '--image-uri', digest('2'))
    t.match(again, { code: 0, out: new RegExp(`${deployment_id}[^]*Deployment successful[^]*${url}`) })
    t.match(await ask(url), { answer: 'two x' })
    t.match((await control.get(deployment_id)).secrets, [{ name: 'TOKEN' }])
    const absent = await deploy('--deployment-id', deployment_id, '--image-uri', digest('3'))
    t.match(absent, { code: 1, out: /Deployment failed/ })
    t.match(await ask(url), { answer: 'two x' }, 'what served goes on serving')
    t.match(await deploy('--deployment-id', built.id, '--image-uri', digest('1')), {
      code: 2,
      err: /was not created from an external image/,
    })
    t.match(await run('delete', '--force', deployment_id), { code: 0, out: /Deleted deployment/ })
    t.match(await run('delete', '--force', NONE), { code: 1, err: /404/ })
  })

  await t.test('--remote: the source is uploaded and built here', async t => {
    const made = await deploy('--name', 'uploaded', '--remote', '--verbose', '--json')
    t.equal(made.code, 0, made.out + made.err)
    const events = made.out.split('\n').flatMap(line => (line === '' ? [] : [JSON.parse(line)]))
    const { deployment_id, url, status } = events.find(({ event }) => event === 'result')
    t.equal(status, 'succeeded')
    t.match(await ask(url), { answer: 'local x' })
    const stored = await control.get(deployment_id)
    t.match(stored, {
      source: 'internal_source',
      // --deployment-type serverless, the default of the command.
      source_config: { deployment_type: 'dev', resource_spec: { min_scale: 0, max_scale: 1 } },
      source_revision_config: { graph_config_path: 'langgraph.json', repo_ref: null, repo_commit_sha: null },
      secrets: [{ name: 'TOKEN' }],
    })
    const first = stored.latest_revision_id!
    t.match(await run('logs', '--name', 'uploaded', '--type', 'build'), { out: /unpacked 3 files of .*sha256/ })

    writeFiles(project, application('changed'))
    const again = await deploy('--name', 'uploaded', '--remote', '--deployment-type', 'prod')
    t.match(again, { code: 0, out: new RegExp(`${deployment_id}[^]*Deployment successful[^]*${url}`) })
    t.match(await ask(url), { answer: 'changed x' })

    writeFiles(project, { 'graph.mjs': 'throw new Error("it cannot be loaded")' })
    const failed = await deploy('--name', 'uploaded', '--remote')
    t.match(failed, { code: 1, out: /it cannot be loaded[\s\S]*Deployment failed/ }, 'the log of the build is shown')
    t.match(await ask(url), { answer: 'changed x' }, 'what served goes on serving')

    const { body } = await control.ask<Deployment>(
      'POST',
      `/v2/deployments/${deployment_id}/revisions/${first}/redeploy`,
    )
    await control.deployed(body)
    t.match(await ask(url), { answer: 'local x' }, 'a roll back')
    t.match(await run('delete', '--force', deployment_id), { code: 0, out: /Deleted deployment/ })
  })

  await t.test('what needs a registry of the server, or another source', async t => {
    t.match(await deploy('--deployment-id', built.id, '--remote'), {
      code: 1,
      err: /status 400: Uploads are only available for 'internal_source' source deployments, not github/,
    })
    t.match(await deploy('--name', 'x', '--image-uri', digest('1'), '--listener-id', NONE), {
      code: 2,
      err: /no listeners/,
    })
  })
})
