/** The calls of applications for stored tokens, keys and agents (docs/spec/oauth.md#tokens). */
import type { Test } from 'tap'
import { CLIENT, newPerson } from '../../helpers/oidc.js'
import { FOREIGN, type OauthStage } from './stage.js'

export const IMPORTED = 'imported-canary-token'

export async function tokenRows(t: Test, stage: OauthStage): Promise<void> {
  const { oidc, url, call, callbackOf, begin, pending, wait, consented, keyed } = stage
  const app = await keyed('oauth')

  await t.test('a page of others: the link leads to the provider, the key that began ends the flow', async t => {
    t.match(
      await call('POST', '/v2/auth/authenticate', { provider: 'oidc', scopes: [], redirect_uri: `${FOREIGN}/` }),
      {
        status: 422,
        body: { detail: [{ loc: ['body', 'redirect_uri'] }] },
      },
    )
    const begun = await pending({ user_id: 'front', redirect_uri: FOREIGN }, app)
    const link = new URL(begun.url)
    t.equal(link.origin, oidc.issuer)
    t.match(Object.fromEntries(link.searchParams), {
      prompt: 'consent',
      response_type: 'code',
      client_id: CLIENT.client_id,
      redirect_uri: FOREIGN,
      scope: 'openid repo',
      code_challenge_method: 'S256',
      code_challenge: /^[\w-]{43}$/,
      state: /^[\w-]{43}$/,
    })
    const back = new URL((await newPerson().consent(begun.url, /^https:\/\/front\.example/)).url)
    t.equal(back.href.split('?')[0], FOREIGN)
    const sent = Object.fromEntries(back.searchParams)
    const stray = await fetch(`${callbackOf('oidc')}?${back.searchParams}`)
    t.equal(stray.status, 400, 'not without a key')
    await stray.text()
    t.match(await call('POST', '/v2/auth/callback/oidc', sent), { status: 400 }, 'not with another key')
    t.match(await app('POST', '/v2/auth/callback/other', sent), { status: 400 }, 'not at another provider')
    t.match(await app('POST', '/v2/auth/callback/oidc', { code: 'x' }), { status: 422 })
    const done = await app('POST', '/v2/auth/callback/oidc', sent)
    t.match(done, { status: 200, body: { status: 'completed' } })
    t.match(await app('POST', '/v2/auth/callback/oidc', sent), { status: 400 })
    t.match(await begin({ user_id: 'front' }, app), { status: 'completed' })
  })

  await t.test('what a key may do', async t => {
    t.match(await app('GET', '/v2/deployments'), { status: 403 })
    t.match(await app('GET', '/v2/auth/providers'), { status: 403 })
    const list = await app<{ id: string }[]>('GET', '/v2/auth/tokens')
    t.match(list.body, [{ user_id: 'front', provider_id: 'oidc', scopes: ['openid', 'repo'], is_default: true }])
    t.equal(list.body.length, 1, 'only its own')
    const [other] = (await call<{ id: string; user_id: string }[]>('GET', '/v2/auth/tokens?user_id=u1')).body
    for (const [method, path, body] of [
      ['DELETE', `/v2/auth/tokens/${other!.id}`, undefined],
      ['PATCH', `/v2/auth/tokens/${other!.id}/metadata`, { is_default: false }],
      ['POST', '/v2/auth/agents/a/connections', { oauth_token_id: other!.id }],
    ] as const)
      t.match(await app(method, path, body), { status: 404 })
    const none = await keyed('deployments')
    t.match(await none('POST', '/v2/auth/authenticate', { provider: 'oidc', scopes: [], user_id: 'u1' }), {
      status: 403,
    })
    const own = await pending({ user_id: null })
    t.match(await wait(own.auth_id, 0), { status: 'pending' })
    t.match(await wait(own.auth_id, 0, app), { status: 'not_found' }, 'a flow of no user is that of its key')
    const answer = await fetch(`${url}/v2/auth/tokens`)
    t.equal(answer.status, 401)
    await answer.text()
  })

  await t.test('tokens: list, label, connection of an agent, import, delete with revocation', async t => {
    type Summary = { id: string; user_id: string }
    const token = await consented({ force_new: true })
    const all = (await call<Summary[]>('GET', '/v2/auth/tokens?provider_id=oidc')).body
    t.ok(all.some(({ user_id }) => user_id === 'u1'))
    t.notMatch(JSON.stringify(all), token)
    const { id } = all.find(({ user_id }) => user_id === 'u1')!
    const at = `/v2/auth/tokens/${id}`
    t.match(await call('PATCH', `${at}/metadata`, { provider_account_label: 'Alice' }), {
      status: 200,
      body: { id, provider_account_label: 'Alice', is_default: true },
    })
    t.match(await call('PATCH', `${at}/metadata`, {}), { body: { provider_account_label: 'Alice' } })
    t.match(await begin({ token_id: id }), { status: 'completed', token: token })
    t.match(await begin({ token_id: '00000000-0000-4000-8000-000000000000' }), { status: 'token_expired', url: String })

    const bound = await call<{ token_id: string }>('POST', '/v2/auth/tokens/import', {
      provider_id: 'oidc',
      access_token: IMPORTED,
      scopes: ['openid', 'calendar'],
      user_id: 'u1',
      agent_id: 'agent-1',
      metadata: { team: 'blue' },
    })
    t.equal(bound.status, 200, bound.text)
    const { token_id } = bound.body
    const asked = { scopes: ['calendar'], user_id: 'u1' }
    t.match(await begin({ ...asked, agent_id: 'agent-1' }), {
      status: 'completed',
      token: IMPORTED,
      metadata: { team: 'blue' },
    })
    t.match(await begin({ ...asked, agent_id: 'agent-2' }), { status: 'pending' })
    const links = '/v2/auth/agents/agent-2/connections'
    const linked = await call<{ id: string }>('POST', links, { oauth_token_id: token_id })
    t.match(linked, { status: 201, body: { agent_id: 'agent-2', oauth_token_id: token_id, created_by: 'control' } })
    t.equal((await call<{ id: string }>('POST', links, { oauth_token_id: token_id })).body.id, linked.body.id)
    t.same((await call('GET', links)).body, { data: [linked.body] })
    t.match(await begin({ ...asked, agent_id: 'agent-2' }), { status: 'completed', token: IMPORTED })
    t.match(await begin({ ...asked, user_id: 'u2', agent_id: 'agent-2' }), { status: 'pending' }, 'not another user')
    t.equal((await call('DELETE', `${links}/${linked.body.id}`)).status, 204)
    t.match(await begin({ ...asked, agent_id: 'agent-2' }), { status: 'pending' })
    t.equal((await call('DELETE', `${links}/${linked.body.id}`)).status, 404)

    t.match(await call('GET', '/v2/auth/tokens/exists?provider_id=oidc'), { status: 200, body: { has_token: true } })
    t.match(await call('GET', '/v2/auth/tokens/exists?provider_id=other'), { body: { has_token: false } })
    t.match(await call('GET', '/v2/auth/tokens/exists'), {
      status: 422,
      body: { detail: [{ loc: ['query', 'provider_id'] }] },
    })
    t.match(await call('GET', '/v2/auth/tokens/exists?provider_id=unknown'), { status: 404 })
    const revocations = () => oidc.requests.filter(path => path === '/token/revocation').length
    const before = revocations()
    t.equal((await call('DELETE', at)).status, 204)
    t.equal(revocations(), before + 1)
    t.equal((await call('DELETE', at)).status, 404)
    t.match(await begin(), { status: 'pending' })
    const probe = await fetch(`${oidc.issuer}/me`, { headers: { authorization: `Bearer ${token}` } })
    t.equal(probe.status, 401, 'the provider has revoked the token')
    await probe.text()
    t.match(await call('DELETE', '/v2/auth/tokens?provider_id=oidc'), {
      status: 200,
      body: { message: /deleted/, provider_id: 'oidc' },
    })
    t.match(await call('GET', '/v2/auth/tokens/exists?provider_id=oidc'), { body: { has_token: false } })
    const events = (await call<{ type: string; token_id: string }[]>('GET', '/v2/auth/token-events?limit=200')).body
    for (const type of ['granted', 'imported', 'deleted', 'consent_failed'])
      t.ok(
        events.some(event => event.type === type),
        type,
      )
    t.equal(events.filter(event => event.token_id === id).length, 2)
    t.same((await call('GET', '/v2/auth/token-events?limit=2&offset=3')).body, events.slice(3, 5))
    t.equal((await call('GET', '/v2/auth/token-events?limit=201')).status, 422)
  })

  await t.test('a provider that is discovered by its MCP server', async t => {
    t.match(
      await call('POST', '/v2/auth/providers/mcp-discover', {
        provider_id: 'mcp',
        name: 'MCP',
        mcp_server_url: 'http://10.0.0.1/mcp',
      }),
      { status: 422 },
    )
    const found = await call('POST', '/v2/auth/providers/mcp-discover', {
      provider_id: 'mcp',
      name: 'MCP',
      mcp_server_url: `${oidc.issuer}/mcp`,
    })
    t.match(found, {
      status: 200,
      body: {
        provider_id: 'mcp',
        auth_url: `${oidc.issuer}/auth`,
        token_url: `${oidc.issuer}/token`,
        revocation_url: `${oidc.issuer}/token/revocation`,
        issuer: oidc.issuer,
        mcp_server_url: `${oidc.issuer}/mcp`,
        is_dynamic_client: true,
        uses_pkce: true,
      },
    })
    const begun = await pending({ provider: 'mcp', scopes: ['openid'] })
    const page = await newPerson().open(begun.url, new RegExp(`^${oidc.issuer}`))
    t.equal(new URL(page.url).searchParams.get('resource'), `${oidc.issuer}/mcp`)
  })
}
