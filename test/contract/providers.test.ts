/** The tables of the contract for the OAuth provider endpoint, row by row. */
import t from 'tap'
import type { Provider } from '../../schemas/providers.js'
import { startRoles } from '../helpers/cluster.js'
import { KEY, openControl } from '../helpers/control.js'
import { fits, type Kind, wrong } from './fields.js'

t.setTimeout(180_000)

/** OAuth provider (response). */
const RESPONSE: [string, Kind][] = [
  ['id', 'string'],
  ['organization_id', 'string'],
  ['provider_id', 'string'],
  ['name', 'string'],
  ['client_id', 'string'],
  ['auth_url', 'string'],
  ['token_url', 'string'],
  ['uses_pkce', 'boolean'],
  ['code_challenge_method', 'string'],
  ['created_at', 'date-time'],
  ['updated_at', 'date-time'],
  ['provider_type', 'string'],
]

/** OAuth provider update request: member, type, a value, whether the answer has it. */
const REQUEST: [string, Kind, unknown, boolean][] = [
  ['name', 'string', 'Another name', true],
  ['client_id', 'string', 'another-client', true],
  ['client_secret', 'string', 'another-secret', false],
  ['auth_url', 'url', 'https://id.example.com/authorize', true],
  ['token_url', 'url', 'https://id.example.com/token', true],
  ['uses_pkce', 'boolean', true, true],
  ['code_challenge_method', 'S256|plain', 'plain', true],
]

t.test('PATCH /v2/auth/providers/{provider_id}', async t => {
  const roles = await startRoles({ graphs: 0, env: { WEFT_CONTROL_KEY: KEY } })
  t.teardown(() => roles.stop())
  const call = openControl(roles.urls[0]!)
  const at = '/v2/auth/providers/one'
  await call('POST', '/v2/auth/providers', {
    provider_id: 'one',
    name: 'One',
    client_id: 'client',
    client_secret: 'secret-of-one',
    auth_url: 'https://example.com/authorize',
    token_url: 'https://example.com/token',
  })

  for (const [field, kind] of RESPONSE)
    await t.test(`answers ${field}`, async t => {
      const { status, body } = await call<{ [name: string]: unknown }>('PATCH', at, {})
      t.equal(status, 200)
      t.ok(fits(kind, body[field]), `${JSON.stringify(body[field])} is ${kind}`)
    })

  await t.test('never answers client_secret', async t => {
    t.notMatch((await call('PATCH', at, { client_secret: 'secret-of-one' })).text, /client_secret"|secret-of-one/)
  })

  for (const [field, kind, value, answered] of REQUEST)
    await t.test(`accepts ${field}`, async t => {
      const before = (await call<Provider>('GET', at)).body
      const { status, body } = await call<Provider>('PATCH', at, { [field]: value })
      t.equal(status, 200)
      t.same(body, { ...before, ...(answered ? { [field]: value } : {}), updated_at: body.updated_at })
      t.equal((await call('PATCH', at, { [field]: null })).status, 200, 'null')
      t.same((await call<Provider>('GET', at)).body, body, 'null changes nothing')
      for (const bad of wrong(kind)) {
        const answer = await call('PATCH', at, { [field]: bad })
        t.match(
          answer,
          { status: 422, body: { detail: [{ loc: ['body', field], msg: /^expected /, type: String }] } },
          `${bad}`,
        )
      }
      t.same((await call<Provider>('GET', at)).body, body, 'nothing is half-written')
    })

  await t.test('an unknown provider', async t => {
    t.match(await call('PATCH', '/v2/auth/providers/none', {}), { status: 404, body: { detail: /none not found/ } })
  })
})
