/** Refresh of tokens: once, by one call, with rotation; what a stolen refresh token leads to (docs/spec/oauth.md#tokens). */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { TokenEvent, TokenSummary } from '../../../schemas/oauth.js'
import { CLIENT } from '../../helpers/oidc.js'
import { until } from '../../helpers/until.js'
import type { OauthStage } from './stage.js'

export async function refreshRows(t: Test, stage: OauthStage): Promise<void> {
  const { oidc, call, begin, consented } = stage
  const refreshes = () => oidc.requests.filter(path => path === '/token').length
  const tokenOf = async (user_id: string) =>
    (await call<TokenSummary[]>('GET', `/v2/auth/tokens?user_id=${user_id}`)).body[0]

  /** The access token of a new grant, which is to be refreshed now; later ones live for an hour. */
  const due = async (user_id: string): Promise<string> => {
    oidc.seconds = 2
    const token = await consented({ user_id })
    oidc.seconds = 3_600
    // The last half of its life: when a token expires is a promise about time.
    await sleep(1_100)
    return token
  }
  /** Whether the provider takes the token. */
  const isAlive = async (token: string) => {
    const answer = await fetch(`${oidc.issuer}/me`, { headers: { authorization: `Bearer ${token}` } })
    await answer.text()
    return answer.status === 200
  }
  /** A client that knows the secret, and a refresh token: the next access token, or the error. */
  const steal = async (refresh_token: string) => {
    const body = new URLSearchParams({ grant_type: 'refresh_token', refresh_token, ...CLIENT })
    const answer = await fetch(`${oidc.issuer}/token`, { method: 'POST', body })
    return (await answer.json()) as { access_token?: string; error?: string }
  }
  const lastEvent = async () => (await call<TokenEvent[]>('GET', '/v2/auth/token-events?limit=1')).body[0]!

  await t.test('of many calls at once, one refreshes, and all get the new token', async t => {
    const old = await due('fresh')
    const before = refreshes()
    const answers = await Promise.all(Array.from({ length: 24 }, () => begin({ user_id: 'fresh' })))
    const { token } = answers[0] as { token: string }
    t.not(token, old)
    for (const answer of answers) t.match(answer, { status: 'completed', token })
    t.equal(refreshes(), before + 1)
    t.ok(await isAlive(token))
    t.match(await lastEvent(), { type: 'refreshed', user_id: 'fresh', by: 'control' })
    t.match(await begin({ user_id: 'fresh' }), { token }, 'it serves until it is about to expire')
  })

  await t.test('the refresh token of each answer is the one that is used next', async t => {
    oidc.seconds = 1
    const first = await consented({ user_id: 'rotates' })
    const seen = new Set([first])
    // Each of its tokens lives for a second.
    await until(async () => {
      const { status, token } = (await begin({ user_id: 'rotates' })) as { status: string; token: string }
      t.equal(status, 'completed')
      return seen.add(token).size === 4
    })
    oidc.seconds = 3_600
    t.equal(new Set(oidc.issued.refresh.slice(-4)).size, 4)
  })

  await t.test(
    'a stolen refresh token that was used before ours: the grant ends, and the user is asked again',
    async t => {
      await due('robbed')
      const stolen = await steal(oidc.issued.refresh.at(-1)!)
      t.ok(await isAlive(stolen.access_token!))
      t.match(await begin({ user_id: 'robbed' }), { status: 'pending' })
      t.notOk(await isAlive(stolen.access_token!), 'the thief has nothing any more')
      t.same(await steal(oidc.issued.refresh.at(-1)!), { ...(await steal('none')) }, 'nor can he refresh')
      t.equal(await tokenOf('robbed'), undefined)
      t.match(await lastEvent(), { type: 'refresh_refused', user_id: 'robbed', error: 'invalid_grant' })
    },
  )

  await t.test('a stolen refresh token that we have used already: the same at our next refresh', async t => {
    await due('robbed-late')
    const stolen = oidc.issued.refresh.at(-1)!
    oidc.seconds = 2
    const { token } = (await begin({ user_id: 'robbed-late' })) as { token: string }
    oidc.seconds = 3_600
    t.ok(await isAlive(token))
    t.match(await steal(stolen), { error: 'invalid_grant' })
    t.notOk(await isAlive(token), 'the provider has ended the grant')
    await sleep(1_100)
    t.match(await begin({ user_id: 'robbed-late' }), { status: 'pending' })
    t.equal(await tokenOf('robbed-late'), undefined)
  })

  await t.test('a provider that does not answer: 502 after three tries, and the token stays', async t => {
    const asked = { provider: 'oidc', scopes: ['openid'], user_id: 'waits' }
    await due('waits')
    const before = refreshes()
    oidc.before = async path => {
      if (path === '/token') throw new Error('out of order')
    }
    const failed = await call<{ detail: string }>('POST', '/v2/auth/authenticate', asked)
    t.match(failed, { status: 502, body: { detail: /^OAuth provider oidc gave no valid answer/ } })
    t.equal(refreshes(), before + 3)
    oidc.before = async () => {}
    t.match(await call('POST', '/v2/auth/authenticate', asked), { status: 200, body: { status: 'completed' } })
  })

  await t.test('a wrong client secret: 502 after one try, and the token stays', async t => {
    const asked = { provider: 'oidc', scopes: ['openid'], user_id: 'secret' }
    await due('secret')
    const before = refreshes()
    t.equal((await call('PATCH', '/v2/auth/providers/oidc', { client_secret: 'another' })).status, 200)
    const failed = await call<{ detail: string }>('POST', '/v2/auth/authenticate', asked)
    t.match(failed, { status: 502, body: { detail: /answered invalid_client/ } })
    t.equal(refreshes(), before + 1)
    t.equal((await call('PATCH', '/v2/auth/providers/oidc', { client_secret: CLIENT.client_secret })).status, 200)
    t.match(await call('POST', '/v2/auth/authenticate', asked), { status: 200, body: { status: 'completed' } })
  })

  await t.test('a token that is deleted while it is refreshed: the new one is revoked, too', async t => {
    await due('deleted')
    const { id } = (await tokenOf('deleted'))!
    const revocations = () => oidc.requests.filter(path => path === '/token/revocation').length
    const [before, asked] = [revocations(), refreshes()]
    let open = () => {}
    const gate = new Promise<void>(done => {
      open = done
    })
    oidc.before = path => (path === '/token/revocation' ? gate : Promise.resolve())
    const deleted = call('DELETE', `/v2/auth/tokens/${id}`)
    await until(() => revocations() === before + 1)
    const refreshed = begin({ user_id: 'deleted' })
    await until(() => refreshes() === asked + 1)
    open()
    oidc.before = async () => {}
    t.equal((await deleted).status, 204)
    await refreshed
    t.equal(revocations(), before + 2)
    t.match(await begin({ user_id: 'deleted' }), { status: 'pending' })
    t.notOk(await isAlive(oidc.issued.access.at(-1)!))
  })
}
