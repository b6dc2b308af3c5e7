/** OAuth in resource workers: expiry, crashes between two steps, workers that refresh at the same time, rotated keys. */
import t, { type Test } from 'tap'
import { openLog } from '../../../bus/log.js'
import type { Context, Reply } from '../../../bus/serve.js'
import type { CallHead } from '../../../schemas/calls.js'
import type { Authenticated, TokenImport } from '../../../schemas/oauth.js'
import { parseAllowed } from '../../../workers/outbound.js'
import type { Deps } from '../../../workers/resources/context.js'
import { renewSecrets } from '../../../workers/resources/keys/renew.js'
import { openRing } from '../../../workers/resources/keys/ring.js'
import { authenticate, callback, peek } from '../../../workers/resources/oauth/flow.js'
import { insertProvider, providers } from '../../../workers/resources/oauth/providers.js'
import { CONNECTION, EVENT, FLOW, TOKEN, type TokenBody } from '../../../workers/resources/oauth/rows.js'
import { sweepOauth } from '../../../workers/resources/oauth/sweep.js'
import { importToken } from '../../../workers/resources/oauth/tokens.js'
import { each, newRecord } from '../../../workers/resources/rows/record.js'
import { CLIENT, newPerson, type Oidc, openOidc } from '../../helpers/oidc.js'
import { until } from '../../helpers/until.js'
import { type Stage, type Stepwise, stage, stepwise } from '../stage.js'

const HEAD: CallHead = { request_id: 'x', by: 'control', origin: 'http://weft.example' }
const ASKED = { provider: 'oidc', scopes: ['openid', 'repo'], user_id: 'u' }

type Worker = Deps & { store: Stepwise }

interface OauthWorkers extends Pick<Stage, 'store'> {
  oidc: Oidc
  all: Worker[]
  /** The flow of a user who has given consent: its id, and what the browser brings back. */
  consented(user_id: string): Promise<{ auth_id: string; query: string }>
  /** The same to its end: the access token. */
  granted(user_id: string): Promise<string>
  ask(deps: Deps, user_id: string): Promise<Authenticated>
}

async function openWorkers(t: Test, workers: number): Promise<OauthWorkers> {
  const oidc = await openOidc()
  t.teardown(() => oidc.stop())
  oidc.serve([`${HEAD.origin}/v2/auth/callback/oidc`])
  const { store, all } = await stage(t, workers, stepwise, { oauth_same_browser: false })
  const own = all.map(deps => ({ ...deps, allowed: parseAllowed(oidc.host) }) as Worker)
  const [deps] = own as [Worker]
  await insertProvider(
    deps,
    {
      provider_id: 'oidc',
      name: 'P',
      ...CLIENT,
      auth_url: `${oidc.issuer}/auth?prompt=consent`,
      token_url: `${oidc.issuer}/token`,
      revocation_url: `${oidc.issuer}/token/revocation`,
      uses_pkce: true,
    },
    HEAD,
  )
  const ask = (deps: Deps, user_id: string) => authenticate(deps, { ...ASKED, user_id }, HEAD)
  const consented = async (user_id: string) => {
    const begun = await ask(deps, user_id)
    if (begun.status === 'completed') throw new Error('expected a flow')
    const back = await newPerson().consent(begun.url, /^http:\/\/weft\.example/)
    return { auth_id: begun.auth_id, query: back.url.split('?')[1]! }
  }
  return {
    oidc,
    store,
    all: own,
    ask,
    consented,
    async granted(user_id) {
      const { auth_id, query } = await consented(user_id)
      await callback(deps, 'oidc', { query, cookies: {} })
      return (await peek(deps, { auth_id }, HEAD)).token!
    },
  }
}

/** Changes the only token. */
async function patchToken({ store }: Pick<Stage, 'store'>, change: Partial<TokenBody>): Promise<string> {
  for await (const { id, body } of each(store, { kind: TOKEN })) {
    const set = { body: JSON.stringify({ ...JSON.parse(body), ...change }) }
    await store.apply([{ step: 'records.patch', kind: TOKEN, id, where: {}, set }])
    return id
  }
  throw new Error('there is no token')
}

