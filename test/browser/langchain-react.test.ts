/** `useStream` of `@langchain/react` in a browser: a reload in the middle of the second run of a thread misses nothing. */
import t from 'tap'
import { startCluster } from '../helpers/cluster.js'
import { LANGCHAIN_REACT, openBrowser, servePages } from './browser.js'

t.setTimeout(120_000)

t.test('a reload in mid-run shows the question, the answer so far, and the rest of it', async t => {
  const browser = await openBrowser()
  t.teardown(() => browser.close())
  const cluster = await startCluster({ app: 'test/apps/chat' })
  t.teardown(() => cluster.stop())
  const pages = await servePages([LANGCHAIN_REACT])
  t.teardown(() => pages.close())
  const page = await browser.newPage()
  const say = async (text: string) => {
    await page.fill('#text', text)
    await page.click('#send')
  }
  const last = (text: string | RegExp) => page.locator('li:last-child', { hasText: text }).waitFor()
  const messages = () => page.locator('li').allTextContents()
  const idle = () => page.locator('#state', { hasText: 'idle' }).waitFor()

  await page.goto(`${pages.url(LANGCHAIN_REACT)}?api=${encodeURIComponent(cluster.url)}`)
  await say('hello')
  await last('You said: hello')
  await idle()
  await say('count 120 100')
  await last(/^1 2 3/)
  await page.reload()
  await last(/^1 2/)
  const [first, answer, question, rest] = await messages()
  t.same([first, answer, question], ['hello', 'You said: hello', 'count 120 100'])
  t.notMatch(rest, / 120$/, 'the run was still executing')
  await last(/ 120$/)
  await idle()
  t.equal((await messages()).at(-1), Array.from({ length: 120 }, (_, i) => i + 1).join(' '))
  t.equal(await page.textContent('#error'), '')
})
