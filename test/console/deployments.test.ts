/** Deployments in the console, before a scripted deploy worker: nothing is built here. */
import t from 'tap'
import type { DeployTask } from '../../schemas/deploy-calls.js'
import type { Deployment } from '../../schemas/deployments.js'
import { startRoles } from '../helpers/cluster.js'
import { type Deployer, KEY, openControl, openDeployer } from '../helpers/control.js'
import { openStageWith, photograph, type Stage, seriousDefects } from './stage.js'

t.setTimeout(120_000)

let deployer: Deployer
let stage: Stage<{ url: string; stop(): Promise<null> }>
t.before(async () => {
  stage = await openStageWith(async () => {
    const roles = await startRoles({ graphs: 0, env: { WEFT_CONTROL_KEY: KEY } })
    deployer = await openDeployer(roles.nats.url('deployer'))
    return { url: roles.urls[0]!, stop: () => roles.stop().then(() => null) }
  })
})
t.teardown(async () => {
  await deployer?.close()
  await stage?.close()
})

const line = (text: string, level = 'INFO') => ({ t: Date.now(), level, text })

t.test('a deployment is created, followed, changed, rolled back and deleted', async t => {
  const page = await stage.open('/deployments')
  const call = openControl(stage.cluster.url)

  await t.test('with the key of the control plane', async t => {
    const form = page.getByRole('form', { name: 'Key of the control plane' })
    await form.getByText('needs a key, also on this machine').waitFor()
    t.same(await seriousDefects(page), [])
    await photograph(page, 'enter-key')
    await form.getByLabel('Control key').fill('wrong')
    await form.getByRole('button', { name: 'Continue' }).click()
    await form.getByText('This is not the key of the control plane').waitFor()
    await form.getByLabel('Control key').fill(KEY)
    await form.getByRole('button', { name: 'Continue' }).click()
    await page.getByRole('heading', { name: 'No deployment yet' }).waitFor()
    t.equal(await page.getByRole('heading', { name: 'Sign in' }).count(), 0, 'the session goes on')
    await page.goto(`${stage.cluster.url}/console#/keys`)
    await page.getByRole('heading', { name: 'No key yet' }).waitFor()
    await page.goto(`${stage.cluster.url}/console#/deployments`)
    // The browser logs the answer 401.
    t.ok(stage.errors().every(error => error.includes('401')))
  })

  const revisions = page.getByRole('region', { name: 'Revisions' })
  const log = page.getByRole('region', { name: 'Log' })
  const rows = revisions.getByRole('row')
  const newest = rows.nth(1)
  let task: DeployTask

  await t.test('created', async t => {
    await page.getByRole('button', { name: 'New deployment' }).click()
    const form = page.getByRole('form', { name: 'Deployment' })
    await form.getByLabel('Name', { exact: true }).fill('support')
    await form.getByLabel('Repository').fill('https://user:password@example.com/support')
    await form.getByRole('button', { name: 'Add a secret' }).click()
    await form.getByLabel('Name of secret 1').fill('OPENAI_API_KEY')
    await form.getByLabel('Value of secret 1').fill('sk-a-secret')
    t.same(await seriousDefects(page), [])
    await photograph(page, 'deployment-form')
    await form.getByRole('button', { name: 'Create' }).click()
    await form.getByRole('alert').getByText('repo_url').waitFor()
    await form.getByLabel('Repository').fill('https://example.com/support')
    await form.getByRole('button', { name: 'Create' }).click()
    await page.getByRole('heading', { name: 'support', exact: true }).waitFor()
    await page.getByText('OPENAI_API_KEY').waitFor()
    await newest.getByText('awaiting build').waitFor()
    t.notOk((await page.content()).includes('sk-a-secret'))
    stage.errors()
  })

  await t.test('followed while it is built and started', async t => {
    task = (await deployer.claim())!
    t.same(task.env, { OPENAI_API_KEY: 'sk-a-secret' })
    await deployer.advance(task, 'BUILDING', { repo_commit_sha: 'c'.repeat(40) })
    await deployer.log(task, 'build', [line('npm ci'), line('added 31 packages')])
    await newest.getByText('building').waitFor()
    await newest.getByText('main @ ccccccc').waitFor()
    await log.getByText('added 31 packages').waitFor()
    await deployer.log(task, 'build', [line('a warning of sk-a-secret', 'WARNING'), line('no such file', 'ERROR')])
    await log.getByText('no such file').waitFor()
    t.equal(await log.getByText('added 31 packages').count(), 1, 'no line twice')
    t.notOk((await log.textContent())!.includes('sk-a-secret'))
    for (const status of ['AWAITING_DEPLOY', 'DEPLOYING', 'DEPLOYED'] as const) await deployer.advance(task, status)
    await newest.getByText('serves').waitFor()
    await log.getByRole('button', { name: 'Deploy', exact: true }).click()
    await log.getByText('No line yet').waitFor()
    await log.getByRole('button', { name: 'Build', exact: true }).click()
    await log.getByText('no such file').waitFor()
    t.same(await seriousDefects(page), [])
  })

  await t.test('changed by a revision, which fails and says why', async t => {
    await page.getByRole('button', { name: 'New revision' }).click()
    const form = page.getByRole('form', { name: 'Revision' })
    await form.getByLabel('Branch, tag or commit').fill('next')
    await form.getByRole('button', { name: 'Add a secret' }).click()
    await form.getByLabel('Name of secret 2').fill('REGION')
    await form.getByLabel('Value of secret 2').fill('north')
    await form.getByRole('button', { name: 'Deploy' }).click()
    await newest.getByText('next').waitFor()
    const failed = await deployer.bring('BUILD_FAILED', { message: 'build: the command npm ci failed with 1' })
    t.same(failed.env, { OPENAI_API_KEY: 'sk-a-secret', REGION: 'north' }, 'what is not changed stays')
    await newest.getByText('build failed').waitFor()
    await newest.getByText('the command npm ci failed').waitFor()
    await rows.nth(2).getByText('serves').waitFor()
    t.same(await seriousDefects(page), [])
    await page.emulateMedia({ colorScheme: 'dark' })
    t.same(await seriousDefects(page), [], 'also in the dark')
    await rows
      .nth(2)
      .getByRole('button', { name: task.revision_id.slice(-8) })
      .click()
    await log.getByText('added 31 packages').waitFor()
    await photograph(page, 'deployment')
  })

  await t.test('interrupted', async () => {
    await newest.getByRole('button', { name: 'Try again' }).click()
    await newest.getByText('awaiting build').waitFor()
    await newest.getByRole('button', { name: 'Interrupt' }).click()
    await newest.getByText('interrupted').waitFor()
  })

  await t.test('rolled back', async t => {
    const again = rows.filter({ hasText: 'serves' }).getByRole('button', { name: 'Deploy again' })
    await again.click()
    await rows.nth(4).waitFor()
    const second = await deploy()
    t.equal(second.repo_commit_sha, 'c'.repeat(40), 'the commit of the revision')
    await newest.getByText('serves').waitFor()
    await rows.nth(4).getByRole('button', { name: 'Roll back' }).click()
    await rows.nth(5).waitFor()
    const third = await deploy()
    await newest.getByText(`as ${task.revision_id.slice(-8)}`).waitFor()
    await newest.getByRole('button', { name: third.revision_id.slice(-8) }).waitFor()
    await newest.getByText('serves').waitFor()
  })

  await t.test('deleted', async t => {
    await page.getByRole('link', { name: 'All deployments' }).click()
    const row = page.getByRole('row').filter({ hasText: 'support' })
    await row.getByText('the latest serves').waitFor()
    t.same(await seriousDefects(page), [])
    await photograph(page, 'deployments')
    await row.getByRole('link', { name: 'support' }).click()
    page.once('dialog', dialog => void dialog.accept())
    await page.getByRole('button', { name: 'Delete' }).click()
    await row.getByText('awaiting delete').waitFor()
    const { resources } = (await call<{ resources: Deployment[] }>('GET', '/v2/deployments')).body
    t.match(resources, [{ status: 'AWAITING_DELETE' }])
    await settle(await deployer.claim())
    await page.getByRole('heading', { name: 'No deployment yet' }).waitFor()
    await page.getByRole('button', { name: 'Forget the control key' }).click()
    await page.getByRole('form', { name: 'Key of the control plane' }).waitFor()
  })
  t.same(stage.errors(), [])
})

/** Carries out tasks until the one that deploys. */
async function deploy(): Promise<DeployTask> {
  for (;;) {
    const task = await settle(await deployer.claim())
    if (task?.kind === 'deploy') return task
  }
}

/** Carries out a task to its end. */
async function settle(task: DeployTask | null): Promise<DeployTask | null> {
  if (task?.kind === 'delete') await deployer.advance(task, 'DELETED')
  else if (task?.kind === 'interrupt') await deployer.advance(task, 'INTERRUPTED')
  else if (task !== null) {
    const build = ['BUILDING', 'AWAITING_DEPLOY'] as const
    const path = [...(task.stage === 'AWAITING_DEPLOY' ? [] : build), 'DEPLOYING', 'DEPLOYED'] as const
    for (const status of path) await deployer.advance(task, status)
  }
  return task
}
