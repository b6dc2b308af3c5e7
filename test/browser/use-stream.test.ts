import type { Browser, Page } from 'playwright-core'
import t from 'tap'
import { type Cluster, startCluster } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'
import { openBrowser, type Pages, servePages } from './browser.js'

t.setTimeout(180_000)

let browser: Browser
let cluster: Cluster
let pages: Pages
t.before(async () => {
  browser = await openBrowser()
  cluster = await startCluster({ app: 'test/apps/chat' })
  pages = await servePages(['sdk1', 'sdk2'])
})
t.teardown(async () => {
  await browser?.close()
  pages?.close()
  await cluster?.stop()
})

const texts = (page: Page) => page.locator('li > span').allTextContents()
const say = async (page: Page, text: string, button = 'send') => {
  await page.fill('#text', text)
  await page.click(`button[id="${button}"]`)
}
/** Waits until the last message has this text and the state is idle. */
const until = (page: Page, text: string | RegExp, state = 'idle') =>
  Promise.all([
    page.locator('li:last-child > span', { hasText: text }).waitFor({ timeout: 30_000 }),
    page.locator('#state', { hasText: state }).waitFor({ timeout: 30_000 }),
  ])

/** Waits for the first tokens of the reply to the last message, not to an earlier one. */
async function counting(page: Page): Promise<void> {
  const said = await page.inputValue('#text')
  await page.locator(`li:has-text("${said}") + li > span`, { hasText: /^1 2 3/ }).waitFor()
}

for (const { name, alias } of lines) {
  t.test(`useStream of ${name} in a browser`, { timeout: 120_000 }, async t => {
    const context = await browser.newContext()
    t.teardown(() => context.close())
    const page = await context.newPage()
    const errors: string[] = []
    page.on('console', message => message.type() === 'error' && errors.push(message.text()))
    page.on('pageerror', error => errors.push(String(error)))
    await page.goto(`${pages.url(alias)}?api=${encodeURIComponent(cluster.url)}`)

    await t.test('sends, and shows the reply', async t => {
      await say(page, 'hello there')
      await until(page, /^You said: hello there$/)
      t.same(await texts(page), ['hello there', 'You said: hello there'])
    })

    await t.test('shows tokens as they come', async t => {
      await say(page, 'count 40 25')
      await counting(page)
      t.equal(await page.textContent('#state'), 'loading')
      await until(page, / 39 40$/)
      t.equal((await texts(page)).length, 4)
    })

    await t.test('stops', async t => {
      await say(page, 'count 1000 20')
      await counting(page)
      await page.click('#stop')
      await page.locator('#state', { hasText: 'idle' }).waitFor()
      const thread = new URL(page.url()).searchParams.get('thread')
      for (;;) {
        const { status } = (await (await fetch(`${cluster.url}/threads/${thread}`)).json()) as { status: string }
        if (status !== 'busy') break
        await page.waitForTimeout(50)
      }
      t.pass('the run has ended at the server as well')
    })

    await t.test('joins a run again after a reload', async t => {
      await say(page, 'count 150 60')
      await counting(page)
      await page.reload()
      await page.locator('#state', { hasText: 'loading' }).waitFor()
      await until(page, /^1 2 3 .* 149 150$/)
      t.equal((await texts(page)).at(-1), Array.from({ length: 150 }, (_, i) => i + 1).join(' '), 'no token is missing')
    })

    await t.test('answers a question of the graph', async t => {
      await say(page, 'may I?')
      await page.locator('#question', { hasText: 'may I?' }).waitFor()
      // Until the run has ended, the SDK submits with the checkpoint from before the question.
      await page.locator('#state', { hasText: 'idle' }).waitFor()
      await say(page, 'yes', 'answer')
      await until(page, /^The answer was yes$/)
      t.equal(await page.textContent('#question'), '')
    })

    await t.test('edits a message: the thread continues from before it', async t => {
      const fork = (await texts(page)).indexOf('hello there')
      await say(page, 'hello again', `edit ${fork}`)
      await until(page, /^You said: hello again$/)
      t.same(await texts(page), ['hello again', 'You said: hello again'])
      await page.locator('li:first-child i', { hasText: '2' }).waitFor()
      await page.reload()
      await until(page, /^You said: hello again$/)
      t.same(await texts(page), ['hello again', 'You said: hello again'], 'also after a reload')
    })

    t.same(errors, [], 'no error in the console')
  })
}