t.test('a state is valid for ten minutes', async t => {
  const workers = await openWorkers(t, 1)
  const { store, consented } = workers
  const [deps] = workers.all as [Worker]
  const expires = (id: string, at: number) =>
    store.apply([{ step: 'records.patch', kind: FLOW, id, where: {}, set: { due_at: at } }])
  const late = await consented('late')
  const row = await store.records.get(FLOW, late.auth_id)
  t.equal(row!.due_at! - row!.created_at, 600_000)
  await expires(late.auth_id, Date.now() - 1)
  await t.rejects(callback(deps, 'oidc', { query: late.query, cookies: {} }), { code: 'bad_request' })
  t.same(await peek(deps, { auth_id: late.auth_id }, HEAD), { status: 'not_found' })
  const inTime = await consented('in time')
  await expires(inTime.auth_id, Date.now() + 60_000)
  await sweepOauth(deps)
  t.equal(await store.records.get(FLOW, late.auth_id), null, 'swept')
  t.match(await callback(deps, 'oidc', { query: inTime.query, cookies: {} }), { ok: true })
})

t.test('a worker that dies at any step of a callback', async t => {
  const workers = await openWorkers(t, 2)
  const { oidc, consented, ask } = workers
  const [dying, other] = workers.all as [Worker, Worker]
  /** claim; insert the token, complete the flow, audit. */
  for (const [after, again, status] of [
    [0, true, 'completed'],
    [1, false, 'pending'],
    [2, false, 'completed'],
    [3, false, 'completed'],
  ] as const)
    await t.test(`after ${after} steps`, async t => {
      const user = `dies ${after}`
      const { auth_id, query } = await consented(user)
      dying.store.crashAfter(after)
      await t.rejects(callback(dying, 'oidc', { query, cookies: {} }), { message: 'crashed' })
      dying.store.crashAfter(Number.POSITIVE_INFINITY)
      const exchanges = oidc.requests.filter(path => path === '/token').length
      if (again) t.match(await callback(other, 'oidc', { query, cookies: {} }), { ok: true }, 'the state was not used')
      else {
        await t.rejects(callback(other, 'oidc', { query, cookies: {} }), { code: 'bad_request' })
        t.equal(oidc.requests.filter(path => path === '/token').length, exchanges, 'the code is not sent again')
      }
      t.match(await ask(other, user), { status })
      t.match(await peek(other, { auth_id }, HEAD), { status: again || after === 3 ? 'completed' : 'pending' })
    })
})

t.test('a worker that dies while it refreshes: another one takes over when its lease ends', async t => {
  const workers = await openWorkers(t, 2)
  const { oidc, ask, granted } = workers
  const [dying, other] = workers.all as [Worker, Worker]
  await granted('u')
  await patchToken(workers, { refresh_at: 0 })
  dying.store.crashAfter(1)
  oidc.before = async path => {
    if (path === '/token') throw new Error('not reached')
  }
  await t.rejects(ask(dying, 'u'), { message: 'crashed' })
  oidc.before = async () => {}
  let answered = false
  const waiting = ask(other, 'u').finally(() => {
    answered = true
  })
  await new Promise(done => setTimeout(done, 600))
  t.notOk(answered, 'the lease holds')
  await patchToken(workers, { lease: { holder: 'dead', until: 0 } })
  t.match(await waiting, { status: 'completed' })
})

t.test('two consents of one user at the same time: the later token stays, and both flows get it', async t => {
  const workers = await openWorkers(t, 2)
  const { oidc, consented, store } = workers
  for (let i = 0; i < 10; i++) {
    const flows = [await consented(`u${i}`), await consented(`u${i}`)]
    let open = () => {}
    const both = new Promise<void>(done => {
      open = done
    })
    let asked = 0
    oidc.before = async path => {
      if (path === '/token' && ++asked === 2) open()
      if (path === '/token') await both
    }
    await Promise.all(flows.map(({ query }, n) => callback(workers.all[n]!, 'oidc', { query, cookies: {} })))
    oidc.before = async () => {}
    const [first, second] = await Promise.all(flows.map(({ auth_id }) => peek(workers.all[0]!, { auth_id }, HEAD)))
    t.match(first, { status: 'completed', token: String })
    t.same(second, first)
    t.equal((await store.records.list({ kind: TOKEN, limit: 500 })).length, i + 1)
  }
})

t.test('a database that fails for a moment after the provider has answered', async t => {
  const workers = await openWorkers(t, 1)
  const { oidc, ask, granted } = workers
  const [deps] = workers.all as [Worker]
  await granted('u')
  await patchToken(workers, { refresh_at: 0 })
  oidc.before = async path => {
    if (path === '/token') deps.store.crashAfter(0)
  }
  const waiting = ask(deps, 'u')
  await until(() => oidc.issued.access.length === 2)
  await new Promise(done => setTimeout(done, 200))
  oidc.before = async () => {}
  deps.store.crashAfter(Number.POSITIVE_INFINITY)
  t.match(await waiting, { status: 'completed', token: oidc.issued.access[1] })
  await patchToken(workers, { refresh_at: 0 })
  t.match(await ask(deps, 'u'), { status: 'completed', token: oidc.issued.access[2] }, 'its refresh token was stored')
})

