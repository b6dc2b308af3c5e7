/** A deploy worker that is killed at each stage: the next one continues the task at that stage and finishes it. */
import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { alive, below, commandOf, startRoles } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'
import { controlOf, deployEnv } from './control.js'
import { application, graphFile, makeRepository, type Repository, sourcesFolder } from './repository.js'

t.setTimeout(240_000)

t.test('kill -9 of the deploy worker', async t => {
  const { folder, remove } = sourcesFolder()
  t.teardown(remove)
  const flags = join(folder, 'flags')
  mkdirSync(flags)
  const bin = join(folder, 'bin')
  mkdirSync(bin)
  // The real git, which waits once when a flag is set.
  const git = `#!/bin/sh
if [ -e ${flags}/hold-fetch ] && [ ! -e ${flags}/fetch ]; then case "$*" in fetch*) : > ${flags}/fetch; sleep 1000;; esac; fi
PATH=\${PATH#*:} exec git "$@"
`
  writeFileSync(join(bin, 'git'), git)
  chmodSync(join(bin, 'git'), 0o755)
  const env = { ...deployEnv(folder), PATH: `${bin}${delimiter}${process.env.PATH}` }
  const roles = await startRoles({ app: 'test/apps/basic', env })
  t.teardown(() => roles.stop())
  const control = controlOf(roles.urls[0]!)
  const flag = async (name: string) => {
    while (!existsSync(join(flags, name))) await sleep(20)
  }
  const holding = (names: string[]) => `
import fs from 'node:fs'
for (const name of ${JSON.stringify(names)}) {
  const file = ${JSON.stringify(flags)} + '/' + name
  if (fs.existsSync(file)) continue
  fs.writeFileSync(file, '')
  if (!name.startsWith('pass')) await new Promise(() => setInterval(() => {}, 1000))
  break
}
`
  let deployer = await roles.add('deployer')
  let survivors: number[] = []
  const repositories = new Map<string, Repository>()

  const stages: { name: string; files?: { [path: string]: string }; config?: object; commits?: number }[] = [
    { name: 'fetch' },
    {
      name: 'install',
      config: { install_command: 'sh install.sh' },
      files: { 'install.sh': `[ -e ${flags}/install ] || { : > ${flags}/install; sleep 1000; }; exit 0\n` },
    },
    { name: 'probe', files: { 'graph.mjs': holding(['probe']) + graphFile('probe') } },
    // The probe passes; the first replica hangs.
    { name: 'deploy', files: { 'graph.mjs': holding(['pass-probe', 'deploy']) + graphFile('deploy') } },
  ]
  for (const { name, files = {}, config = {} } of stages) {
    await t.test(`during ${name}`, async t => {
      const repository = makeRepository(folder, name, { ...application(name), ...files })
      repositories.set(name, repository)
      if (name === 'fetch') writeFileSync(join(flags, 'hold-fetch'), '')
      const made = await control.create(name, repository.url, { config })
      const commit = repository.git('rev-parse', 'HEAD')
      await flag(name)
      const children = below(deployer.pid)
      t.ok(children.length > 0)
      if (name !== 'fetch') repository.commit({ 'moved.txt': 'the branch has moved on' })
      deployer.kill('SIGKILL')
      survivors = children
      deployer = await roles.add('deployer')
      const revision = await control.deployed(made)
      if (name !== 'fetch') t.equal(revision.source_revision_config.repo_commit_sha, commit, 'of its first commit')
      const values = await lines[0]!.connect(control.urlOf(made)).runs.wait(null, 'agent', { input: { text: 'x' } })
      t.match(values, { answer: `${name} x` })
      while (survivors.some(alive)) await sleep(20)
      t.pass('all processes of the killed worker have ended')
      t.same(readdirSync(join(roles.nats.data, 'deploy/work')), [], 'and its build folders are removed')
    })
  }

  await t.test('active revisions continue', async t => {
    const deployment = await control.find('fetch')
    const client = lines[0]!.connect(control.urlOf(deployment))
    const thread = await client.threads.create()
    const run = await client.runs.create(thread.thread_id, 'agent', { input: { text: 'going on', count: 100 } })
    deployer.kill('SIGKILL')
    const late = client.runs.wait(null, 'agent', { input: { text: 'accepted without it' } })
    deployer = await roles.add('deployer')
    t.match(await client.runs.join(thread.thread_id, run.run_id), { answer: 'fetch going on' })
    t.match(await late, { answer: 'fetch accepted without it' })
  })

  await t.test('orders about a deployment that serves', async t => {
    const deployment = await control.find('install')
    const { id } = deployment
    const client = lines[0]!.connect(control.urlOf(deployment))
    const serves = async () =>
      t.match(await client.runs.wait(null, 'agent', { input: { text: 'x' } }), { answer: 'install x' })
    const replicas = () => below(deployer.pid).filter(pid => commandOf(pid).endsWith('programs/replica.js')).length
    const begin = async () => {
      rmSync(join(flags, 'install'))
      // Another artefact.
      repositories.get('install')!.commit({ 'order.txt': `${Date.now()}` })
      const made = await control.again(id)
      await flag('install')
      return made
    }
    const settled = async (n: number) => {
      while (replicas() !== n) await sleep(50)
    }
    const before = stages.length
    await settled(before)

    await t.test('a new revision', async () => {
      const made = await begin()
      deployer.kill('SIGKILL')
      const late = serves()
      deployer = await roles.add('deployer')
      await late
      await control.deployed(made)
      await serves()
      await settled(before)
    })
    await t.test('an interrupt', async t => {
      const { active_revision_id } = await control.get(id)
      const made = await begin()
      deployer.kill('SIGKILL')
      await control.interrupt(id, made.latest_revision_id!)
      deployer = await roles.add('deployer')
      t.equal((await control.over(made)).status, 'INTERRUPTED')
      t.equal((await control.get(id)).active_revision_id, active_revision_id)
      await serves()
      await settled(before)
    })
    await t.test('another size', async () => {
      await control.patch(id, { source_config: { resource_spec: { min_scale: 2 } } })
      deployer.kill('SIGKILL')
      deployer = await roles.add('deployer')
      await settled(before + 1)
      await serves()
    })
    await t.test('a delete', async () => {
      await control.remove(id)
      deployer.kill('SIGKILL')
      deployer = await roles.add('deployer')
      while ((await control.ask('GET', `/v2/deployments/${id}`)).status !== 404) await sleep(50)
      await settled(before - 1)
    })
  })

  await t.test('a second worker on the same folder is refused', async t => {
    await t.rejects(roles.add('deployer'), /in use by another deploy worker/)
  })

  await t.test('a build that always ends its worker fails', async t => {
    const build_command = `touch ${flags}/again && sleep 1000`
    const made = await control.create('poison', makeRepository(folder, 'poison', application('x')).url, {
      config: { build_command },
    })
    for (let n = 1; n <= 3; n++) {
      const log = async () =>
        (await control.buildLog(made.id, made.latest_revision_id!)).filter(line => line.includes('build: touch'))
      while ((await log()).length < n) await sleep(50)
      deployer.kill('SIGKILL')
      deployer = await roles.add('deployer')
    }
    t.match(await control.over(made), { status: 'BUILD_FAILED', status_message: /ended 3 times/ })
  })
})
