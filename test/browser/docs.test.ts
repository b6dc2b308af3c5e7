import { createRequire } from 'node:module'
import type { Browser, Page } from 'playwright-core'
import t from 'tap'
import { openStage, type Stage } from '../edge/stage.js'
import { openBrowser } from './browser.js'

t.setTimeout(120_000)
let browser: Browser
let stage: Stage
t.before(async () => {
  stage = await openStage()
  browser = await openBrowser()
})
t.teardown(async () => {
  await browser?.close()
  await stage?.close()
})

/** The text of a page that is complete. */
const READY = { '/': 'h1', '/docs': '.opblock-summary-path' }

async function open(path: keyof typeof READY, options: Parameters<Browser['newContext']>[0] = {}) {
  const context = await browser.newContext(options)
  const page = await context.newPage()
  const errors: string[] = []
  const hosts = new Set<string>()
  page.on('console', message => void (message.type() === 'error' && errors.push(message.text())))
  page.on('pageerror', error => errors.push(error.message))
  page.on('request', request => hosts.add(new URL(request.url()).host))
  await page.goto(`http://127.0.0.1:${stage.port}${path}`)
  await page.locator(READY[path]).first().waitFor({ timeout: 30_000 })
  return { page, errors, hosts, close: () => context.close() }
}

const groundOf = (page: Page) => page.evaluate('getComputedStyle(document.body).backgroundColor')

t.test('the page of the API renders under its own content security policy', async t => {
  const { page, errors, hosts, close } = await open('/docs')
  t.ok((await page.locator('.opblock').count()) > 50)
  await page.locator('.opblock-summary-path', { hasText: '/runs/stream' }).first().click()
  await page.waitForURL(/#\/.*stream/)
  t.same(errors, [])
  hosts.delete('')
  t.same([...hosts], [`127.0.0.1:${stage.port}`], 'nothing is loaded from elsewhere')
  await close()
})

t.test('it leads back to the guide and the console, and its colours change', async t => {
  const { page, close } = await open('/docs', { colorScheme: 'light' })
  const addresses = await page.getByRole('navigation', { name: 'Pages' }).getByRole('link').all()
  t.same(await Promise.all(addresses.map(link => link.getAttribute('href'))), ['./console', './docs/guide', './docs'])
  const light = await groundOf(page)
  await page.getByRole('button', { name: 'Colours: as the system' }).click()
  await page.getByRole('button', { name: 'Colours: light' }).click()
  await page.locator('html.dark-mode[data-theme=dark]').waitFor()
  t.not(await groundOf(page), light)
  await page.reload()
  await page.locator('html.dark-mode[data-theme=dark]').waitFor()
  await close()
})

t.test('the pages fit a narrow screen and pass the rules of accessibility in both colours', async t => {
  const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js')
  for (const path of ['/', '/docs'] as const)
    for (const colorScheme of ['light', 'dark'] as const) {
      const viewport = { width: 390, height: 800 }
      // The page allows no foreign script: this context does without its policy.
      const { page, close } = await open(path, { colorScheme, viewport, bypassCSP: true })
      if (path === '/docs') {
        await page.locator('.opblock-summary-path', { hasText: '/runs/stream' }).first().click()
        await page.locator('.opblock-body .responses-wrapper').waitFor()
      }
      t.equal(await page.evaluate('document.documentElement.scrollWidth'), 390, `${path} is not wider than the screen`)
      await page.addScriptTag({ path: axe })
      const violations = await page.evaluate(
        `axe.run().then(({ violations }) => violations
          .filter(({ impact }) => impact === 'serious' || impact === 'critical')
          .flatMap(({ id, nodes }) => nodes.slice(0, 4).map(({ html }) => id + ': ' + html.slice(0, 160))))`,
      )
      t.same(violations, [], `${path} ${colorScheme}`)
      await close()
    }
})
