/** In whose name a cron fires, and what a key that is no longer valid still begins. */
import t, { type Test } from 'tap'
import { v7 } from 'uuid'
import type { Context, Reply } from '../../../bus/serve.js'
import type { KeyCreated, KeyRevoked } from '../../../schemas/auth/keys.js'
import type { CallHead } from '../../../schemas/calls.js'
import type { Cron, CronFiring } from '../../../schemas/crons.js'
import { BUILT_IN_APP } from '../../../schemas/ids.js'
import type { RunRow } from '../../../store/rows/runs.js'
import type { Deps } from '../../../workers/resources/context.js'
import { fireCron } from '../../../workers/resources/crons/fire.js'
import { CRON, type CronBody } from '../../../workers/resources/crons/record.js'
import { pauseCronsOf } from '../../../workers/resources/crons/rights.js'
import { crons } from '../../../workers/resources/crons/rpc.js'
import { keys } from '../../../workers/resources/keys/rpc.js'
import { create } from '../../../workers/resources/runs/create.js'
import { leases } from '../../../workers/resources/runs/lease.js'
import { stage } from '../stage.js'

t.setTimeout(60_000)

type Handlers = { [verb: string]: { handle(value: unknown, context: Context): Promise<Reply> } }
type Head = Partial<CallHead>

const YEARLY = '0 0 1 1 *'
const SLOT = Date.UTC(new Date().getUTCFullYear(), 0, 1)
const user = (identity: string, permissions = [`${identity}:all`]) => ({
  identity,
  display_name: identity,
  permissions,
  is_authenticated: true,
})
/** The head of a request with this key, as an edge makes it. */
const by = ({ id, scopes, limits }: KeyCreated): Head => ({
  identity: user(id, scopes),
  key: { id, running_runs: limits.running_runs },
})

async function open(t: Test) {
  const { store, all } = await stage(t, 1)
  const [deps] = all as [Deps]
  const call = async <T>(handlers: Handlers, verb: string, body: unknown, head: Head): Promise<T> => {
    const bytes = Buffer.from(body === undefined ? '' : JSON.stringify(body))
    // Handlers of bytes and those of a decoded body.
    const value = verb === 'create' && head.by !== undefined ? bytes : body
    const reply = await handlers[verb]!.handle(value, { head: { request_id: 'x', ...head } } as Context)
    return JSON.parse(`${reply.body ?? 'null'}`) as T
  }
  const cronHandlers = crons(deps) as unknown as Handlers
  const keyHandlers = keys({ ...deps, pauseCrons: id => pauseCronsOf(deps, id) }) as unknown as Handlers
  const cronHead = (cron_id: string, head: Head = {}): Head => ({ ...head, params: { cron_id } })
  return {
    store,
    deps,
    makeKey: (more: object = {}) =>
      call<KeyCreated>(keyHandlers, 'create', { name: 'k', scopes: ['write'], ...more }, { by: 'command' }),
    revoke: (key_id: string) => call<KeyRevoked>(keyHandlers, 'revoke', {}, { by: 'command', params: { key_id } }),
    make: (head: Head, more: object = {}) =>
      call<Cron>(cronHandlers, 'create', { assistant_id: 'g', schedule: YEARLY, input: { n: 1 }, ...more }, head),
    change: ({ cron_id }: Cron, patch: object, head: Head) =>
      call<Cron>(cronHandlers, 'update', patch, cronHead(cron_id, head)),
    read: ({ cron_id }: Cron) => call<Cron>(cronHandlers, 'get', undefined, cronHead(cron_id)),
    firings: ({ cron_id }: Cron) => call<CronFiring[]>(cronHandlers, 'firings', undefined, cronHead(cron_id)),
    /** Fires the cron for a slot in the past; resolves to its run, or null when none was created. */
    async fire({ cron_id }: Cron, slot = SLOT): Promise<RunRow | null> {
      await store.apply([{ step: 'records.patch', kind: CRON, id: cron_id, where: {}, set: { due_at: slot } }])
      await fireCron(deps, (await store.records.get(CRON, cron_id))!)
      const newest = (await call<CronFiring[]>(cronHandlers, 'firings', undefined, cronHead(cron_id)))[0]
      return newest?.run_id ? store.runs.get(newest.run_id) : null
    },
    /** The cron as an earlier version stored it: with the identity of its creator alone. */
    async age({ cron_id }: Cron) {
      const row = (await store.records.get(CRON, cron_id))!
      const { key: _, headers: __, ...body } = JSON.parse(row.body) as CronBody
      const set = { body: JSON.stringify(body), keys: row.keys.filter(key => !key.startsWith('key=')) }
      await store.apply([{ step: 'records.patch', kind: CRON, id: cron_id, where: {}, set }])
    },
  }
}

