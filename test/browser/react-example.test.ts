/** examples/react in a browser, with the newest line of the SDK, as after `npm install` in a copy of the folder. */
import { rmSync } from 'node:fs'
import type { Page } from 'playwright-core'
import t from 'tap'
import { startCluster } from '../helpers/cluster.js'
import { openBrowser } from './browser.js'
import { copyExample } from './example-copy.js'

t.setTimeout(120_000)

const say = async (page: Page, text: string) => {
  await page.getByLabel('Message', { exact: true }).fill(text)
  await page.getByRole('button', { name: 'Send', exact: true }).click()
}
const messages = (page: Page) => page.locator('li > p').allTextContents()
const last = (page: Page, text: string | RegExp) => page.locator('li:last-child > p', { hasText: text }).waitFor()
const idle = (page: Page) => page.getByRole('button', { name: 'Send', exact: true }).waitFor()

t.test('the page streams, asks, edits, switches between versions, stops, and joins again', async t => {
  const app = copyExample('react')
  t.teardown(() => rmSync(app, { recursive: true, force: true }))
  const cluster = await startCluster({ app, env: { OPENAI_API_KEY: '', ANTHROPIC_API_KEY: '' } })
  t.teardown(() => cluster.stop())
  const browser = await openBrowser()
  t.teardown(() => browser.close())
  const page = await browser.newPage()
  const errors: string[] = []
  page.on('console', message => message.type() === 'error' && errors.push(message.text()))
  page.on('pageerror', error => errors.push(String(error)))
  await page.goto(`${cluster.url}/app`)

  await say(page, 'trains to Turin')
  await last(page, /suits you\.$/)
  await idle(page)
  t.equal(await page.locator('code').textContent(), 'search_trains(Turin)')

  await say(page, 'book Turin 08:15')
  const question = page.getByRole('region', { name: 'Question' })
  await question.getByText('Book the train to Turin at 08:15?').waitFor()
  await page.reload()
  await question.getByRole('button', { name: 'Yes' }).click()
  await last(page, /^Done: booked: Turin at 08:15\. Have a good trip!$/)
  await idle(page)

  await page.getByRole('button', { name: 'Edit' }).first().click()
  await page.getByLabel('Edit the message').fill('trains to Rome')
  await page.getByRole('button', { name: 'Send again' }).click()
  await last(page, /^These are the trains to Rome/)
  await idle(page)
  t.equal((await messages(page))[0], 'trains to Rome')
  await page.getByRole('button', { name: 'Earlier version' }).click()
  await last(page, /Have a good trip!$/)
  t.equal((await messages(page))[0], 'trains to Turin')

  await page.getByRole('link', { name: 'New chat' }).click()
  await say(page, 'hello')
  await last(page, /^I am a scripted travel guide\./)
  await page.reload()
  await last(page, /nothing is lost\.$/)
  await idle(page)
  t.equal((await messages(page)).length, 2, 'joined again')

  await say(page, 'tell me more')
  await last(page, /^I am a scripted travel guide\. Ask/)
  await page.getByRole('button', { name: 'Stop' }).click()
  await idle(page)
  t.same(errors, [], 'no error in the console')
})
