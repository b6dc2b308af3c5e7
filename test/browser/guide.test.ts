import { spawnSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import type { Browser } from 'playwright-core'
import t from 'tap'
import { root } from '../../cli/root.js'
import { openStage, type Stage } from '../edge/stage.js'
import { openBrowser } from './browser.js'

t.setTimeout(120_000)
let browser: Browser
let stage: Stage
t.before(async () => {
  const { status } = spawnSync(process.execPath, [join(root, 'dist/scripts/guide/build.js')], { stdio: 'inherit' })
  if (status !== 0) throw new Error('the guide could not be built')
  stage = await openStage()
  browser = await openBrowser()
})
t.teardown(async () => {
  await browser?.close()
  await stage?.close()
})

const PAGES = [
  'index',
  'tutorial',
  'configuration',
  'application',
  'operations',
  'troubleshooting',
  'observability',
  'reference-runs',
  'decisions',
]

async function open(name: string, options: Parameters<Browser['newContext']>[0] = {}) {
  const context = await browser.newContext(options)
  const page = await context.newPage()
  const errors: string[] = []
  const hosts = new Set<string>()
  page.on('console', message => void (message.type() === 'error' && errors.push(message.text())))
  page.on('pageerror', error => errors.push(error.message))
  page.on('request', request => void hosts.add(new URL(request.url()).host))
  await page.goto(`http://127.0.0.1:${stage.port}/docs/guide/${name}.html`)
  return { page, errors, hosts, close: () => context.close() }
}

t.test('pages fit a narrow screen, load nothing from elsewhere and report no error', async t => {
  for (const name of PAGES) {
    const { page, errors, hosts, close } = await open(name, { viewport: { width: 390, height: 800 } })
    t.equal(await page.evaluate('document.documentElement.scrollWidth'), 390, `${name} is not wider than the screen`)
    t.same(errors, [], name)
    t.same([...hosts], [`127.0.0.1:${stage.port}`], name)
    await close()
  }
})

t.test('pages pass the rules of accessibility in both colours', async t => {
  const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js')
  for (const [colorScheme, names] of [
    ['light', PAGES],
    ['dark', ['tutorial', 'reference-runs']],
  ] as const)
    for (const name of names) {
      // The page allows no foreign script: this context does without its policy.
      const { page, close } = await open(name, { colorScheme, bypassCSP: true })
      await page.addScriptTag({ path: axe })
      const violations = await page.evaluate(
        `axe.run().then(({ violations }) => violations.map(({ id, nodes }) => id + ': ' + nodes[0].html))`,
      )
      t.same(violations, [], `${name}, ${colorScheme}`)
      await close()
    }
})

t.test('the search is used by keyboard alone', async t => {
  const { page, errors, close } = await open('index')
  await page.keyboard.press('/')
  await page.keyboard.type('WEFT_RESUMABLE_TTL_MS')
  await page.locator('#found li[aria-selected="true"]').waitFor()
  await page.keyboard.press('Enter')
  await page.waitForURL(/configuration\.html#streams$/)
  t.equal(await page.locator('dialog[open]').count(), 0)
  t.same(errors, [])
  await close()
})

t.test('the menu of a narrow screen opens, and the colours are kept', async t => {
  const { page, close } = await open('index', { viewport: { width: 390, height: 800 }, colorScheme: 'light' })
  await page.click('.menu')
  await page.locator('#nav a', { hasText: 'Quick start' }).click()
  await page.locator('h1', { hasText: 'Quick start' }).waitFor()
  t.notOk(await page.locator('#nav').isVisible())
  await page.click('.theme')
  await page.click('.theme')
  await page.reload()
  t.equal(await page.evaluate('document.documentElement.dataset.theme'), 'dark')
  await close()
})
