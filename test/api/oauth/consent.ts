/** Consent in the browser: who may end a flow, and what uses it up (docs/spec/oauth.md#flow). */
import { createHash } from 'node:crypto'
import type { Test } from 'tap'
import { newPerson } from '../../helpers/oidc.js'
import type { OauthStage } from './stage.js'

export async function consentRows(t: Test, stage: OauthStage): Promise<void> {
  const { oidc, url, call, callbackOf, provider, begin, pending, wait } = stage

  await t.test('consent, wait, and the stored token', async t => {
    const begun = await pending()
    t.equal(begun.status, 'pending')
    t.ok(begun.url.startsWith(`${url}/v2/auth/start/`))
    t.same(await wait(begun.auth_id, 0), { status: 'pending' })
    t.same(await wait(begun.auth_id, 1), { status: 'timeout' })
    const waiting = wait(begun.auth_id, 60)
    const person = newPerson()
    const page = await person.consent(begun.url)
    t.match(page, { status: 200, url: new RegExp(`^${callbackOf('oidc')}`) })
    t.match(page.text, /Connected to The &lt;b&gt;oidc&lt;\/b&gt; provider/)
    for (const [name, value] of [
      ['cache-control', 'no-store'],
      ['referrer-policy', 'no-referrer'],
      ['x-frame-options', 'DENY'],
    ] as const)
      t.equal(page.headers.get(name), value)
    t.match(page.headers.get('content-security-policy'), /^default-src 'none'; style-src 'sha256-/)
    const waited = await waiting
    t.equal(waited.status, 'completed')
    const token = waited.token!
    t.notMatch(page.text, token)
    const again = await begin()
    t.same(again, { status: 'completed', token, user_id: 'u1', metadata: {} })
    t.same(await wait(begun.auth_id, 5), { status: 'completed', token }, 'again, at once')
    t.match(await begin({ agent_id: 'agent-1' }), { status: 'completed' }, 'a token of no agent serves every agent')
    t.match(await begin({ user_id: 'u2' }), { status: 'pending' }, 'not another user')
    t.match(await begin({ scopes: ['openid', 'mail'] }), { status: 'pending' }, 'not another scope')
    t.match(await begin({ user_id: null }), { status: 'pending' }, 'not the key itself')
    t.match(await begin({ force_new: true }), { status: 'pending' })
  })

  await t.test('each of its addresses, where the provider knows it', async t => {
    for (const path of ['/host-oauth-callback/oidc', '/api-host/v2/auth/callback/oidc']) {
      const begun = await pending({ user_id: path, redirect_uri: `${url}${path}` })
      const page = await newPerson().consent(begun.url)
      t.match(page, { status: 200, url: new RegExp(`^${url}${path}\\?`) })
      t.match(await wait(begun.auth_id, 5), { status: 'completed' })
    }
  })

  await t.test('a used state opens nothing', async t => {
    const begun = await pending({ user_id: 'replay' })
    const person = newPerson()
    const back = await person.consent(begun.url, /\/v2\/auth\/callback\//)
    t.equal((await person.open(back.url)).status, 200)
    const replayed = await person.open(back.url)
    t.equal(replayed.status, 400)
    t.match(replayed.text, /used or has expired/)
    t.equal((await person.open(begun.url)).status, 400, 'nor does the link')
  })

  await t.test('of many callbacks at once, one redeems the code', async t => {
    const begun = await pending({ user_id: 'race' })
    const person = newPerson()
    const back = await person.consent(begun.url, /\/v2\/auth\/callback\//)
    const before = oidc.requests.filter(path => path === '/token').length
    const pages = await Promise.all(Array.from({ length: 10 }, () => person.open(back.url)))
    t.equal(pages.filter(({ status }) => status === 200).length, 1)
    t.equal(oidc.requests.filter(path => path === '/token').length, before + 1)
    t.match(await wait(begun.auth_id, 5), { status: 'completed' })
  })

  await t.test('another browser, another provider, another state', async t => {
    const begun = await pending({ user_id: 'mixed' })
    const person = newPerson()
    const back = new URL((await person.consent(begun.url, /\/v2\/auth\/callback\//)).url)
    const refused = async (change: (url: URL) => void, who = person) => {
      const changed = new URL(back)
      change(changed)
      const page = await who.open(changed.href)
      t.equal(page.status, 400)
      t.match(page.text, /invalid, or it was used/)
    }
    await refused(() => {}, newPerson('mallory'))
    await refused(at => void (at.pathname = at.pathname.replace('oidc', 'other')))
    await refused(at => void (at.pathname = at.pathname.replace('oidc', 'unknown')))
    await refused(at => at.searchParams.set('state', 'x'.repeat(43)))
    await refused(at => at.searchParams.delete('state'))
    await refused(at => at.searchParams.append('state', at.searchParams.get('state')!))
    const forged = newPerson()
    const state = back.searchParams.get('state')!
    const name = `weft_oauth_${createHash('sha256').update(state).digest('hex').slice(0, 16)}`
    forged.cookies.set(`${back.host} ${name}`, createHash('sha256').update(state).digest('hex'))
    await refused(() => {}, forged)
    t.match(await wait(begun.auth_id, 0), { status: 'pending' }, 'nothing of it uses up the state')
    t.equal((await person.open(back.href)).status, 200)
  })

  await t.test('mix-up: an answer of another issuer, or of none, is refused and ends the flow', async t => {
    for (const iss of ['https://attacker.example', null]) {
      const begun = await pending({ user_id: 'mix-up' })
      const person = newPerson()
      const back = new URL((await person.consent(begun.url, /\/v2\/auth\/callback\//)).url)
      t.equal(back.searchParams.get('iss'), oidc.issuer)
      back.searchParams.delete('iss')
      if (iss !== null) back.searchParams.set('iss', iss)
      const before = oidc.requests.length
      t.equal((await person.open(back.href)).status, 400)
      t.equal(oidc.requests.length, before, 'the code went nowhere')
      t.same(await wait(begun.auth_id, 30), { status: 'not_found', error: 'invalid_response' })
    }
  })

  await t.test('a code of another flow does not fit the verifier', async t => {
    const [mine, theirs] = [await pending({ user_id: 'v1' }), await pending({ user_id: 'v2' })]
    const person = newPerson()
    const backs: URL[] = []
    for (const { url } of [mine, theirs]) backs.push(new URL((await person.consent(url, /\/v2\/auth\/callback\//)).url))
    backs[0]!.searchParams.set('code', backs[1]!.searchParams.get('code')!)
    const page = await person.open(backs[0]!.href)
    t.equal(page.status, 400)
    t.match(page.text, /answered invalid_grant/)
    t.same(await wait(mine.auth_id, 30), { status: 'not_found', error: 'invalid_grant' })
  })

  await t.test('denied, and what providers say is escaped', async t => {
    const begun = await pending({ user_id: 'denied' })
    const person = newPerson()
    const back = new URL((await person.consent(begun.url, /\/v2\/auth\/callback\//)).url)
    const state = back.searchParams.get('state')!
    const evil = '<script>alert(1)</script>"\'&'
    const query = new URLSearchParams({ error: evil, error_description: evil, state, iss: oidc.issuer })
    const page = await person.open(`${callbackOf('oidc')}?${query}`)
    t.equal(page.status, 400)
    t.notMatch(page.text, /<script/)
    t.match(page.text, /&lt;script&gt;alert\(1\)&lt;\/script&gt;/)
    t.match(await wait(begun.auth_id, 30), { status: 'not_found', error: String })
    t.match(await wait('00000000-0000-4000-8000-000000000000', 30), { status: 'not_found' })
    t.match(await wait('nothing', 30), { status: 'not_found' })
    t.match(await call('GET', `/v2/auth/wait/${begun.auth_id}?timeout=soon`), {
      status: 422,
      body: { detail: [{ loc: ['query', 'timeout'] }] },
    })
    const stray = await fetch(`${callbackOf('oidc')}?error=access_denied`)
    t.equal(stray.status, 400)
    await stray.text()
    const setup = await fetch(`${url}/v2/auth/setup/oidc?setup_action=update&installation_id=1`)
    t.equal(setup.status, 200)
    t.match(await setup.text(), /Installation updated/)
  })

  await t.test('client authentication: basic, and a public client without PKCE', async t => {
    await provider('basic', {
      client_id: 'weft-client_secret_basic',
      token_endpoint_auth_method: 'client_secret_basic',
    })
    await provider('public', {
      client_id: 'weft-none',
      client_secret: null,
      token_endpoint_auth_method: 'none',
      uses_pkce: false,
    })
    for (const provider of ['basic', 'public']) {
      const begun = await pending({ provider })
      t.equal((await newPerson().consent(begun.url)).status, 200, provider)
      t.match(await begin({ provider }), { status: 'completed' })
    }
  })
}
