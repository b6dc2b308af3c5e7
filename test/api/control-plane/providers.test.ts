/** OAuth providers over HTTP (docs/spec/oauth.md#providers). */
import t from 'tap'
import type { Provider } from '../../../schemas/providers.js'
import { startRoles } from '../../helpers/cluster.js'
import { KEY, openControl } from '../../helpers/control.js'

t.setTimeout(180_000)

const GOOD = {
  provider_id: 'github',
  name: 'GitHub',
  client_id: 'client-1',
  client_secret: 'a-client-secret',
  auth_url: 'https://github.example/authorize?x=1',
  token_url: 'https://github.example/token',
}

t.test('providers', async t => {
  const roles = await startRoles({ graphs: 0, env: { WEFT_CONTROL_KEY: KEY } })
  t.teardown(() => roles.stop())
  const call = openControl(roles.urls[0]!)
  const at = '/v2/auth/providers'

  await t.test('create, read, list, patch, delete: always 200', async t => {
    t.same((await call(`GET`, at)).body, [])
    const made = await call<Provider>('POST', at, { ...GOOD, unknown: 1 })
    t.equal(made.status, 200)
    t.match(made.body, {
      provider_id: 'github',
      name: 'GitHub',
      uses_pkce: false,
      code_challenge_method: 'S256',
      provider_type: 'custom',
      token_endpoint_auth_method: 'client_secret_post',
    })
    t.notMatch(made.text, /a-client-secret|client_secret"/)
    t.same((await call<Provider>('GET', `${at}/github`)).body, made.body)
    t.match(await call('POST', at, GOOD), { status: 409, body: { detail: /github exists already/ } })
    const second = await call<Provider>('POST', at, {
      ...GOOD,
      provider_id: 'slack',
      provider_type: 'slack',
      client_secret: null,
      uses_pkce: true,
      code_challenge_method: 'plain',
      token_endpoint_auth_method: 'none',
    })
    t.match(second.body, {
      provider_type: 'slack',
      uses_pkce: true,
      code_challenge_method: 'plain',
      organization_id: made.body.organization_id,
    })
    t.same((await call<Provider[]>('GET', at)).body, [made.body, second.body], 'a bare list, oldest first')

    for (const body of [{}, { name: null, client_secret: null }, { name: 'GitHub' }]) {
      const { status, body: after } = await call<Provider>('PATCH', `${at}/github`, body)
      t.equal(status, 200)
      t.same(after, made.body, `${JSON.stringify(body)} changes nothing`)
    }
    const rows: [string, unknown][] = [
      ['name', 'Other'],
      ['client_id', 'client-2'],
      ['auth_url', 'https://a.example/x'],
      ['token_url', 'http://127.0.0.1:99/t'],
      ['uses_pkce', true],
      ['code_challenge_method', 'plain'],
    ]
    let before = made.body
    for (const [name, value] of rows) {
      const { status, body: after } = await call<Provider>('PATCH', `${at}/github`, { [name]: value })
      t.equal(status, 200, name)
      t.ok(after.updated_at > before.updated_at)
      t.same({ ...after, updated_at: '' }, { ...before, [name]: value, updated_at: '' }, `only ${name}`)
      before = after
    }
    const secret = await call<Provider>('PATCH', `${at}/github`, { client_secret: 'another-secret' })
    t.equal(secret.status, 200)
    t.notMatch(secret.text, /another-secret/)
    t.ok(secret.body.updated_at > before.updated_at)
    t.match(await call('PATCH', `${at}/github`, { provider_id: 'x', id: 'y', provider_type: 'slack' }), {
      body: { provider_id: 'github', provider_type: 'custom' },
    })

    const gone = await call('DELETE', `${at}/github`)
    t.match(gone, { status: 200, body: { message: /github was deleted/ } })
    for (const method of ['GET', 'PATCH', 'DELETE'])
      t.match(await call(method, `${at}/github`, method === 'PATCH' ? {} : undefined), {
        status: 404,
        body: { detail: 'OAuth provider ID github not found.' },
      })
  })

  await t.test('422 for every field', async t => {
    const wrong: { [name: string]: unknown[] } = {
      provider_id: [1, '', 'Upper', '-a', 'a b', 'x'.repeat(64)],
      name: [1, '', {}, 'x'.repeat(256)],
      client_id: [1, '', []],
      client_secret: [1, '', {}],
      auth_url: [
        1,
        '',
        'x',
        '/a',
        'http://example.com/a',
        'https://u:p@example.com',
        'https://example.com/#a',
        'javascript:alert(1)',
        'https://a b',
      ],
      token_url: [1, '', 'ftp://example.com', 'http://10.0.0.1/t'],
      uses_pkce: ['true', 1],
      code_challenge_method: ['', 'S512', 's256', 1],
      provider_type: ['other', 1],
      token_endpoint_auth_method: ['other', 1],
    }
    const before = (await call('GET', at)).text
    for (const [name, values] of Object.entries(wrong))
      for (const value of values) {
        const answer = await call('POST', at, { ...GOOD, provider_id: 'fresh', [name]: value })
        t.match(
          answer,
          { status: 422, body: { detail: [{ loc: ['body', name], msg: String, type: String }] } },
          `POST ${name} ${JSON.stringify(value).slice(0, 20)}`,
        )
        if (['provider_id', 'provider_type', 'token_endpoint_auth_method'].includes(name)) continue
        const patched = await call('PATCH', `${at}/slack`, { name: 'half', [name]: value })
        t.match(patched, { status: 422, body: { detail: [{ loc: ['body', name] }] } }, `PATCH ${name}`)
      }
    for (const name of ['provider_id', 'name', 'client_id', 'auth_url', 'token_url'])
      t.match(await call('POST', at, { ...GOOD, provider_id: 'fresh', [name]: undefined }), {
        status: 422,
        body: { detail: [{ loc: ['body', name], type: 'missing' }] },
      })
    t.equal((await call('GET', at)).text, before, 'nothing is half-written')
  })
})
