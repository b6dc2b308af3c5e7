/** The steps of a person on the page of page.mjs, with the graph of test/apps/chat or test/apps/chat-py. */
import type { Browser, Page } from 'playwright-core'
import type { Test } from 'tap'
import type { Cluster } from '../helpers/cluster.js'

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

interface Chat {
  browser: Browser
  cluster: Cluster
  /** The URL of the page. */
  address: string
}

/** Sends, stops, reloads, answers and edits, as a person would; asserts what the page shows. */
export async function useChat(t: Test, { browser, cluster, address }: Chat): Promise<void> {
  const context = await browser.newContext()
  t.teardown(() => context.close())
  const page = await context.newPage()
  const errors: string[] = []
  page.on('console', message => message.type() === 'error' && errors.push(message.text()))
  page.on('pageerror', error => errors.push(String(error)))
  await page.goto(`${address}?api=${encodeURIComponent(cluster.url)}`)

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

  await t.test('shows what a subgraph says as it says it', async t => {
    await say(page, 'deep count 40 25')
    await counting(page)
    t.equal(await page.textContent('#state'), 'loading')
    await until(page, / 39 40$/)
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
}
