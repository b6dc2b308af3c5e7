import t from 'tap'
import { openStage } from '../edge/stage.js'
import { openBrowser } from './browser.js'

t.setTimeout(60_000)

t.test('the page of the API renders under its own content security policy', async t => {
  const stage = await openStage()
  const browser = await openBrowser()
  t.teardown(async () => {
    await browser.close()
    await stage.close()
  })
  const page = await browser.newPage()
  const errors: string[] = []
  const hosts = new Set<string>()
  page.on('console', message => void (message.type() === 'error' && errors.push(message.text())))
  page.on('pageerror', error => errors.push(error.message))
  page.on('request', request => hosts.add(new URL(request.url()).host))
  await page.goto(`http://127.0.0.1:${stage.port}/docs`)
  await page.locator('.opblock-summary-path', { hasText: '/runs/stream' }).first().waitFor({ timeout: 30_000 })
  t.ok((await page.locator('.opblock').count()) > 50)
  t.same(errors, [])
  hosts.delete('')
  t.same([...hosts], [`127.0.0.1:${stage.port}`], 'nothing is loaded from elsewhere')
})
