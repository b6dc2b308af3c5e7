/** The tutorial of the guide, step by step; a person in a browser uses its page. */
import type { Browser, Page } from 'playwright-core'
import t from 'tap'
import { blocksOf, openReader, type Reader } from '../helpers/documents.js'
import { openBrowser } from './browser.js'

t.setTimeout(300_000)
const PAGE = 'docs/guide/tutorial.md'

let browser: Browser
t.before(async () => {
  browser = await openBrowser()
})
t.teardown(() => browser?.close())

const says = (page: Page, text: string) => page.locator('li', { hasText: text }).first().waitFor({ timeout: 30_000 })
async function say(page: Page, text: string): Promise<void> {
  await page.fill('input', text)
  await page.click('form button')
}

/** After the block that begins so, this is done by hand. */
const BY_HAND: { readonly [begin: string]: (reader: Reader) => Promise<void> } = {
  'npx esbuild': async ({ pageUrl }) => {
    const page = await browser.newPage()
    await page.goto(pageUrl)
    await say(page, 'hello')
    await says(page, 'You said: hello.')
    await say(page, 'book a table for four')
    await page.locator('p', { hasText: 'May I book a table for four?' }).waitFor()
    await page.reload()
    await page.locator('p', { hasText: 'May I book a table for four?' }).waitFor()
    await page.click('text=Yes')
    await says(page, 'Done: book a table for four.')
    await page.close()
  },
  'curl -s -o /dev/null': async ({ pageUrl, seen }) => {
    const page = await browser.newPage()
    await page.goto(`${pageUrl}/?key=${seen.KEY}`)
    await say(page, 'hello')
    await says(page, 'You said: hello.')
    await page.close()
  },
}

t.test('every step of the tutorial', async t => {
  const reader = await openReader()
  t.teardown(() => reader.close())
  const blocks = blocksOf(PAGE)
  const left = new Set(Object.keys(BY_HAND))
  for (const [i, block] of blocks.entries()) {
    const { line, language, text } = block
    // The packages are those of this repository.
    if (language === 'text' || text.startsWith('npm install ')) continue
    const next = blocks[i + 1]
    const name = `line ${line}: ${text.split('\n')[0]}`
    const followed = await reader.follow(block, next?.language === 'text' ? next.text : undefined).then(
      () => t.pass(name),
      error => t.fail(`${name}: ${error.message}`),
    )
    if (!followed) return
    const begin = Object.keys(BY_HAND).find(begin => text.startsWith(begin))
    if (begin === undefined) continue
    await t.resolves(BY_HAND[begin]!(reader), `by hand after ${name}`)
    left.delete(begin)
  }
  t.same([...left], [], 'the page has every step that is done by hand')
})
