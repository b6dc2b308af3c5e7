/** Pages of applications in Chromium, on the server whose console a person uses. */
import { type AddressInfo, createServer } from 'node:net'
import type { BrowserContext, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { startCluster, startRoles } from '../helpers/cluster.js'
import { KEY } from '../helpers/control.js'
import { until } from '../helpers/until.js'
import { openBrowser } from './browser.js'

t.setTimeout(180_000)

const browser = await openBrowser()
t.teardown(() => browser.close())
const app = 'test/apps/pages'

interface Tried {
  origin: string
  tried: { [attempt: string]: string }
}

/** A page of the application has tried everything. */
async function visitEvil(context: BrowserContext, address: string): Promise<{ page: Page; found: Tried }> {
  const page = await context.newPage()
  await page.goto(address)
  return { page, found: await page.evaluate('done') }
}

/** The real console, with the key of the control plane. */
async function enterKey(page: Page): Promise<void> {
  const form = page.getByRole('form', { name: 'Key of the control plane' })
  await form.getByLabel('Control key').fill(KEY)
  await form.getByRole('button', { name: 'Continue' }).click()
  await page.getByRole('heading', { name: 'No deployment yet' }).waitFor()
}

const stolenAt = async (url: string) => (await fetch(`${url}/stolen`)).json() as Promise<unknown[]>
const worked = ({ tried }: Tried) => Object.keys(tried).filter(name => tried[name] === 'worked')

async function contextOf(t: Test): Promise<BrowserContext> {
  const context = await browser.newContext()
  context.setDefaultTimeout(30_000)
  t.teardown(() => context.close())
  return context
}

t.test('a page of the built-in application gets nothing of the console', async t => {
  const cluster = await startCluster({ app, env: { WEFT_CONTROL_KEY: KEY } })
  t.teardown(() => cluster.stop())
  const context = await contextOf(t)

  await t.test('no service worker controls it, and no middleware changes it', async t => {
    const { found } = await visitEvil(context, `${cluster.url}/evil`)
    t.equal(found.origin, cluster.url, 'it shares the origin')
    // Its own storage and database are those of the origin.
    t.same(worked(found), ['storage', 'cookies', 'database'])
    const page = await context.newPage()
    await page.goto(`${cluster.url}/console#/deployments`)
    await enterKey(page)
    t.equal(await page.evaluate('navigator.serviceWorker.controller'), null)
    await page.goto(`${cluster.url}/docs`)
    await page.locator('.opblock').first().waitFor()
    t.same(await stolenAt(cluster.url), [])
  })

  await t.test('a page that opens it cannot reach its window', async t => {
    const { page } = await visitEvil(context, `${cluster.url}/evil`)
    const [opened] = await Promise.all([context.waitForEvent('page'), page.evaluate('watch()')])
    await enterKey(opened)
    // Its reads come before the answer to this one.
    await page.evaluate('new Promise(done => setTimeout(done, 200))')
    t.notOk(JSON.stringify(await stolenAt(cluster.url)).includes(KEY))
  })

  await t.test('its own pages keep their service workers and cookies', async t => {
    const page = await context.newPage()
    await page.goto(`${cluster.url}/own/page`)
    t.equal(await page.evaluate('loaded'), true)
    t.equal(await page.evaluate('work()'), '/own/')
    await page.goto(`${cluster.url}/own/by-worker`)
    t.equal(await page.title(), 'taken over', 'by its own worker')
    await page.goto(`${cluster.url}/own/cookies?set=a%3D1%3B%20Path%3D%2F&set=weft_oauth_0123456789abcdef%3Dmine`)
    t.match(await context.cookies(cluster.url), [{ name: 'a', path: '/' }])
    t.equal((await context.cookies(cluster.url)).length, 1)
  })
})

t.test('a page of a deployment has no origin', async t => {
  const roles = await startRoles({ app: 'test/apps/basic', env: { WEFT_CONTROL_KEY: KEY } })
  t.teardown(() => roles.stop())
  await roles.add('graphs', ['--app', app, '--app-id', 'pages'])
  await roles.add('graphs', ['--app', app, '--app-id', 'others'])
  const [url] = roles.urls
  const base = `${url}/deployments/pages`
  const context = await contextOf(t)

  await t.test('and no part of that of the server', async t => {
    const { found } = await visitEvil(context, `${base}/evil`)
    t.equal(found.origin, 'null')
    t.same(worked(found), [])
    const page = await context.newPage()
    await page.goto(`${url}/console#/deployments`)
    await enterKey(page)
    t.equal((await fetch(`${base}/console`)).status, 404, 'a deployment has no console')
    t.same(await stolenAt(base), [])
  })

  await t.test('it loads its parts and calls its own API', async t => {
    const page = await context.newPage()
    await page.goto(`${base}/own/page`)
    t.equal(await page.evaluate('loaded'), true)
    t.equal(await page.evaluate('getComputedStyle(document.body).color'), 'rgb(1, 2, 3)')
    t.same(await page.evaluate('ask()'), { cookie: null })
    const { port } = await roles.add('edge', ['--port', '0'], { WEFT_REQUIRE_KEYS: '1' })
    await page.goto(`http://127.0.0.1:${port}/deployments/pages/own/page`)
    t.equal(await page.evaluate('loaded'), true, 'where no page of another origin may call')
    t.equal(await page.evaluate('getComputedStyle(document.body).color'), 'rgb(1, 2, 3)')
    t.equal(await page.evaluate('ask().catch(error => error.name)'), 'TypeError')
  })

  await t.test('its cookies are those of its paths', async t => {
    const page = await context.newPage()
    const set = [
      'a=1; Path=/',
      'b=2',
      'c=3; Path=/own; Domain=127.0.0.1',
      'd=4; Path=/deployments/others',
      'weft_oauth_0123456789abcdef=5',
    ]
    await page.goto(`${base}/own/cookies?${set.map(one => `set=${encodeURIComponent(one)}`).join('&')}`)
    const cookies = await context.cookies([`${base}/own/data`, `${url}/deployments/others/own/data`, `${url}/`])
    t.same(cookies.map(({ name, path }) => `${name} ${path}`).sort(), [
      'a /deployments/pages',
      'b /deployments/pages/own',
      'c /deployments/pages/own',
    ])
    await page.goto(`${base}/own/data`)
    t.match(await page.content(), /a=1/)
    await page.goto(`${url}/deployments/others/own/data`)
    t.notMatch(await page.content(), /=\d/)
  })
})

t.test('a console with an origin of its own', async t => {
  // A browser finds every name of localhost on this machine.
  const port = await freePort()
  const [console, server] = [`http://console.localhost:${port}`, `http://127.0.0.1:${port}`]
  const cluster = await startCluster({
    app,
    env: { WEFT_CONTROL_KEY: KEY, WEFT_CONSOLE_URL: console },
    flags: ['--port', `${port}`],
  })
  t.teardown(() => cluster.stop())
  await until(() => cluster.output().includes(`with its console at ${console}/console`))
  const context = await contextOf(t)
  const page = await context.newPage()
  await page.goto(`${server}/console#/deployments`)
  t.equal(page.url(), `${console}/console#/deployments`)
  await enterKey(page)
  await page.goto(`${server}/o/${ID}/host/deployments/${ID}`)
  t.equal(page.url(), `${console}/console#/deployments/${ID}`)
  t.equal((await fetch(`${server}/console/x.js`)).status, 404)

  t.equal(
    (await visitEvil(context, `${server}/evil`)).found.origin,
    server,
    'pages of the application have the other one',
  )
  const { found } = await visitEvil(context, `${console}/evil`)
  t.equal(found.origin, 'null', 'and none here')
  t.same(worked(found), [])
  await page.goto(`${console}/own/cookies?set=a%3D1`)
  t.same(await context.cookies(console), [])
  await page.goto(`${console}/console#/deployments`)
  await page.getByRole('heading', { name: 'No deployment yet' }).waitFor()
})

const ID = '0198aaaa-0000-7000-8000-000000000001'

const freePort = (): Promise<number> =>
  new Promise(done => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo
      server.close(() => done(port))
    })
  })