t.test('a worker that was paused with an old refresh token changes nothing', async t => {
  const workers = await openWorkers(t, 2)
  const { oidc, ask, granted, store } = workers
  const [paused, other] = workers.all as [Worker, Worker]
  await granted('u')
  const id = await patchToken(workers, { refresh_at: 0 })
  let release = () => {}
  const gate = new Promise<void>(done => {
    release = done
  })
  let held = false
  oidc.before = async path => {
    if (path !== '/token' || held) return
    held = true
    await gate
  }
  const first = ask(paused, 'u')
  await until(() => held)
  await patchToken(workers, { lease: { holder: 'expired', until: 0 } })
  const { token } = (await ask(other, 'u')) as { token: string }
  t.ok(token)
  const rev = (await store.records.get(TOKEN, id))!.rev
  release()
  t.match(await first, { status: 'completed', token }, 'its call gets the token of the other one')
  t.equal((await store.records.get(TOKEN, id))!.rev, rev)
})

t.test('what has expired is swept', async t => {
  const workers = await openWorkers(t, 1)
  const { store } = workers
  const [deps] = workers.all as [Worker]
  const imported: TokenImport = { provider_id: 'oidc', access_token: 'a', expires_in_seconds: 3_600, user_id: 'u' }
  const brief = (await importToken(deps, imported, HEAD)).token_id
  const kept = (await importToken(deps, { ...imported, refresh_token: 'r', is_default: false }, HEAD)).token_id
  await store.apply([
    { step: 'records.insert', row: newRecord(CONNECTION, 'c', { parent: brief, body: '{}' }) },
    { step: 'records.insert', row: newRecord(EVENT, 'e', { body: '{}', due_at: Date.now() - 1 }) },
    { step: 'records.patch', kind: TOKEN, id: brief, where: {}, set: { due_at: Date.now() - 1 } },
  ])
  await sweepOauth(deps)
  t.equal(await store.records.get(TOKEN, brief), null)
  t.equal(await store.records.get(CONNECTION, 'c'), null)
  t.equal(await store.records.get(EVENT, 'e'), null)
  t.not(await store.records.get(TOKEN, kept), null)
  const [event] = await store.records.list({ kind: EVENT, limit: 1 })
  t.match(JSON.parse(event!.body), { type: 'expired', token_id: brief })
})

t.test('a provider that is deleted while it does not answer is asked about few tokens', async t => {
  const workers = await openWorkers(t, 1)
  const { oidc, store } = workers
  const [deps] = workers.all as [Worker]
  for (let i = 0; i < 40; i++)
    await importToken(deps, { provider_id: 'oidc', access_token: `a${i}`, is_default: false }, HEAD)
  oidc.before = async () => {
    throw new Error('not reached')
  }
  const { delete: remove } = providers(deps) as unknown as {
    delete: { handle(value: unknown, context: Context): Promise<Reply> }
  }
  const head = { ...HEAD, params: { provider_id: 'oidc' } }
  const answer = await remove.handle(null, { head } as unknown as Context)
  t.match(JSON.parse(`${answer.body}`), { message: 'OAuth provider oidc was deleted.' })
  t.same(await store.records.list({ kind: TOKEN, limit: 1 }), [])
  t.ok(oidc.requests.length <= 8, `${oidc.requests.length} requests`)
  const events = await store.records.list({ kind: EVENT, limit: 500 })
  t.equal(events.filter(({ body }) => body.includes('"deleted"')).length, 40)
})

t.test('tokens and flows stay readable when the encryption key is rotated', async t => {
  const workers = await openWorkers(t, 1)
  const { store, ask, granted, consented } = workers
  const [deps] = workers.all as [Worker]
  const token = await granted('u')
  const { query } = await consented('open')
  const next = 'the next key of this test'
  const log = openLog('test', 'silent')
  await renewSecrets({ store, ring: openRing(`${next},a key of a test that is long`), log })
  const rotated = { ...deps, ring: openRing(next) }
  t.match(await ask(rotated, 'u'), { status: 'completed', token })
  t.match(await callback(rotated, 'oidc', { query, cookies: {} }), { ok: true })
})