t.test('runs of crons count for the limit of their key, as its other runs do', async t => {
  const { store, deps, makeKey, make, fire, firings } = await open(t)
  const key = await makeKey({ limits: { running_runs: 2 } })
  const list = await Promise.all([1, 2, 3].map(() => make(by(key))))
  const runs = []
  for (const cron of list) runs.push(await fire(cron))
  t.same(
    runs.map(run => run?.key_id ?? null),
    [key.id, key.id, null],
  )
  t.match(await firings(list[2]!), [{ run_id: null, error: /has 2 runs that have not ended; its limit is 2/ }])
  const target = { app: BUILT_IN_APP, thread_id: v7(), mode: 'background', brings: {}, key: by(key).key } as const
  const request = () => create(deps, { assistant_id: 'g' }, { ...target, run_id: v7() })
  await t.rejects(request(), { code: 'too_many' }, 'nor is there room for a request')
  const set = { status: 'success' as const, ended_at: 1 }
  await store.apply([{ step: 'runs.patch', run_id: runs[0]!.run_id, where: {}, set }])
  t.ok(await fire(list[2]!, SLOT + 1), 'an ended run leaves its place to the next one')
})

t.test('a revocation pauses the crons of the key and says how many; others go on', async t => {
  const { store, deps, makeKey, revoke, make, change, read, fire, firings } = await open(t)
  const [lost, kept] = [await makeKey(), await makeKey()]
  const mine = await Promise.all([1, 2].map(() => make(by(lost))))
  const off = await make(by(lost), { enabled: false })
  const other = await make(by(kept))
  t.equal((await read(mine[0]!)).paused_reason, undefined)
  t.same(await revoke(lost.id), { id: lost.id, paused_crons: 2 })
  for (const cron of mine) {
    t.match(await read(cron), { enabled: false, paused_reason: `Its key ${lost.id} was revoked` })
    t.equal((await store.records.get(CRON, cron.cron_id))!.due_at, null)
  }
  t.equal((await read(off)).paused_reason, undefined, 'a client has disabled that one')
  t.match(await read(other), { enabled: true })
  t.ok(await fire(other))
  t.same(await revoke(kept.id), { id: kept.id, paused_crons: 1 })

  // Enabled by the revoked key, whose request came first: it fires nothing.
  await change(mine[0]!, { enabled: true }, by(lost))
  t.equal(await fire(mine[0]!), null)
  const why = { enabled: false, paused_reason: `Its key ${lost.id} was revoked or has expired` }
  t.match(await read(mine[0]!), why)
  t.match(await firings(mine[0]!), [{ run_id: null, error: why.paused_reason }])

  const next = await makeKey()
  const resumed = await change(mine[0]!, { enabled: true }, by(next))
  t.match(resumed, { enabled: true, user_id: next.id })
  t.equal(resumed.paused_reason, undefined)
  t.match(await fire(mine[0]!, SLOT + 1), { key_id: next.id, auth_user: new RegExp(next.id) })
  t.same(await pauseCronsOf(deps, next.id), 1, 'it is a cron of that key now')
})

