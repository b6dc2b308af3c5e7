/** Built-in keys in the resource worker. */
import t, { type Test } from 'tap'
import type { Context, Reply } from '../../bus/serve.js'
import type { KeyCreated, KeyInfo, KeyPage, KeyRecord } from '../../schemas/auth/keys.js'
import type { CallHead } from '../../schemas/calls.js'
import type { Store } from '../../store/port.js'
import { keys, sweepKeys } from '../../workers/resources/keys/rpc.js'
import { stage } from './stage.js'

type Ask = <T>(verb: string, value?: unknown, head?: Partial<CallHead>) => Promise<T>

/** The handlers of a resource worker, asked by the command unless the head says otherwise. */
async function openKeys(t: Test): Promise<{ ask: Ask; store: Store }> {
  const { all, store } = await stage(t, 1)
  const handlers = keys({ ...all[0]!, pauseCrons: async () => 0 }) as unknown as {
    [verb: string]: { handle(value: unknown, context: Context): Promise<Reply> }
  }
  const RAW = ['create']
  return {
    store,
    async ask<T>(verb: string, value: unknown = {}, more: Partial<CallHead> = {}) {
      const head = { request_id: 'test', by: 'command', ...more }
      const given = RAW.includes(verb) ? Buffer.from(JSON.stringify(value)) : value
      const { body = 'null' } = await handlers[verb]!.handle(given, { head } as Context)
      return JSON.parse(`${body}`) as T
    },
  }
}

t.test('keys are created, used, listed, revoked and swept', async t => {
  const { ask, store } = await openKeys(t)
  const list = async () => (await ask<KeyPage>('list')).resources
  const limits = { requests_per_second: null, running_runs: 3, open_streams: null }
  const given = { name: 'one', scopes: ['run', 'run', 'read'], expires_at: null, limits: { running_runs: 3 } }
  const made = await ask<KeyCreated>('create', given)
  t.match(made, { id: /^[0-9a-f]{16}$/, key: new RegExp(`^weft_${made.id}_[\\w-]{43}$`), scopes: ['run', 'read'] })
  const record = await ask<KeyRecord>('get', { id: made.id })
  t.match(record, { name: 'one', limits, sha256: /^[0-9a-f]{64}$/, expires_at: null })
  t.notOk(JSON.stringify(record).includes(made.key.slice(-43)))
  t.equal(await ask('get', { id: 'absent' }), null)

  t.match(await list(), [{ id: made.id, last_used_at: null, created_by: 'command' }])
  const at = Date.now()
  await ask('used', {
    used: [
      { id: made.id, at },
      { id: 'absent', at },
    ],
  })
  await ask('used', { used: [{ id: made.id, at: at - 1_000 }] })
  t.match(await list(), [{ id: made.id, last_used_at: new Date(at).toISOString() }], 'the latest use counts')

  const soon = { ...given, name: 'two', expires_at: new Date(Date.now() + 60_000).toISOString() }
  const brief = await ask<KeyInfo>('create', soon)
  t.equal(brief.expires_at, soon.expires_at)
  await t.rejects(ask('create', { ...given, expires_at: new Date(Date.now() - 1).toISOString() }), { code: 'invalid' })
  await sweepKeys({ store })
  t.same(
    (await list()).map(({ id }) => id),
    [brief.id, made.id],
    'the newest first',
  )
  t.match(await ask('list', {}, { query: 'limit=1&offset=1' }), { resources: [{ id: made.id }], offset: 2 })
  await store.apply([{ step: 'records.patch', kind: 'key', id: brief.id, where: {}, set: { due_at: 1 } }])
  await sweepKeys({ store })
  t.match(await list(), [{ id: made.id }], 'only keys that expired long ago are removed')

  const revoke = () => ask('revoke', {}, { params: { key_id: made.id } })
  await revoke()
  t.same(await list(), [])
  await t.rejects(revoke(), { code: 'not_found' })
})

t.test('a key creates no key that may do more, or longer, than itself', async t => {
  const { ask } = await openKeys(t)
  const soon = new Date(Date.now() + 3_600_000).toISOString()
  const limits = { requests_per_second: 5, open_streams: 2 }
  const { id: by } = await ask<KeyInfo>('create', { name: 'a', scopes: ['admin'], expires_at: soon, limits })
  const given = { name: 'b', scopes: ['write', 'deployments'], expires_at: soon, limits }
  const made = await ask<KeyCreated>('create', given, { by })
  t.match(made, { created_by: by, expires_at: soon, limits: { ...limits, running_runs: null } })
  const later = new Date(Date.parse(soon) + 1).toISOString()
  for (const [more, sentence] of [
    [{ expires_at: null }, /^expires_at: expected at most that of the creating key/],
    [{ expires_at: undefined }, /^expires_at/],
    [{ expires_at: later }, /^expires_at/],
    [{ limits: { ...limits, requests_per_second: 6 } }, /^limits.requests_per_second: .*, 5$/],
    [{ limits: { requests_per_second: 5 } }, /^limits.open_streams: .*, 2$/],
    [{ limits: undefined }, /^limits.requests_per_second/],
  ] as const)
    await t.rejects(ask('create', { ...given, ...more }, { by }), { code: 'forbidden', message: sentence })
  await t.rejects(ask('create', given, { by: made.id }), { code: 'forbidden', message: /lacks the scope/ }, 'of itself')
  await ask('revoke', {}, { by, params: { key_id: by } })
  await t.rejects(ask('create', given, { by }), { code: 'unauthorized' }, 'nor one that is revoked')
  t.match(await ask('create', given, { by: 'control' }), { created_by: 'control' })
})

t.test('a caller that was not identified, and wrong input, are refused', async t => {
  const { ask } = await openKeys(t)
  const nobody = { by: undefined }
  const given = { name: 'x', scopes: ['read'] }
  for (const verb of ['create', 'list', 'revoke'])
    await t.rejects(ask(verb, given, nobody), { code: 'unauthorized' }, verb)
  for (const wrong of [{}, { ...given, scopes: [] }, { ...given, scopes: ['all'] }, { ...given, name: '' }])
    await t.rejects(ask('create', wrong), { code: 'invalid', message: /^body/ })
  await t.rejects(ask('list', {}, { query: 'limit=101' }), { code: 'invalid', message: /^query.limit/ })
})
