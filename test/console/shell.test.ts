/** The frame of the console: signing in, keys, moving about, themes, a lost connection. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { root } from '../../cli/root.js'
import { openStage, photograph, type Stage, seriousDefects } from './stage.js'

t.setTimeout(120_000)

let stage: Stage
t.before(async () => {
  stage = await openStage({ WEFT_REQUIRE_KEYS: '1' })
})
t.teardown(() => stage?.close())

function createKey(): string {
  const args = ['keys', 'create', 'console', '--scope', 'admin', '--data', stage.cluster.data]
  const env = { ...process.env, WEFT_REQUIRE_KEYS: '1', NODE_OPTIONS: '' }
  return execFileSync(process.execPath, [join(root, 'dist/cli/weft.js'), ...args], {
    env,
    encoding: 'utf8',
    stdio: 'pipe',
  }).trim()
}

t.test('the frame', async t => {
  const page = await stage.open('/overview')

  await t.test('asks for a key, and says when it is wrong', async t => {
    const title = page.getByRole('heading', { name: 'Sign in' })
    await title.waitFor()
    t.same(await seriousDefects(page), [])
    await photograph(page, 'sign-in')
    await page.getByLabel('Key', { exact: true }).fill('wrong')
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByText('This is not a key of this server').waitFor()
    const key = page.getByLabel('Key', { exact: true })
    await key.fill(readFileSync(join(stage.cluster.data, 'control.key'), 'utf8').trim())
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('heading', { name: 'Deployments' }).waitFor()
    await page.getByRole('button', { name: 'Forget the control key' }).waitFor()
    await page.getByRole('link', { name: 'Overview' }).click()
    await page.getByText('The control key opens Deployments. This page needs a key of this server').waitFor()
    t.same(await seriousDefects(page), [])
    await photograph(page, 'sign-in-control')
    await key.fill(createKey())
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByText('A chat agent with tools').waitFor()
    await page.evaluate("sessionStorage.setItem('weft.control-key', '')")
    await page.reload()
    await page.getByText('A chat agent with tools').waitFor()
    t.equal(await title.count(), 0)
    t.equal(await page.evaluate('localStorage.length'), 0, 'the key ends with the tab')
    // The browser logs each answer 401.
    t.ok(stage.errors().every(error => error.includes('401')))
  })

  await t.test('shows what is served', async t => {
    await page.getByText(/^\d+ of \d+$/).waitFor()
    t.same(await seriousDefects(page), [])
    await photograph(page, 'overview')
    await page.emulateMedia({ colorScheme: 'dark' })
    t.same(await seriousDefects(page), [], 'also in the dark')
    await page.emulateMedia({ colorScheme: 'light' })
  })

  await t.test('creates a key, shows it once, and revokes it', async t => {
    await page.goto(`${stage.cluster.url}/console#/keys`)
    const row = (name: string) => page.getByRole('row').filter({ hasText: name })
    await row('console').getByText('by weft keys').waitFor()
    await page.getByRole('button', { name: 'New key' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Name').fill('frontend')
    await dialog.getByRole('checkbox', { name: /^read / }).check()
    await dialog.getByRole('checkbox', { name: /^write / }).check()
    await dialog.getByText('Limits').click()
    await dialog.getByLabel('Open streams').fill('7')
    t.same(await seriousDefects(page), [])
    await photograph(page, 'key-form')
    await dialog.getByRole('button', { name: 'Create' }).click()
    const key = (await dialog.locator('code').textContent())!
    const status = async (path = '/threads/search', body = {}) => {
      const headers = { 'x-api-key': key, 'content-type': 'application/json' }
      return (await fetch(`${stage.cluster.url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) }))
        .status
    }
    t.equal(await status(), 200)
    t.equal(await status('/runs/crons', { assistant_id: 'agent', schedule: '0 0 1 1 *' }), 200)
    t.same(await seriousDefects(page), [])
    await photograph(page, 'key-made')
    await page.keyboard.press('Escape')
    await page.keyboard.press('Escape')
    t.ok(await dialog.isVisible(), 'the key is not lost by Escape')
    await dialog.getByRole('button', { name: 'Done' }).click()
    await row('frontend').getByText('run, read, write').waitFor()
    await row('frontend').getByText('Open streams: 7').waitFor()
    await row('frontend').getByText('by console').waitFor()
    t.notOk((await page.content()).includes(key))
    t.same(await seriousDefects(page), [])
    await photograph(page, 'keys')
    page.once('dialog', dialog => void dialog.accept())
    await row('frontend').getByRole('button', { name: 'Revoke' }).click()
    await row('frontend').waitFor({ state: 'detached' })
    t.equal(await status(), 401)
    await page.getByRole('status').filter({ hasText: 'The key frontend is revoked.' }).waitFor()
    await page.getByRole('link', { name: 'One cron is paused' }).click()
    const cron = row('0 0 1 1 *')
    await cron.getByText(/^Its key \w+ was revoked$/).waitFor()
    t.same(await seriousDefects(page), [])
    await photograph(page, 'cron-paused')
    page.once('dialog', dialog => {
      t.match(dialog.message(), 'its runs have your identity from now on')
      void dialog.accept()
    })
    await cron.getByRole('button', { name: 'Go on' }).click()
    await cron.getByText('enabled').waitFor()
    t.equal(await cron.getByText('was revoked').count(), 0)
    await page.goto(`${stage.cluster.url}/console#/keys`)
    await row('console').waitFor()
    page.once('dialog', dialog => {
      t.match(dialog.message(), 'It is the key that you are using')
      void dialog.dismiss()
    })
    await row('console').getByRole('button', { name: 'Revoke' }).click()
    await row('console').waitFor()
    t.same(stage.errors(), [])

    // A key of the control plane, entered for deployments, may not do this: the key of the session does.
    const controlKey = readFileSync(join(stage.cluster.data, 'control.key'), 'utf8').trim()
    await page.evaluate(`sessionStorage.setItem('weft.control-key', '${controlKey}')`)
    await page.reload()
    await row('console').waitFor()
    await page.getByRole('button', { name: 'Forget the control key' }).click()
    t.equal(await page.evaluate("sessionStorage.getItem('weft.control-key')"), '')
    t.ok(stage.errors().every(error => error.includes('403')))
    await page.goto(`${stage.cluster.url}/console#/overview`)
  })

  await t.test('changes the theme, and keeps it', async t => {
    const background = () => page.evaluate('getComputedStyle(document.body).backgroundColor')
    const light = await background()
    await page.getByRole('button', { name: 'Theme: system' }).click()
    await page.getByRole('button', { name: 'Theme: light' }).click()
    t.not(await background(), light)
    await page.reload()
    await page.getByRole('button', { name: 'Theme: dark' }).click()
    t.equal(await background(), light)
  })

  await t.test('goes to a page by the palette, without a mouse', async t => {
    await page.keyboard.press('Control+k')
    const list = page.getByRole('listbox', { name: 'Choices' })
    await list.waitFor()
    t.same(await seriousDefects(page), [])
    await photograph(page, 'palette')
    await page.keyboard.type('overview')
    t.equal(await list.getByRole('option').count(), 1)
    await page.keyboard.press('Enter')
    await list.waitFor({ state: 'detached' })
    await page.keyboard.press('Control+k')
    await page.keyboard.type('no such thing')
    await page.getByText('Nothing matches').waitFor()
    await page.keyboard.press('Escape')
    await list.waitFor({ state: 'detached' })
    t.match(page.url(), /#\/overview$/)
  })

  await t.test('says that an address names no page', async () => {
    await page.goto(`${stage.cluster.url}/console#/nothing`)
    await page.getByRole('heading', { name: 'There is no such page' }).waitFor()
  })

  await t.test('says when the connection is lost, and how it came back', async t => {
    await page.goto(`${stage.cluster.url}/console#/overview`)
    await page.getByText('A chat agent with tools').waitFor()
    await page.context().setOffline(true)
    await page.getByText('Connection lost').waitFor()
    await photograph(page, 'connection-lost')
    t.ok(await page.getByText('A chat agent with tools').isVisible(), 'what was loaded stays')
    await page.context().setOffline(false)
    await page.getByText('Connected again after').waitFor()
    t.equal(await page.getByText('Connection lost').count(), 0)
    stage.errors()
  })

  await t.test('has its pages in a drawer on a phone', async t => {
    await page.setViewportSize({ width: 390, height: 844 })
    const link = page.getByRole('link', { name: 'Overview' })
    t.equal(await link.isVisible(), false)
    await page.getByRole('button', { name: 'Pages' }).click()
    await link.waitFor()
    t.same(await seriousDefects(page), [])
    await link.click()
    await link.waitFor({ state: 'hidden' })
    const wide = await page.evaluate('document.documentElement.scrollWidth > innerWidth')
    t.equal(wide, false, 'nothing is wider than the phone')
  })

  t.same(stage.errors(), [])
})
