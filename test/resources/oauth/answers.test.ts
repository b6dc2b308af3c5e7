/** The requests to providers and the handling of their answers: other forms than RFC 6749, wrong and hostile ones. */
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import pino from 'pino'
import t, { type Test } from 'tap'
import type { CallHead } from '../../../schemas/calls.js'
import type { ProviderCreate } from '../../../schemas/providers.js'
import { parseAllowed } from '../../../workers/outbound.js'
import type { Deps } from '../../../workers/resources/context.js'
import { authenticate, callback, peek } from '../../../workers/resources/oauth/flow.js'
import { insertProvider } from '../../../workers/resources/oauth/providers.js'
import { list } from '../../../workers/resources/oauth/tokens.js'
import { stage } from '../stage.js'

const HEAD: CallHead = { request_id: 'x', by: 'control', origin: 'http://weft.example' }
const TOKEN = 'canary-token-5d1f'

interface Sent {
  headers: IncomingHttpHeaders
  form: { [name: string]: string }
}
interface Reply {
  status?: number
  type?: string
  headers?: { [name: string]: string }
  body: string | Buffer
}

/** A token endpoint that answers what it is told to. */
async function openEndpoint(t: Test) {
  const endpoint = { url: '', host: '', reply: { body: '' } as Reply, sent: [] as Sent[] }
  const server = createServer(async (request, response) => {
    const parts: Buffer[] = []
    for await (const part of request) parts.push(part as Buffer)
    endpoint.sent.push({
      headers: request.headers,
      form: Object.fromEntries(new URLSearchParams(Buffer.concat(parts).toString())),
    })
    const { status = 200, type = 'application/json', headers = {}, body } = endpoint.reply
    response.writeHead(status, { 'content-type': type, ...headers }).end(status === 204 ? undefined : body)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => void server.close())
  endpoint.host = `127.0.0.1:${(server.address() as AddressInfo).port}`
  endpoint.url = `http://${endpoint.host}`
  return endpoint
}

async function openFlows(t: Test) {
  const endpoint = await openEndpoint(t)
  const { all } = await stage(t, 1, undefined, { oauth_same_browser: false })
  const lines: string[] = []
  const [made] = all as [Deps]
  const log = pino({ level: 'trace' }, { write: (line: string) => void lines.push(line) })
  const deps: Deps = { ...made, allowed: parseAllowed(endpoint.host), link: { ...made.link, log } }
  let providers = 0
  return {
    endpoint,
    deps,
    lines,
    async provider(more: Partial<ProviderCreate> = {}): Promise<string> {
      const provider_id = `p${++providers}`
      await insertProvider(
        deps,
        {
          provider_id,
          name: 'P',
          client_id: 'client id',
          client_secret: 'secret:%',
          auth_url: `${endpoint.url}/auth?access_type=offline`,
          token_url: `${endpoint.url}/token`,
          ...more,
        },
        HEAD,
      )
      return provider_id
    },
    /** The link, and what a waiting client learns after the callback. */
    async flow(provider: string, scopes: string[], reply: Reply) {
      endpoint.reply = reply
      const begun = await authenticate(deps, { provider, scopes, force_new: true }, HEAD)
      if (begun.status === 'completed') throw new Error('expected a flow')
      const link = new URL(begun.url).searchParams
      const end = await callback(deps, provider, { query: `code=c%26d&state=${link.get('state')}`, cookies: {} })
      return { link: Object.fromEntries(link), end, waited: await peek(deps, { auth_id: begun.auth_id }, HEAD) }
    },
  }
}

t.test('PKCE and client authentication', async t => {
  const { endpoint, provider, flow } = await openFlows(t)
  const reply = { body: JSON.stringify({ access_token: TOKEN, token_type: 'Bearer' }) }
  for (const [method, challenge] of [
    ['none', null],
    ['plain', (verifier: string) => verifier],
    ['S256', (verifier: string) => createHash('sha256').update(verifier).digest('base64url')],
  ] as const)
    await t.test(`PKCE: ${method}`, async t => {
      const pkce = method === 'none' ? {} : { uses_pkce: true, code_challenge_method: method }
      const { link, waited } = await flow(await provider(pkce), ['a', 'b c', 'a'], reply)
      t.match(waited, { status: 'completed', token: TOKEN })
      t.match(link, { access_type: 'offline', response_type: 'code', client_id: 'client id', scope: 'a b c' })
      const { form } = endpoint.sent.at(-1)!
      t.match(form, { grant_type: 'authorization_code', code: 'c&d', redirect_uri: link.redirect_uri })
      if (challenge === null) {
        t.notOk('code_challenge' in link || 'code_challenge_method' in link || 'code_verifier' in form)
        return
      }
      t.match(form.code_verifier, /^[\w-]{43,128}$/)
      t.match(link, { code_challenge: challenge(form.code_verifier!), code_challenge_method: method })
    })
  const basic = `Basic ${Buffer.from('client+id:secret%3A%25').toString('base64')}`
  for (const [method, authorization, client_secret] of [
    ['client_secret_post', undefined, 'secret:%'],
    ['client_secret_basic', basic, undefined],
    ['none', undefined, undefined],
  ] as const)
    await t.test(`client authentication: ${method}`, async t => {
      await flow(await provider({ token_endpoint_auth_method: method }), [], reply)
      const { headers, form } = endpoint.sent.at(-1)!
      t.equal(headers.authorization, authorization)
      t.equal(form.client_secret, client_secret)
      t.match(headers['content-type'], /^application\/x-www-form-urlencoded/)
    })
})

t.test('answers of providers', async t => {
  const { deps, lines, provider, flow } = await openFlows(t)
  const json = (value: unknown) => JSON.stringify(value)
  const id = await provider()
  const slack = await provider({ provider_type: 'slack' })

  const GOOD: [what: string, reply: Reply, scopes: string[], provider?: string][] = [
    ['a form', { type: 'application/x-www-form-urlencoded', body: `access_token=${TOKEN}&scope=a%2Cb` }, ['a', 'b']],
    ['a form as text', { type: 'text/plain', body: `access_token=${TOKEN}&expires_in=99` }, ['asked']],
    ['JSON as text', { type: 'text/plain', body: json({ access_token: TOKEN, scope: 'a b' }) }, ['a', 'b']],
    ['a list of scopes', { body: json({ access_token: TOKEN, scope: ['a', 'b'] }) }, ['a', 'b']],
    ['no scope', { body: json({ access_token: TOKEN }) }, ['asked']],
    [
      'empty members',
      { body: json({ access_token: TOKEN, refresh_token: null, expires_in: null, scope: '' }) },
      ['asked'],
    ],
    ['another case of the type', { body: json({ access_token: TOKEN, token_type: 'BEARER' }) }, ['asked']],
    ['a broken ID token', { body: json({ access_token: TOKEN, id_token: 'x' }) }, ['asked']],
    ['a lifetime as a text', { body: json({ access_token: TOKEN, expires_in: '99' }) }, ['asked']],
    ['an endless life', { body: json({ access_token: TOKEN, expires_in: 1e300 }) }, ['asked']],
    ['no life', { body: json({ access_token: TOKEN, refresh_token: 'r', expires_in: 0 }) }, ['asked']],
    [
      'Slack, of a bot',
      { body: json({ ok: true, access_token: TOKEN, token_type: 'bot', scope: 'a,b' }) },
      ['a', 'b'],
      slack,
    ],
    [
      'Slack, of a user',
      { body: json({ authed_user: { access_token: TOKEN, token_type: 'user', scope: 'u' } }) },
      ['u'],
      slack,
    ],
  ]
  for (const [what, reply, scopes, from = id] of GOOD)
    await t.test(what, async t => {
      t.match((await flow(from, ['asked'], reply)).waited, { status: 'completed', token: TOKEN })
      const [token] = await list(deps, HEAD)
      t.same(token!.scopes, scopes)
    })

  const BAD: [what: string, error: string, reply: Reply][] = [
    ['an error with status 200', 'bad_code', { body: json({ error: 'bad_code', error_description: TOKEN }) }],
    ['an error of a form', 'bad_code', { type: 'text/plain', body: 'error=bad_code' }],
    ['an error that is no code', 'a_b__', { status: 400, body: json({ error: 'a b\n"' }) }],
    ['a redirect', 'invalid_response', { status: 307, headers: { location: 'http://10.0.0.1/' }, body: '' }],
    ['a redirect with a token', 'invalid_response', { status: 302, body: json({ access_token: TOKEN }) }],
    ['nothing', 'invalid_response', { status: 204, body: '' }],
    ['a server error', 'invalid_response', { status: 500, body: TOKEN }],
    ['a page', 'invalid_response', { type: 'text/html', body: `<p>${TOKEN}` }],
    ['null', 'invalid_response', { body: 'null' }],
    ['a list', 'invalid_response', { body: json([TOKEN]) }],
    ['no token', 'invalid_response', { body: json({ token: TOKEN }) }],
    ['a token that is no text', 'invalid_response', { body: json({ access_token: [TOKEN] }) }],
    ['a refresh token that is no text', 'invalid_response', { body: json({ access_token: TOKEN, refresh_token: 1 }) }],
    ['a lifetime that is no number', 'invalid_response', { body: json({ access_token: TOKEN, expires_in: 'soon' }) }],
    ['a negative lifetime', 'invalid_response', { body: json({ access_token: TOKEN, expires_in: -1 }) }],
    [
      'a token that is bound to a key',
      'unsupported_token_type',
      { body: json({ access_token: TOKEN, token_type: 'DPoP' }) },
    ],
    ['a token of another type', 'invalid_response', { body: json({ access_token: TOKEN, token_type: 'mac' }) }],
    ['more than 1 MiB', 'unreachable', { body: Buffer.alloc(2 * 1024 * 1024, 0x20) }],
  ]
  lines.length = 0
  for (const [what, error, reply] of BAD)
    await t.test(what, async t => {
      const { end, waited } = await flow(id, ['asked'], reply)
      t.equal(end.ok, false)
      t.same(waited, { status: 'not_found', error })
    })
  t.ok(lines.length >= BAD.length)
  t.notMatch(lines.join(''), TOKEN, 'no answer is logged')
})

t.test('addresses inside of the network are not called', async t => {
  const { deps, provider, flow } = await openFlows(t)
  for (const token_url of ['https://10.0.0.1/token', 'https://169.254.169.254/token', 'http://127.0.0.1:1/token']) {
    const { end, waited } = await flow(await provider({ token_url }), [], { body: '' })
    t.match(end, { ok: false, text: /could not be reached/ }, token_url)
    t.same(waited, { status: 'not_found', error: 'unreachable' })
  }
  t.same(await list(deps, HEAD), [])
})
