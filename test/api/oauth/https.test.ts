/** Behind a proxy with TLS: the cookie of the flow, and the addresses that others are given. */
import t from 'tap'
import type { Authenticated } from '../../../schemas/oauth.js'
import { startRoles } from '../../helpers/cluster.js'
import { KEY, openControl } from '../../helpers/control.js'

const PUBLIC = 'https://weft.example'

t.test('with a public address', async t => {
  const roles = await startRoles({ graphs: 0, env: { WEFT_CONTROL_KEY: KEY, WEFT_PUBLIC_URL: PUBLIC } })
  t.teardown(() => roles.stop())
  const url = roles.urls[0]!
  const call = openControl(url)
  const made = await call('POST', '/v2/auth/providers', {
    provider_id: 'p',
    name: 'P',
    client_id: 'c',
    auth_url: 'https://10.0.0.1/auth',
    token_url: 'https://10.0.0.1/token',
  })
  t.equal(made.status, 200)
  const begin = async () => {
    const { body } = await call<Authenticated>('POST', '/v2/auth/authenticate', { provider: 'p', scopes: [] })
    if (body.status === 'completed') throw new Error('expected a flow')
    t.ok(body.url.startsWith(`${PUBLIC}/v2/auth/start/`))
    const started = await fetch(body.url.replace(PUBLIC, url), { redirect: 'manual' })
    t.equal(started.status, 303)
    const to = new URL(started.headers.get('location')!).searchParams
    t.equal(to.get('redirect_uri'), `${PUBLIC}/v2/auth/callback/p`)
    return { auth_id: body.auth_id, state: to.get('state')!, cookie: started.headers.get('set-cookie')! }
  }
  const back = async (state: string, cookie: string) => {
    const answer = await fetch(`${url}/v2/auth/callback/p?code=x&state=${state}`, { headers: { cookie } })
    return { status: answer.status, text: await answer.text() }
  }
  const { auth_id, state, cookie } = await begin()
  t.match(cookie, /^__Host-weft_oauth_[0-9a-f]{16}=[0-9a-f]{64}; Path=\/; Max-Age=600; HttpOnly; SameSite=Lax; Secure$/)
  const [pair] = cookie.split(';')
  for (const planted of ['', pair!.replace('__Host-', ''), pair!.slice(0, -1), `x${pair}`])
    t.match(await back(state, planted), { status: 400, text: /This link is invalid/ }, planted)
  t.match(
    await back(state, `a=b; ${pair}; ${pair}`),
    { status: 400, text: /could not be reached/ },
    'the browser itself',
  )
  t.match((await call('GET', `/v2/auth/wait/${auth_id}?timeout=5`)).body, { status: 'not_found', error: 'unreachable' })

  await t.test('the worker is away', async t => {
    const { state, cookie } = await begin()
    await roles.resources[0]!.stop()
    const page = await back(state, cookie.split(';')[0]!)
    t.match(page, { status: 503, text: /could not finish this/ })
  })
})
