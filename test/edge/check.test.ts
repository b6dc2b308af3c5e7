/** The questions of the edge to the app host about a request, and when it knows the user already. */
import t from 'tap'
import type { Ask } from '../../edge/app/ask.js'
import { type Asked, openCheck } from '../../edge/app/check.js'
import type { CheckCall } from '../../schemas/app-host.js'
import type { AuthUser, CheckAnswer } from '../../schemas/auth/auth.js'

const user = (identity: string): AuthUser => ({
  identity,
  permissions: [],
  display_name: identity,
  is_authenticated: true,
})
const NOTHING = new Uint8Array(0)

/** An app host that identifies everybody by a header, and notes what it was asked. */
function host(answer?: (call: Omit<CheckCall, 'verb'>) => CheckAnswer) {
  const calls: Omit<CheckCall, 'verb'>[] = []
  const ask: Ask = async call => {
    calls.push(call)
    const named = call.user ?? user(call.headers.find(([name]) => name === 'authorization')?.[1] ?? 'nobody')
    return {
      answer: answer?.(call) ?? { passed: { user: named, filters: { 'threads:read': null } } },
      body: Buffer.from('changed'),
    }
  }
  return { ask, calls }
}
const asked = (headers: { [name: string]: string }): Asked => ({
  method: 'GET',
  url: 'http://x/threads',
  headers: Object.entries(headers),
  params: {},
  query: 'a=b',
})
const AUTH = { path: './auth.ts:auth' }

t.test('every request is authenticated without a cache', async t => {
  const { ask, calls } = host()
  const check = openCheck(ask, { app: 'd', auth: AUTH, studio: false })
  for (let i = 0; i < 2; i++)
    t.match(await check(asked({ authorization: 'ada' }), ['threads:read'], NOTHING), {
      head: { checked: 'd', identity: { identity: 'ada' }, filters: { 'threads:read': null } },
      query: 'a=b',
    })
  t.same(
    calls.map(({ user }) => user),
    [undefined, undefined],
  )
})

t.test('with a cache a user is known by the named headers, for a while, but handlers are asked each time', async t => {
  const { ask, calls } = host()
  const cache = { cache_keys: ['Authorization'], ttl_seconds: 0.05, max_size: 2 }
  const check = openCheck(ask, { app: 'd', auth: { ...AUTH, cache }, studio: false })
  const as = async (name: string) => {
    await check(asked({ authorization: name, 'x-other': `${Math.random()}` }), [], NOTHING)
    return calls.at(-1)!.user?.identity
  }
  t.equal(await as('ada'), undefined)
  t.equal(await as('ada'), 'ada')
  t.equal(await as('eve'), undefined, 'another value is another user')
  await new Promise(done => setTimeout(done, 60))
  t.equal(await as('ada'), undefined, 'after its time')
  await as('kay')
  await as('joe')
  t.equal(await as('ada'), undefined, 'more than fit')
  t.equal(calls.length, 7)
  await check(asked({}), [], NOTHING)
  await check(asked({}), [], NOTHING)
  t.equal(calls.at(-1)!.user, undefined, 'a request with none of the headers is not remembered')
})

t.test('a refusal is passed on and not remembered', async t => {
  const { ask, calls } = host(() => ({ refused: { status: 401, detail: 'no' } }))
  const check = openCheck(ask, { app: 'd', auth: { ...AUTH, cache: {} }, studio: false })
  for (let i = 0; i < 2; i++)
    t.same(await check(asked({ authorization: 'ada' }), [], NOTHING), { refused: { status: 401, detail: 'no' } })
  t.same(
    calls.map(({ user }) => user),
    [undefined, undefined],
  )
})

t.test('Studio passes without authentication only where the server and the application allow it', async t => {
  const headers = { 'x-auth-scheme': 'langsmith', authorization: 'ada' }
  const identityWith = async (studio: boolean, disable_studio_auth?: boolean) => {
    const { ask } = host()
    const auth = disable_studio_auth === undefined ? AUTH : { ...AUTH, disable_studio_auth }
    const passed = await openCheck(ask, { app: 'd', auth, studio })(asked(headers), [], NOTHING)
    return 'head' in passed ? passed.head.identity : null
  }
  t.match(await identityWith(true), { identity: 'langgraph-studio-user', kind: 'StudioUser', permissions: [] })
  t.match(await identityWith(false), { identity: 'ada' })
  t.match(await identityWith(true, true), { identity: 'ada' })
})

t.test('a changed body and query take the place of those of the client', async t => {
  const { ask } = host(() => ({ passed: { user: user('ada'), filters: {}, query: 'c=d', body: true } }))
  const passed = await openCheck(ask, { app: 'd', auth: AUTH, studio: false })(asked({}), [], Buffer.from('sent'))
  t.match(passed, { query: 'c=d' })
  t.equal('body' in passed && Buffer.from(passed.body).toString(), 'changed')
})

t.test('an application without authenticate passes everybody, without an identity and without filters', async t => {
  const { ask } = host(() => ({ passed: { user: null, filters: {} } }))
  t.same(await openCheck(ask, { app: 'd', auth: AUTH, studio: false })(asked({}), ['threads:read'], NOTHING), {
    head: { checked: 'd' },
    query: 'a=b',
    body: NOTHING,
  })
})
