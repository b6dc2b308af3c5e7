/** The OAuth flow over HTTP, against a real OpenID provider (docs/spec/oauth.md). The parts use one server, in this order. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { newPerson } from '../../helpers/oidc.js'
import { isShared } from '../../helpers/stores/store.js'
import { consentRows } from './consent.js'
import { hostileRows } from './hostile.js'
import { refreshRows } from './refresh.js'
import { openOauth } from './stage.js'
import { IMPORTED, tokenRows } from './tokens.js'

t.setTimeout(240_000)

t.test('OAuth', async t => {
  const stage = await openOauth(t)
  const { call, pending, consented, wait, roles } = stage
  await consentRows(t, stage)
  await refreshRows(t, stage)
  await tokenRows(t, stage)
  await hostileRows(t, stage)

  await t.test('with the provider go its tokens and its flows', async t => {
    const before = await pending({ user_id: 'last' })
    t.equal((await newPerson().consent(before.url)).status, 200)
    for (const user_id of ['a', 'b', 'c']) await consented({ user_id })
    const open = await pending({ user_id: 'late' })
    const person = newPerson()
    const back = await person.consent(open.url, /\/v2\/auth\/callback\//)
    t.equal((await call('DELETE', '/v2/auth/providers/oidc')).status, 200)
    t.equal((await person.open(back.url)).status, 400)
    t.match(await wait(before.auth_id, 5), { status: 'not_found' })
    t.match(await wait(open.auth_id, 5), { status: 'not_found' })
    const left = (await call<{ provider_id: string }[]>('GET', '/v2/auth/tokens')).body
    t.same(
      left.filter(({ provider_id }) => provider_id === 'oidc'),
      [],
    )
    t.match(await call('POST', '/v2/auth/authenticate', { provider: 'oidc', scopes: [] }), { status: 404 })
    const me = (token: string) =>
      fetch(`${stage.oidc.issuer}/me`, { headers: { authorization: `Bearer ${token}` } }).then(({ status }) => status)
    for (const token of stage.oidc.issued.access.slice(-4)) t.equal(await me(token), 401, 'revoked')
  })

  await t.test('no token, code, state or secret in a log, or in a file in clear text', async t => {
    const logs = [...roles.edges, ...roles.resources].map(proc => proc.output()).join('')
    t.match(logs, /oauth token event/)
    const files = readdirSync(roles.nats.data, { withFileTypes: true, recursive: true })
      .filter(entry => entry.isFile())
      .map(entry => readFileSync(join(entry.parentPath, entry.name)).toString('latin1'))
    t.ok(files.some(text => text.includes('oauth_token')) || isShared)
    const secrets = [...stage.secrets(), IMPORTED]
    t.ok(secrets.length > 100, `${secrets.length} secrets`)
    for (const secret of secrets) {
      if (logs.includes(secret)) t.fail(`in a log: ${secret}`)
      if (files.some(text => text.includes(secret))) t.fail(`in a file: ${secret}`)
    }
  })
})