t.test('a cron of a key that has expired, or lost its scope, is paused at its next time', async t => {
  const { store, makeKey, make, read, fire, firings } = await open(t)
  for (const [change, says] of [
    [{ expires_at: Date.now() - 1 }, /was revoked or has expired$/],
    [{ scopes: ['read'] }, /lacks the scope write$/],
  ] as const) {
    const key = await makeKey({ expires_at: new Date(Date.now() + 60_000).toISOString() })
    const cron = await make(by(key))
    t.ok(await fire(cron))
    const { body } = (await store.records.get('key', key.id))!
    const set = { body: JSON.stringify({ ...JSON.parse(body), ...change }) }
    await store.apply([{ step: 'records.patch', kind: 'key', id: key.id, where: {}, set }])
    t.equal(await fire(cron, SLOT + 1), null)
    t.match(await read(cron), { enabled: false, paused_reason: says })
    t.match((await firings(cron))[0], { run_id: null, error: says })
  }
})

t.test('a cron of the allowed size is paused, too', async t => {
  const { makeKey, revoke, make, read, fire } = await open(t)
  const key = await makeKey()
  const sized = (length: number) => make(by(key), { input: 'x'.repeat(length) })
  // The largest input that is accepted.
  let [fits, limit] = [0, 2 * 1024 * 1024]
  while (limit - fits > 1) {
    const middle = Math.floor((fits + limit) / 2)
    const isAccepted = await sized(middle).then(
      () => true,
      () => false,
    )
    if (isAccepted) fits = middle
    else limit = middle
  }
  const [one, two] = [await sized(fits), await sized(fits)]
  t.ok(fits > 1_000_000)
  const { paused_crons } = await revoke(key.id)
  t.ok(paused_crons! >= 2)
  for (const cron of [one, two]) t.match(await read(cron), { enabled: false, paused_reason: /was revoked/ })
  t.equal(await fire(one), null)
})

t.test('crons of earlier versions fire with the key of their creator, where keys identify callers', async t => {
  const { store, deps, makeKey, revoke, make, read, fire, age } = await open(t)
  const key = await makeKey({ limits: { running_runs: 9 } })
  const [one, two] = [await make(by(key)), await make(by(key))]
  const hex = await make({ identity: user('0123456789abcdef', ['read']) })
  const named = await make({ identity: user('ada', ['read']) })
  for (const cron of [one, two, hex, named]) await age(cron)
  t.ok(await fire(hex), 'the application is not known yet: its auth may have named this caller')
  deps.apps.announce(BUILT_IN_APP, 'g', 'default')
  deps.apps.setGuarded(BUILT_IN_APP, 'default', true)
  t.ok(await fire(hex, SLOT + 1), 'it has an auth')
  deps.apps.setGuarded(BUILT_IN_APP, 'default', false)
  t.match(await fire(one), { key_id: key.id })
  t.ok(await fire(named), 'that is no key')
  t.equal(await fire(hex, SLOT + 2), null)
  t.match(await read(hex), { enabled: false, paused_reason: /0123456789abcdef/ })
  t.same(await revoke(key.id), { id: key.id, paused_crons: 1 }, 'the one that has fired is known')
  t.match(await read(one), { enabled: false })
  t.equal(await fire(two), null)
  t.match(await read(two), { enabled: false, paused_reason: new RegExp(key.id) })
  t.match((await store.records.get(CRON, two.cron_id))!.keys, [/^assistant=/, 'enabled=false', `key=${key.id}`])
})

