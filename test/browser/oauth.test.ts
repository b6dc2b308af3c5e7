/** A person in Chromium: the link, the login at the provider, and the page that they come back to. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { BrowserContextOptions } from 'playwright-core'
import t from 'tap'
import { root } from '../../cli/root.js'
import type { Authenticated, Waited } from '../../schemas/oauth.js'
import { startRoles } from '../helpers/cluster.js'
import { KEY, openControl } from '../helpers/control.js'
import { CLIENT, openOidc } from '../helpers/oidc.js'
import { openBrowser } from './browser.js'

t.setTimeout(90_000)

/** Screenshots, for a person to look at. */
const artefacts = join(root, '.tap/oauth')
const PHONE: BrowserContextOptions = { viewport: { width: 360, height: 640 }, colorScheme: 'dark' }

t.test('consent in a browser', async t => {
  mkdirSync(artefacts, { recursive: true })
  const oidc = await openOidc()
  const roles = await startRoles({ graphs: 0, env: { WEFT_CONTROL_KEY: KEY, WEFT_ALLOW_HOSTS: oidc.host } })
  const browser = await openBrowser()
  t.teardown(async () => {
    await browser.close()
    await roles.stop()
    await oidc.stop()
  })
  const url = roles.urls[0]!
  oidc.serve([`${url}/v2/auth/callback/oidc`])
  const call = openControl(url)
  const provider = {
    provider_id: 'oidc',
    name: 'Ærø <Mail> & Calendar',
    ...CLIENT,
    auth_url: `${oidc.issuer}/auth?prompt=consent`,
    token_url: `${oidc.issuer}/token`,
    issuer: oidc.issuer,
    uses_pkce: true,
  }
  t.equal((await call('POST', '/v2/auth/providers', provider)).status, 200)

  /** The page before the provider's login; what Chromium finds wrong with pages of this server. */
  const open = async (user_id: string, options: BrowserContextOptions = {}) => {
    const asked = { provider: 'oidc', scopes: ['openid', 'repo'], user_id }
    const { body } = await call<Authenticated>('POST', '/v2/auth/authenticate', asked)
    if (body.status === 'completed') throw new Error('expected a flow')
    const context = await browser.newContext(options)
    const page = await context.newPage()
    const errors: string[] = []
    // Chromium says so of every page that is answered 400.
    const isOurs = (at: string, text: string) => at.startsWith(url) && !text.includes('status of 400')
    page.on('console', message => {
      if (message.type() === 'error' && isOurs(message.location().url, message.text())) errors.push(message.text())
    })
    page.on('pageerror', error => void errors.push(error.message))
    await page.goto(body.url)
    return { page, context, errors, auth_id: body.auth_id }
  }
  const wait = async (auth_id: string) => (await call<Waited>('GET', `/v2/auth/wait/${auth_id}?timeout=20`)).body

  await t.test('granted', async t => {
    const { page, context, errors, auth_id } = await open('ada')
    const waiting = wait(auth_id)
    await page.fill('input[name=login]', 'ada')
    await page.fill('input[name=password]', 'any')
    await page.click('button[type=submit]')
    await page.click('button[type=submit]')
    await page.getByRole('heading', { name: 'Connected to Ærø <Mail> & Calendar' }).waitFor()
    t.equal(new URL(page.url()).origin, url)
    t.match(await waiting, { status: 'completed', token: String })
    const cookies = (await context.cookies(url)).filter(({ name }) => name.startsWith('weft_oauth_'))
    t.match(cookies, [{ httpOnly: true, sameSite: 'Lax' }])
    t.equal(await page.evaluate('document.documentElement.scrollHeight <= innerHeight'), true, 'nothing to scroll')
    t.equal(await page.evaluate('getComputedStyle(document.querySelector("main")).borderRadius'), '12px', 'its style')
    await page.screenshot({ path: join(artefacts, 'granted.png') })
    await page.reload()
    await page.getByText('it was used or has expired').waitFor()
    await page.screenshot({ path: join(artefacts, 'used.png') })
    t.same(errors, [])
  })

  await t.test('denied, on a phone', async t => {
    const { page, errors, auth_id } = await open('eve', PHONE)
    await page.fill('input[name=login]', 'eve')
    await page.fill('input[name=password]', 'any')
    await page.click('button[type=submit]')
    await page.getByText('Cancel').click()
    await page.getByText('Access was denied').waitFor()
    t.match(await wait(auth_id), { status: 'not_found', error: 'access_denied' })
    await page.screenshot({ path: join(artefacts, 'denied-phone.png') })
    t.same(errors, [])
  })

  await t.test('the address at the provider, opened in the browser of somebody else', async t => {
    const asked = { provider: 'oidc', scopes: ['openid'], user_id: 'mallory' }
    const { body } = await call<Authenticated>('POST', '/v2/auth/authenticate', asked)
    if (body.status === 'completed') throw new Error('expected a flow')
    const started = await fetch(body.url, { redirect: 'manual' })
    const victim = await (await browser.newContext()).newPage()
    await victim.goto(started.headers.get('location')!)
    await victim.fill('input[name=login]', 'victim')
    await victim.fill('input[name=password]', 'any')
    await victim.click('button[type=submit]')
    await victim.click('button[type=submit]')
    await victim.getByText('This link is invalid').waitFor()
    t.match((await call('GET', `/v2/auth/wait/${body.auth_id}?timeout=0`)).body, { status: 'pending' })
  })
})
