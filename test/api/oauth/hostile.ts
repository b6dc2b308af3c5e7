/** Clients and pages that want what is not theirs. */
import { randomBytes } from 'node:crypto'
import type { Test } from 'tap'
import type { TokenSummary } from '../../../schemas/oauth.js'
import { openControl } from '../../helpers/control.js'
import { newPerson } from '../../helpers/oidc.js'
import { FOREIGN, type OauthStage } from './stage.js'

export async function hostileRows(t: Test, stage: OauthStage): Promise<void> {
  const { oidc, url, roles, call, callbackOf, begin, pending, consented, wait, keyed } = stage
  const visit = async (address: string, headers: { [name: string]: string } = {}) => {
    const answer = await fetch(address, { redirect: 'manual', headers })
    return { status: answer.status, headers: answer.headers, text: await answer.text() }
  }

  await t.test('the link leads to the provider and nowhere else', async t => {
    const { url: link } = await pending({ user_id: 'h1' })
    const evil = 'https://evil.example/'
    for (const more of ['url', 'redirect_uri', 'next', 'iss', 'client_id']) {
      const { status, headers } = await visit(`${link}&${more}=${encodeURIComponent(evil)}`)
      t.equal(status, 303)
      const to = new URL(headers.get('location')!)
      t.equal(to.origin, oidc.issuer)
      t.equal(to.searchParams.get('redirect_uri'), callbackOf('oidc'))
      t.notMatch(to.href, /evil/)
    }
    const [at] = link.split('?')
    const other = new URL((await pending({ user_id: 'h2' })).url).searchParams.get('state')!
    for (const query of [
      '',
      '?state=',
      `?state=${other}`,
      `?state=${randomBytes(32).toString('base64url')}`,
      '?state=%0d%0aSet-Cookie:%20a=b%0d%0aLocation:%20https://evil.example',
      `?state=${'x'.repeat(4_000)}`,
    ]) {
      const { status, headers } = await visit(`${at}${query}`)
      t.equal(status, 400, query.slice(0, 40))
      t.notOk(headers.has('location') || headers.has('set-cookie'))
      t.match(headers.get('content-type'), /^text\/html/)
    }
  })

  await t.test('a redirect address is compared letter by letter', async t => {
    const own = callbackOf('oidc')
    for (const redirect_uri of [
      'https://evil.example/',
      `${own}/`,
      `${own}?a=b`,
      `${own}#a`,
      `${own}/../oidc`,
      own.toUpperCase(),
      own.replace('http:', 'https:'),
      own.replace('http://', 'http://evil.example@'),
      `${url}@evil.example/v2/auth/callback/oidc`,
      callbackOf('other'),
      `${FOREIGN}/`,
      `${FOREIGN}?`,
      FOREIGN.replace('oidc', 'other'),
      FOREIGN.replace('oidc', '{provider_id}'),
      `${own}\r\nX: 1`,
      'javascript:alert(1)',
    ]) {
      const asked = { provider: 'oidc', scopes: [], redirect_uri }
      const refused = await call('POST', '/v2/auth/authenticate', asked)
      t.match(refused, { status: 422, body: { detail: [{ loc: ['body', 'redirect_uri'] }] } }, redirect_uri)
    }
    t.match(await begin({ user_id: 'h3', redirect_uri: own }), { status: 'pending' })
  })

  await t.test('the Host of a request does not decide where providers send users back to', async t => {
    const asked = { provider: 'oidc', scopes: [], user_id: 'h3', force_new: true }
    const open = ['--port', '0', '--host', '0.0.0.0', '--insecure']
    const at = async (flags: string[], env: { [name: string]: string }) => {
      const { port } = await roles.add('edge', flags, env)
      return openControl(`http://127.0.0.1:${port}`)
    }
    const claimed = await at(open, {})
    for (const given of [{}, { redirect_uri: null }])
      t.match(await claimed('POST', '/v2/auth/authenticate', { ...asked, ...given }), {
        status: 400,
        body: { detail: /set WEFT_PUBLIC_URL/ },
      })
    const mcp = { provider_id: 'mcp', name: 'mcp', mcp_server_url: 'https://mcp.example/' }
    t.match(await claimed('POST', '/v2/auth/providers/mcp-discover', mcp), {
      status: 400,
      body: { detail: /set WEFT_PUBLIC_URL/ },
    })
    t.match(await claimed('POST', '/v2/auth/authenticate', { ...asked, redirect_uri: FOREIGN }), { status: 200 })
    const known = await at(open, { WEFT_PUBLIC_URL: 'https://weft.example' })
    const { body } = await known<{ url: string }>('POST', '/v2/auth/authenticate', asked)
    t.match(body.url, /^https:\/\/weft\.example\/v2\/auth\/start\//)
    const named = await at(open, { WEFT_ALLOWED_HOSTS: 'weft.example' })
    t.match(await named('POST', '/v2/auth/authenticate', asked), { status: 200 })
  })

  await t.test('states that are guessed', async t => {
    const { auth_id } = await pending({ user_id: 'h4' })
    const before = oidc.requests.length
    const guesses = [
      auth_id,
      '0',
      '*',
      '%',
      '{"$ne":1}',
      "' OR 1=1",
      ...Array.from({ length: 40 }, () => randomBytes(32)),
    ]
    for (const guess of guesses) {
      const state = typeof guess === 'string' ? guess : guess.toString('base64url')
      const query = new URLSearchParams({ code: 'x', state })
      t.equal((await visit(`${callbackOf('oidc')}?${query}`)).status, 400)
      t.equal((await call('POST', '/v2/auth/callback/oidc', { code: 'x', state })).status, 400)
    }
    t.equal(oidc.requests.length, before, 'the provider is not asked')
    t.match(await wait(auth_id, 0), { status: 'pending' })
  })

  await t.test('pages of other origins', async t => {
    const evil = { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'cors' }
    const asked = { provider: 'oidc', scopes: [], user_id: 'u1' }
    t.equal((await call('POST', '/v2/auth/authenticate', asked, evil)).status, 403)
    const { url: link } = await pending({ user_id: 'h5' })
    const person = newPerson()
    const back = (await person.consent(link, /\/v2\/auth\/callback\//)).url
    const cookie = [...person.cookies]
      .filter(([name]) => name.includes('weft_oauth_'))
      .map(([name, value]) => `${name.split(' ')[1]}=${value}`)
      .join('; ')
    t.equal((await visit(back, { ...evil, cookie })).status, 403)
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data']) {
      const sent = JSON.stringify(Object.fromEntries(new URL(back).searchParams))
      const refused = await call('POST', '/v2/auth/callback/oidc', sent, { 'content-type': type })
      t.ok([415, 422].includes(refused.status), `${type}: ${refused.status}`)
    }
    t.equal((await visit(back, { cookie })).status, 200, 'nothing of it uses up the state')
  })

  await t.test('an application with a key sees and ends its own tokens only', async t => {
    const [mine, theirs] = [await keyed('oauth'), await keyed('oauth')]
    await consented({ user_id: 'mine' }, mine)
    await consented({ user_id: 'theirs' }, theirs)
    await consented({ user_id: 'ours' })
    const users = async (client = call) =>
      (await client<TokenSummary[]>('GET', '/v2/auth/tokens?provider_id=oidc')).body.map(({ user_id }) => user_id)
    t.same(await users(mine), ['mine'])
    t.match(await mine('GET', '/v2/auth/tokens/exists?provider_id=oidc&user_id=theirs'), { body: { has_token: false } })
    t.match(await mine('DELETE', '/v2/auth/tokens?provider_id=oidc&user_id=theirs'), { body: { message: /^0 tokens/ } })
    t.match(await mine('DELETE', '/v2/auth/tokens?provider_id=oidc'), { body: { message: /^1 token / } })
    t.same(await users(theirs), ['theirs'])
    t.ok((await users()).includes('ours'))
    const events = (await mine<{ by: string }[]>('GET', '/v2/auth/token-events?limit=200')).body
    t.equal(new Set(events.map(({ by }) => by)).size, 1)
    t.match(await mine('GET', '/v2/auth/agents/any/connections'), { status: 200, body: { data: [] } })
  })

  await t.test('what a key of the control plane without the scope oauth may not do', async t => {
    const deploys = await keyed('deployments')
    t.equal((await deploys('GET', '/v2/auth/providers')).status, 200)
    const change = { token_url: 'https://evil.example/token' }
    t.equal((await deploys('PATCH', '/v2/auth/providers/oidc', change)).status, 403, 'it would receive refresh tokens')
    t.equal((await deploys('DELETE', '/v2/auth/providers/oidc')).status, 403, 'nor replaces it by another one')
    const both = await keyed('deployments', 'oauth')
    t.equal((await both('PATCH', '/v2/auth/providers/oidc', { name: 'The <b>oidc</b> provider' })).status, 200)
    for (const path of ['/v2/auth/wait/x', '/v2/auth/tokens', '/v2/auth/token-events', '/v2/auth/agents/a/connections'])
      t.equal((await deploys('GET', path)).status, 403, path)
  })
}