t.test('the caller that last changed what a cron executes is its owner', async t => {
  const { makeKey, make, change, fire } = await open(t)
  const [ada, bob] = [
    { identity: user('ada'), headers: { 'x-tenant': 'of ada', 'x-more': '1' } },
    { identity: user('bob'), headers: { 'x-tenant': 'of bob' } },
  ]
  const seen = async (cron: Cron, slot: number) => {
    const run = (await fire(cron, slot))!
    const { config } = JSON.parse(run.kwargs) as { config: { configurable: { [name: string]: unknown } } }
    const { 'x-tenant': tenant = null, 'x-more': more = null } = config.configurable
    return { user: (JSON.parse(run.auth_user ?? 'null') as { identity?: string })?.identity ?? null, tenant, more }
  }
  const cron = await make(ada, { config: { configurable: { own: 1 } } })
  t.match(cron, { user_id: 'ada', payload: { config: { configurable: { own: 1, 'x-tenant': 'of ada' } } } })
  const ofAda = { user: 'ada', tenant: 'of ada', more: '1' }
  t.same(await seen(cron, SLOT), ofAda)
  let slot = SLOT
  for (const patch of [
    { schedule: '@yearly' },
    { timezone: 'Europe/Berlin' },
    { end_time: '2999-01-01' },
    { enabled: false },
    { enabled: true },
    { on_run_completed: 'keep' },
    { input: { n: 1 } },
  ])
    t.match(await change(cron, patch, bob), { user_id: 'ada' }, `${JSON.stringify(patch)} changes no work`)
  t.same(await seen(cron, ++slot), ofAda)
  for (const patch of [
    { input: { n: 2 } },
    { config: { tags: ['x'] } },
    { context: { a: 1 } },
    { metadata: { a: 1 } },
    { interrupt_before: '*' },
    { stream_mode: 'values' },
    { durability: 'sync' },
  ]) {
    t.match(await change(cron, patch, bob), { user_id: 'bob' }, JSON.stringify(patch))
    t.same(await seen(cron, ++slot), { user: 'bob', tenant: 'of bob', more: null })
    t.match(await change(cron, { input: { of: slot } }, ada), { user_id: 'ada' })
    t.same(await seen(cron, ++slot), ofAda)
  }
  const key = await makeKey()
  t.match(await change(cron, { input: { n: 3 } }, by(key)), { user_id: key.id })
  t.match(await fire(cron, ++slot), { key_id: key.id })
  t.match(await change(cron, { input: { n: 4 } }, {}), { user_id: null }, 'nobody was asked who they are')
  t.match(await fire(cron, ++slot), { key_id: null, auth_user: null })
})

t.test('a delayed run of a key that was revoked meanwhile ends at its time; runs in line are carried out', async t => {
  const { store, deps, makeKey, revoke } = await open(t)
  const key = await makeKey()
  const claim = (run: RunRow) =>
    (leases(deps) as unknown as Handlers).claim!.handle({ run_id: run.run_id, thread_id: run.thread_id, worker: 'w' }, {
      head: { request_id: 'x' },
      sender: { app: BUILT_IN_APP, pool: 'default' },
    } as Context)
  const runs: { [name: string]: RunRow } = {}
  for (const [name, after_seconds, head] of [
    ['delayed', 0.001, by(key)],
    ['in line', undefined, by(key)],
    ['delayed without a key', 0.001, {}],
  ] as const) {
    const [run_id, thread_id] = [v7(), v7()]
    const target = { app: BUILT_IN_APP, run_id, thread_id, mode: 'background', brings: {}, key: head.key } as const
    await create(deps, { assistant_id: 'g', ...(after_seconds === undefined ? {} : { after_seconds }) }, target)
    runs[name] = (await store.runs.get(run_id))!
  }
  await revoke(key.id)
  await new Promise(done => setTimeout(done, 5))
  t.match(await claim(runs['in line']!), { head: { claim: 'taken' } })
  t.match(await claim(runs['delayed without a key']!), { head: { claim: 'taken' } })
  t.match(await claim(runs.delayed!), { head: { claim: 'ended' } })
  t.match((await store.runs.get(runs.delayed!.run_id))!, {
    status: 'interrupted',
    cancel_reason: 'revoked: the key that created it was revoked or has expired',
  })
  t.match(await store.threads.get(BUILT_IN_APP, runs.delayed!.thread_id), { status: 'idle', queue: [] })
})
