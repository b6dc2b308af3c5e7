/** A deployment from creation to deletion, through HTTP only. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Deployment } from '../../schemas/deployments.js'
import { commandOf, startCluster } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'
import { controlOf, deployEnv } from './control.js'
import { aliasedApplication, application, graphFile, makeRepository, sourcesFolder } from './repository.js'

/** Builds receive it by WEFT_BUILD_ENV. */
const REGISTRY = 'registry-token-zzz-123456'

t.setTimeout(240_000)
t.test('deployments', async t => {
  const { folder, remove } = sourcesFolder()
  t.teardown(remove)
  const cluster = await startCluster({
    app: 'test/apps/basic',
    env: { ...deployEnv(folder), LANGGRAPH_API_URL: 'http://weft.example', WEFT_BUILD_ENV: 'REGISTRY', REGISTRY },
  })
  t.teardown(() => cluster.stop())
  const control = controlOf(cluster.url)
  const repository = makeRepository(folder, 'app', application('one'))

  let made = await control.create('My App', repository.url).catch(error => error)
  t.match(made, { message: /422/ }, 'a name with a blank')
  made = await control.create('my_App', repository.url, { secrets: [{ name: 'TOKEN', value: 'a-secret-value' }] })
  const url = control.urlOf(made)
  const head = repository.git('rev-parse', 'HEAD')

  await t.test('calls before the first revision are refused', async t => {
    const answer = await fetch(`${url}/runs/wait`, { method: 'POST', body: '{"assistant_id":"agent"}' })
    t.equal(answer.status, 503)
    t.match(await answer.json(), { detail: /being deployed/ })
  })

  await t.test('a good commit is served', async t => {
    const revision = await control.deployed(made)
    t.match(revision, { status: 'DEPLOYED', source_revision_config: { repo_commit_sha: head } })
    t.match(await control.get(made.id), { status: 'READY', active_revision_id: revision.id, image_version: /^weft / })
    for (const { name, connect } of lines) {
      const client = connect(url)
      const thread = await client.threads.create()
      const values = await client.runs.wait(thread.thread_id, 'agent', { input: { text: 'hello' } })
      t.match(values, { answer: 'one hello' }, name)
      t.match((await client.threads.getState(thread.thread_id)).values, { answer: 'one hello' })
      t.match(await client.assistants.get('agent'), { graph_id: 'agent', metadata: { created_by: 'system' } })
      const parts: unknown[] = []
      for await (const part of client.runs.stream(null, 'agent', { input: { count: 3 }, streamMode: 'custom' }))
        parts.push(part.data)
      t.same(parts.slice(1), [{ i: 0 }, { i: 1 }, { i: 2 }])
    }
    const get = async (env: string) =>
      ((await lines[0]!.connect(url).runs.wait(null, 'agent', { input: { env } })) as { answer: string }).answer
    t.equal(await get('TOKEN'), 'one a-secret-value')
    t.equal(await get('FROM_CONFIG'), 'one config')
    t.equal(await get('LANGSMITH_HOST_PROJECT_ID'), `one ${made.id}`)
    const { pathname } = new URL(url)
    t.equal(await get('LANGGRAPH_API_URL'), `one http://weft.example${pathname}`, 'the application has its own URL')
    t.equal(await get('NATS_URL'), 'one undefined')
    t.equal(await get('WEFT_CONTROL_KEY'), 'one undefined')
    t.notMatch(cluster.output(), /a-secret-value/)
    t.match(
      (await control.buildLog(made.id, made.latest_revision_id!)).join('\n'),
      new RegExp(`commit ${head}[^]*probe: agent`),
    )
  })

  await t.test('unprefixed calls stay with the built-in application', async t => {
    const client = lines[0]!.connect(cluster.url)
    await t.rejects(client.runs.wait(null, 'agent2', { input: {} }), /404/)
    t.match(await client.runs.wait(null, 'echo', { input: { text: 'x' } }), { seen: 'x' })
    await t.rejects(lines[0]!.connect(url).runs.wait(null, 'echo', { input: {} }), /404/)
  })

  await t.test('a second revision takes over under load', async t => {
    const client = lines[0]!.connect(url)
    repository.commit({ 'graph.mjs': graphFile('two') })
    const answers: string[] = []
    const failures: string[] = []
    let loading = true
    const load = Array.from({ length: 4 }, async (_, n) => {
      const thread = await client.threads.create()
      while (loading) {
        const thread_id = n % 2 === 0 ? thread.thread_id : null
        try {
          const values = await client.runs.wait(thread_id as string, 'agent', { input: { text: 'x', count: n } })
          answers.push((values as { answer: string }).answer)
        } catch (error) {
          failures.push(`${error}`)
        }
      }
    })
    // A run that is executed during the cutover, and one that is queued behind it.
    const busy = await client.threads.create()
    const until = join(folder, 'go-on')
    const long = await client.runs.create(busy.thread_id, 'agent', { input: { text: 'long', until } })
    const behind = await client.runs.create(busy.thread_id, 'agent', {
      input: { text: 'behind' },
      multitaskStrategy: 'enqueue',
    })
    await control.deployed(await control.again(made.id))
    t.match(await client.runs.wait(null, 'agent', { input: { text: 'now' } }), { answer: 'two now' }, 'at once')
    t.equal((await client.runs.get(busy.thread_id, long.run_id)).status, 'running')
    writeFileSync(until, '')
    const seen = answers.length
    while (answers.length < seen + 20) await sleep(10)
    loading = false
    await Promise.all(load)
    t.same(failures, [])
    t.match(
      await client.runs.join(busy.thread_id, behind.run_id),
      { answer: 'two behind' },
      'the queued run is executed by the new revision',
    )
    t.equal(
      (await client.runs.get(busy.thread_id, long.run_id)).status,
      'success',
      'the running one ends on the old revision',
    )
    const change = answers.findIndex(answer => answer.startsWith('two'))
    t.ok(change > 0)
    t.same([...new Set(answers)].sort(), ['one x', 'two x'])
  })

  await t.test('a broken third revision leaves the second active', async t => {
    repository.commit({ 'graph.mjs': 'import "./not-there.mjs"\n' })
    const revision = await control.over(await control.again(made.id))
    t.match(revision, { status: 'BUILD_FAILED', status_message: /probe: Graph "agent" cannot be loaded/ })
    const log = (await control.buildLog(made.id, revision.id)).join('\n')
    t.match(log, /not-there\.mjs/)
    const deployment = await control.get(made.id)
    t.not(deployment.active_revision_id, revision.id)
    t.equal(deployment.latest_revision_id, revision.id)
    t.match(await lines[1]!.connect(url).runs.wait(null, 'agent', { input: { text: 'x' } }), { answer: 'two x' })
    repository.commit({ 'graph.mjs': graphFile('three') })
  })

  await t.test('a tag, another path, commands', async t => {
    repository.commit({
      'deep/langgraph.json': '{"graphs":{"deep":"./built.mjs:graph"}}',
      'deep/source.mjs': graphFile('deep'),
      'deep/build.sh': 'echo registry $REGISTRY\necho $REGISTRY | base64\ncp source.mjs built.mjs\n',
    })
    repository.git('tag', 'v1')
    repository.commit({ 'deep/source.mjs': null })
    const other = await control.create('tagged', repository.url, {
      ref: 'refs/tags/v1',
      path: 'deep',
      config: { install_command: 'touch installed', build_command: 'ls ../installed && sh build.sh' },
    })
    const { id: revision } = await control.deployed(other)
    const log = (await control.buildLog(other.id, revision)).join('\n')
    t.match(log, /registry \[redacted\]\n/, 'the build has the variable, its log does not')
    for (const text of [REGISTRY, Buffer.from(`${REGISTRY}\n`).toString('base64').slice(0, 24)])
      t.notOk(log.includes(text))
    t.match(await lines[0]!.connect(control.urlOf(other)).runs.wait(null, 'deep', { input: { text: 'x' } }), {
      answer: 'deep x',
    })
    await t.rejects(lines[0]!.connect(control.urlOf(other)).runs.wait(null, 'agent', { input: {} }), /404/)
    const client = lines[0]!.connect(control.urlOf(other))
    const thread = await client.threads.create()
    await client.runs.wait(thread.thread_id, 'deep', { input: { text: 'x' } })
    const busy = await client.threads.create()
    await client.runs.create(busy.thread_id, 'deep', { input: { count: 5_000 } })
    await client.crons.create('deep', { schedule: '* * * * *' })
    t.equal((await control.remove(other.id)).status, 204)
    for (;;) {
      const { status } = await control.ask('GET', `/v2/deployments/${other.id}`)
      if (status === 404) break
      await sleep(50)
    }
    t.equal((await fetch(`${control.urlOf(other)}/ok`)).status, 404, 'and it is removed')
    for (const { thread_id } of [thread, busy]) {
      const created = await fetch(`${cluster.url}/threads`, { method: 'POST', body: JSON.stringify({ thread_id }) })
      t.equal(created.status, 200, 'its threads are removed: the id is free')
    }
  })

  await t.test('two deployments of one artefact are not mixed', async t => {
    const one = makeRepository(folder, 'twice', application('twice'))
    const made = []
    for (const name of ['first', 'second'])
      made.push(await control.create(name, one.url, { secrets: [{ name: 'WHOSE', value: `that of the ${name}` }] }))
    for (const each of made) await control.deployed(each)
    const clients = made.map(each => lines[0]!.connect(control.urlOf(each)))
    const answerOf = async (n: number, env: string) =>
      ((await clients[n]!.runs.wait(null, 'agent', { input: { env } })) as { answer: string }).answer
    // At the same time, so that a worker of the wrong one would take some.
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, i) => answerOf(i % 2, i % 4 < 2 ? 'WHOSE' : 'LANGSMITH_HOST_PROJECT_ID')),
    )
    const expected = [
      ['that of the first', made[0]!.id],
      ['that of the second', made[1]!.id],
    ] as const
    t.same(
      answers,
      answers.map((_, i) => `twice ${expected[i % 2]![i % 4 < 2 ? 0 : 1]}`),
    )
    const { thread_id } = await clients[0]!.threads.create()
    await t.rejects(clients[1]!.threads.get(thread_id), /404/)
    await t.rejects(clients[1]!.runs.wait(thread_id, 'agent', { input: {} }), /404/)
    await control.remove(made[0]!.id)
    while ((await control.ask('GET', `/v2/deployments/${made[0]!.id}`)).status !== 404) await sleep(50)
    t.equal(await answerOf(1, 'WHOSE'), 'twice that of the second', 'it goes on without the other')
    await control.remove(made[1]!.id)
  })

  await t.test('path aliases and relative files of the application', async t => {
    const made = await control.create('aliased', makeRepository(folder, 'aliased', aliasedApplication).url)
    await control.deployed(made)
    t.match(await lines[0]!.connect(control.urlOf(made)).runs.wait(null, 'agent', { input: { text: 'x' } }), {
      answer: 'aliased prompt prompt',
    })
  })

  await t.test('a first revision that fails', async t => {
    const failing = async (name: string, url: string, more: object, why: RegExp) => {
      const other = await control.create(name, url, more)
      const revision = await control.over(other)
      t.match(revision, { status: 'BUILD_FAILED', status_message: why }, name)
      const answer = await fetch(`${control.urlOf(other)}/runs`, { method: 'POST', body: '{"assistant_id":"agent"}' })
      t.equal(answer.status, 409)
      return other
    }
    await failing('no-config', repository.url, { path: 'nowhere.json' }, /config: the commit has no nowhere.json/)
    await failing('no-ref', repository.url, { ref: 'nowhere' }, /no branch, tag or commit "nowhere"/)
    await failing('bad-command', repository.url, { config: { build_command: 'false' } }, /build failed \(exit code 1\)/)
    const odd = makeRepository(folder, 'odd', { 'langgraph.json': '{"graphs":{"agent":"./agent.ts"}}' })
    const other = await failing('odd', odd.url, {}, /must be given as "file:export"/)
    odd.commit(application('mended'))
    await control.deployed(await control.again(other.id))
    t.match(await lines[0]!.connect(control.urlOf(other)).runs.wait(null, 'agent', { input: { text: 'x' } }), {
      answer: 'mended x',
    })
  })

  await t.test('refused sources', async t => {
    for (const repo_url of [
      'ext::sh -c touch% /tmp/x',
      'ext::sh',
      '-x',
      '--upload-pack=touch',
      'http://127.0.0.1:1/app.git',
      'https://127.0.0.1/app.git',
      'https://169.254.169.254/app.git',
      'git://example.org/app.git',
      'file:///etc',
      '/etc',
      `file://${folder}/../..`,
    ]) {
      const answer = await control.create('refused', repo_url).then(
        made => control.over(made).then(({ status }) => status),
        error => `${/: (4\d\d) /.exec(error.message)?.[1]}`,
      )
      t.match(answer, /^(400|422|BUILD_FAILED)$/, `${repo_url}: ${answer}`)
    }
  })

  await t.test('a revision whose replicas cannot start fails, and the previous one stays active', async t => {
    const flag = join(folder, 'probed')
    const dies = `import fs from 'node:fs'
if (fs.existsSync(${JSON.stringify(flag)})) process.exit(9)
fs.writeFileSync(${JSON.stringify(flag)}, '')
${graphFile('never')}`
    repository.commit({ 'graph.mjs': dies })
    const revision = await control.over(await control.again(made.id))
    t.match(revision, { status: 'DEPLOY_FAILED', status_message: /cannot start/ })
    t.match(await lines[0]!.connect(url).runs.wait(null, 'agent', { input: { text: 'x' } }), { answer: 'two x' })
    repository.commit({ 'graph.mjs': graphFile('three') })
  })

  const replicas = () => cluster.pids().filter(pid => commandOf(pid).endsWith('programs/replica.js'))
  const before = replicas()
  const { body } = await control.ask<{ resources: Deployment[] }>('GET', '/v2/deployments?limit=100')
  /** Each has one. Those of revisions that were replaced or removed go on for a while, and are not started again. */
  const wanted = body.resources.filter(({ active_revision_id }) => active_revision_id !== null).length

  await t.test('a replica that exits is restarted', async t => {
    const client = lines[0]!.connect(url)
    for (const pid of before) process.kill(pid, 'SIGKILL')
    t.match(await client.runs.wait(null, 'agent', { input: { text: 'x' } }), { answer: / x$/ })
    while (replicas().length < wanted) await sleep(20)
    t.ok(replicas().every(pid => !before.includes(pid)))
  })

  await t.test('a new size is applied in place', async t => {
    const old = replicas()
    const deployment = await control.patch(made.id, {
      source_config: { resource_spec: { min_scale: 2, max_scale: 2 } },
    })
    t.equal(deployment.latest_revision_id, (await control.get(made.id)).latest_revision_id, 'no new revision')
    while (replicas().length !== wanted + 1 || replicas().every(pid => old.includes(pid))) await sleep(50)
    t.match(await lines[0]!.connect(url).runs.wait(null, 'agent', { input: { text: 'x' } }), { answer: 'two x' })
  })

  await t.test('an interrupt ends a build at once', async t => {
    const other = await control.create('slow', repository.url, { config: { build_command: 'sleep 1000' } })
    await control.reaches(other, 'BUILDING')
    const log = async () => (await control.buildLog(other.id, other.latest_revision_id!)).join('\n')
    while (!(await log()).includes('build: sleep 1000')) await sleep(50)
    await control.interrupt(other.id, other.latest_revision_id!)
    t.equal((await control.over(other)).status, 'INTERRUPTED')
  })

  await t.test('active revisions run again after a restart', async t => {
    const client = lines[0]!.connect(url)
    const thread = await client.threads.create()
    const run = await client.runs.create(thread.thread_id, 'agent', { input: { text: 'kept', count: 200 } })
    const before = cluster.pids()
    await cluster.launcher.stop()
    t.same(
      before.filter(pid => cluster.pids().includes(pid)),
      [],
      'all processes have ended',
    )
    const again = await startCluster({ app: 'test/apps/basic', env: deployEnv(folder), data: cluster.data })
    t.teardown(() => again.stop())
    const slug = new URL(url).pathname
    const later = lines[0]!.connect(`${again.url}${slug}`)
    t.match(await later.runs.join(thread.thread_id, run.run_id), { answer: 'two kept' })
    t.match(await later.runs.wait(thread.thread_id, 'agent', { input: { text: 'x' } }), { answer: 'two x' })
  })
})
