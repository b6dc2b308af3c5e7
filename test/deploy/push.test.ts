/** Webhooks of GitHub and GitLab: signed pushes build, everything else does not. */
import { createHmac } from 'node:crypto'
import t from 'tap'
import type { Deployment } from '../../schemas/deployments.js'
import { repositoryOf } from '../../workers/resources/deployments/rules.js'
import { startCluster } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'
import { controlOf, deployEnv, KEY } from './control.js'
import { application, graphFile, makeRepository, sourcesFolder } from './repository.js'

t.setTimeout(180_000)

const SECRET = 'a-secret-of-git-hosts'

t.test('addresses of one repository', async t => {
  const same = [
    'https://github.com/Me/My-App',
    'https://github.com/me/my-app.git',
    'https://github.com/me/my-app/',
    'ssh://git@github.com:22/me/my-app.git',
    'git@github.com:me/my-app.git',
  ]
  for (const url of same) t.equal(repositoryOf(url), 'github.com/me/my-app')
  for (const url of ['https://github.com/me/my-app2', 'https://gitlab.com/me/my-app', '/me/my-app', ''])
    t.not(repositoryOf(url), 'github.com/me/my-app')
  t.equal(repositoryOf('file:///srv/a'), repositoryOf('/srv/a'))
})

t.test('pushes with and without signatures', async t => {
  const { folder, remove } = sourcesFolder()
  t.teardown(remove)
  const cluster = await startCluster({
    app: 'test/apps/basic',
    env: { ...deployEnv(folder), WEFT_PUSH_SECRET: SECRET },
  })
  t.teardown(() => cluster.stop())
  const control = controlOf(cluster.url)
  const repository = makeRepository(folder, 'pushed', application('one'))
  const other = makeRepository(folder, 'other', application('other'))

  const send = async (host: string, body: string, headers: { [name: string]: string }) => {
    const answer = await fetch(`${cluster.url}/v1/integrations/${host}/webhook`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body,
    })
    return { status: answer.status, body: (await answer.json()) as { deployments: object[]; detail: string } }
  }
  const signature = (body: string, secret = SECRET) =>
    `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`
  const github = (push: object, more: { [name: string]: string } = {}) => {
    const body = JSON.stringify(push)
    return send('github', body, { 'x-github-event': 'push', 'x-hub-signature-256': signature(body), ...more })
  }
  const gitlab = (push: object, more: { [name: string]: string } = {}) =>
    send('gitlab', JSON.stringify(push), { 'x-gitlab-event': 'Push Hook', 'x-gitlab-token': SECRET, ...more })
  const pushOf = (after: string, ref = 'refs/heads/main', clone_url = repository.url) => ({
    ref,
    after,
    repository: { clone_url, ssh_url: null, private: true },
  })
  const seqOf = async ({ id }: Deployment) =>
    (await control.ask<{ resources: object[] }>('GET', `/v2/deployments/${id}/revisions`)).body.resources.length
  const head = () => repository.git('rev-parse', 'HEAD')

  const made = await control.create('on-push', repository.url, { config: { build_on_push: true } })
  const still = await control.create('not-on-push', repository.url)
  await control.deployed(made)
  await control.deployed(still)

  await t.test('what is refused or ignored', async t => {
    const push = pushOf('a'.repeat(40))
    const body = JSON.stringify(push)
    const wrong = [
      await send('github', body, { 'x-github-event': 'push' }),
      await send('github', body, { 'x-github-event': 'push', 'x-api-key': KEY }),
      await github(push, { 'x-hub-signature-256': signature(body, 'another-secret-of-them') }),
      await github(push, { 'x-hub-signature-256': signature(`${body} `) }),
      await github(push, { 'x-hub-signature-256': '' }),
      await send('gitlab', body, { 'x-gitlab-event': 'Push Hook' }),
      await gitlab(push, { 'x-gitlab-token': `${SECRET}x` }),
    ]
    for (const { status, body } of wrong) {
      t.equal(status, 401)
      t.match(body.detail, /WEFT_PUSH_SECRET/)
    }
    const ignored = [
      await github({ zen: 'Keep it logically awesome.', hook_id: 1 }, { 'x-github-event': 'ping' }),
      await github(push, { 'x-github-event': 'pull_request' }),
      await github({ ...pushOf('0'.repeat(40)), deleted: true }),
      await github(pushOf('a'.repeat(40), 'refs/heads/another')),
      await github(pushOf('a'.repeat(40), 'refs/tags/main')),
      await github(pushOf('a'.repeat(40), 'main')),
      await github(pushOf('a'.repeat(40), 'refs/heads/main', other.url)),
      await github(pushOf(head())),
      await gitlab(push, { 'x-gitlab-event': 'Tag Push Hook' }),
    ]
    for (const { status, body } of ignored) t.same([status, body], [200, { deployments: [] }])
    t.match(await github({ ref: 17 }), { status: 422 })
    t.equal(await seqOf(made), 1)
  })

  await t.test('a push to GitHub builds its branch once', async t => {
    repository.commit({ 'graph.mjs': graphFile('two') })
    const push = pushOf(head())
    const { status, body } = await github(push)
    t.equal(status, 200)
    t.match(body.deployments, [{ deployment_id: made.id, revision_id: String }])
    t.same((await github(push)).body, { deployments: [] }, 'a repeat at once')
    const now = await control.get(made.id)
    const revision = await control.deployed(now)
    t.equal(revision.source_revision_config.repo_commit_sha, head())
    t.same((await github(push)).body, { deployments: [] }, 'a repeat later')
    t.match(await lines[0]!.connect(control.urlOf(made)).runs.wait(null, 'agent', { input: { text: 'x' } }), {
      answer: 'two x',
    })
    t.equal(await seqOf(made), 2)
    t.equal(await seqOf(still), 1, 'build_on_push is off')
  })

  await t.test('a push to GitLab too; a replayed older push deploys nothing old', async t => {
    const old = head()
    repository.commit({ 'graph.mjs': graphFile('three') })
    const project = { git_http_url: repository.url, git_ssh_url: 'git@gitlab.example:x/y.git' }
    const { body } = await gitlab({ object_kind: 'push', ref: 'refs/heads/main', after: head(), project })
    t.match(body.deployments, [{ deployment_id: made.id }])
    await control.deployed(await control.get(made.id))
    await github(pushOf(old))
    const revision = await control.deployed(await control.get(made.id))
    t.equal(revision.source_revision_config.repo_commit_sha, head())
  })

  await t.test('not with a tag', async t => {
    const answer = await control.ask('PATCH', `/v2/deployments/${made.id}`, {
      source_revision_config: { repo_ref: 'refs/tags/v1' },
    })
    t.match(answer, { status: 400, body: { detail: /build_on_push must not be true/ } })
  })
})
