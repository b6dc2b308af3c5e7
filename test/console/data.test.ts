/** Crons, the item store, the form of a configuration, and decisions about actions. */
import t from 'tap'
import { openStage, photograph, type Stage, seriousDefects } from './stage.js'

t.setTimeout(120_000)

let stage: Stage
t.before(async () => {
  stage = await openStage({}, 'test/apps/console')
})
t.teardown(() => stage?.close())

t.test('a cron is made, paused, changed and deleted', async t => {
  const page = await stage.open('/crons')
  await page.getByRole('heading', { name: 'No cron yet' }).waitFor()
  await page.getByRole('button', { name: 'New cron' }).click()
  const form = page.getByRole('form', { name: 'Cron' })
  await form.getByLabel('Schedule').fill('at noon')
  await form.getByLabel('Time zone').fill('Europe/Rome')
  await form.getByLabel('Input').fill('{"text": "tell me a story"}')
  await form.getByRole('button', { name: 'Create' }).click()
  await form.getByRole('alert').getByText('schedule').waitFor()
  await form.getByLabel('Schedule').fill('0 12 * * 1')
  await form.getByRole('button', { name: 'Create' }).click()
  const row = page.getByRole('row').filter({ hasText: '0 12 * * 1' })
  await row.getByText('enabled').waitFor()
  await row.getByText('Europe/Rome').waitFor()
  // The first, and the four after it: Mondays.
  await row.getByText(/^then\s*Mon(.*Mon){3}/).waitFor()
  await row.getByRole('link', { name: 'clerk' }).waitFor()
  await row.getByText('{"text":"tell me a story"}').waitFor()
  t.equal(await form.count(), 0)
  t.same(await seriousDefects(page), [])
  await photograph(page, 'crons')

  page.once('dialog', dialog => void dialog.accept())
  const started = page.waitForResponse(
    one => one.request().method() === 'POST' && new URL(one.url()).pathname === '/runs',
  )
  await row.getByRole('button', { name: 'Fire now' }).click()
  const { run_id, metadata } = await (await started).json()
  t.ok(run_id)
  t.match(metadata, { graph_id: 'clerk' })
  await page.getByRole('status').filter({ hasText: 'A run has started' }).waitFor()

  await row.getByRole('button', { name: 'Pause' }).click()
  await row.getByText('paused').waitFor()
  await row.getByRole('button', { name: 'Edit' }).click()
  t.match(await form.getByLabel('Input').inputValue(), 'tell me a story')
  await form.getByLabel('Schedule').fill('30 6 * * *')
  await form.getByRole('button', { name: 'Save' }).click()
  const changed = page.getByRole('row').filter({ hasText: '30 6 * * *' })
  await changed.getByText('paused').waitFor()
  page.on('dialog', dialog => void dialog.accept())
  await changed.getByRole('button', { name: 'Delete' }).click()
  await page.getByRole('heading', { name: 'No cron yet' }).waitFor()
  t.same(
    stage.errors().filter(error => !error.includes('422')),
    [],
  )
})

t.test('items are put, found by meaning and by namespace, and deleted', async t => {
  const page = await stage.open('/store')
  await page.getByRole('heading', { name: 'No items here' }).waitFor()
  await page.getByRole('button', { name: 'Put an item' }).click()
  const form = page.getByRole('form', { name: 'Item' })
  const items = page.getByRole('region', { name: 'Items' }).getByRole('listitem')
  for (const [namespace, key, text] of [
    ['users/ada', 'likes', 'aaa'],
    ['users/bob', 'colour', 'bbb'],
  ] as const) {
    if ((await form.count()) === 0) await page.getByRole('button', { name: 'Put an item' }).click()
    await form.getByLabel('Namespace').fill(namespace)
    await form.getByLabel('Item key').fill(key)
    await form.getByLabel('Value').fill(JSON.stringify({ text }))
    await form.getByRole('button', { name: 'Put', exact: true }).click()
    await items.filter({ hasText: key }).waitFor()
  }
  // The embedder of the application counts letters.
  const search = page.getByRole('searchbox', { name: 'Search by meaning' })
  await search.fill('bb')
  await items.first().filter({ hasText: 'colour' }).filter({ hasText: '1.000' }).waitFor()
  await search.fill('')
  await page.getByRole('navigation', { name: 'Namespaces' }).getByRole('button', { name: 'bob', exact: true }).click()
  await items.filter({ hasText: 'likes' }).waitFor({ state: 'detached' })
  await items.filter({ hasText: 'colour' }).waitFor()
  t.equal(await items.count(), 1)
  t.same(await seriousDefects(page), [])
  await photograph(page, 'store')
  t.match(page.url(), /#\/store\?in=users%2Fbob$/)
  await items.getByRole('button', { name: 'Edit' }).click()
  t.match(await form.getByLabel('Value').inputValue(), '"text": "bbb"')
  await form.getByLabel('Value').fill('{"text": "bb", "kind": "note"}')
  await form.getByRole('button', { name: 'Save' }).click()
  await items.getByText('"note"').waitFor()
  await page.getByRole('button', { name: 'All namespaces' }).click()
  await items.nth(1).waitFor()
  await page.getByRole('searchbox', { name: 'Filter by members' }).fill('kind:note')
  await items.filter({ hasText: 'likes' }).waitFor({ state: 'detached' })
  await items.filter({ hasText: 'colour' }).waitFor()
  t.equal(await items.count(), 1)
  await page.getByRole('searchbox', { name: 'Filter by members' }).fill('')
  await page.getByRole('button', { name: 'bob', exact: true }).click()
  await items.filter({ hasText: 'likes' }).waitFor({ state: 'detached' })
  await items.filter({ hasText: 'colour' }).waitFor()
  page.on('dialog', dialog => void dialog.accept())
  await items.getByRole('button', { name: 'Delete' }).click()
  await page.getByRole('heading', { name: 'No items here' }).waitFor()
  t.same(stage.errors(), [])
})

t.test('the form of the context is made from its schema', async t => {
  const page = await stage.open('/chat/new')
  await page.getByRole('button', { name: 'Configuration' }).click()
  // A host computes the schemas.
  await page.getByLabel('tone').selectOption('kind', { timeout: 30_000 })
  await page.getByLabel('copies').fill('3')
  t.same(await seriousDefects(page), [])
  await photograph(page, 'chat-configuration')
  await page.getByLabel('Message').fill('hello')
  await page.getByRole('button', { name: 'Send' }).click()
  await page.locator('.message.ai').getByText('tone kind, copies 3').waitFor()
})

t.test('an action is edited before it is approved', async t => {
  const page = await stage.open('/chat/new')
  await page.getByLabel('Message').fill('send')
  await page.getByRole('button', { name: 'Send' }).click()
  const question = page.getByRole('region', { name: 'Question' })
  await question.getByText('Sends a mail.').waitFor()
  t.same(await seriousDefects(page), [])
  await photograph(page, 'chat-action')
  await question.getByRole('button', { name: 'Edit', exact: true }).click()
  await question.getByLabel('Arguments').fill('{"to": "bob"}')
  await question.getByRole('button', { name: 'Approve as edited' }).click()
  await page
    .locator('.message.ai')
    .getByText('[{"type":"edit","edited_action":{"name":"send_mail","args":{"to":"bob"}}}]')
    .waitFor()
  t.same(stage.errors(), [])
})
