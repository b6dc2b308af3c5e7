/** Built-in keys in the resource worker. */
import t from 'tap'
import type { Context, Reply } from '../../bus/serve.js'
import type { KeyInfo, KeyRecord } from '../../schemas/auth/keys.js'
import { keys, sweepKeys } from '../../workers/resources/keys/rpc.js'
import { stage } from './stage.js'

t.test('keys are created, used, listed, revoked and swept', async t => {
  const { all, store } = await stage(t, 1)
  const handlers = keys(all[0]!) as unknown as {
    [verb: string]: { handle(value: unknown, context: Context): Promise<Reply> }
  }
  const ask = async <T>(verb: string, value: unknown = {}) =>
    JSON.parse(`${(await handlers[verb]!.handle(value, {} as Context)).body}`) as T
  const limits = { requests_per_second: null, running_runs: 3, open_streams: null }
  const given = { name: 'one', scopes: ['run', 'run', 'read'], expires_at: null, limits }
  const made = await ask<KeyInfo & { key: string }>('create', given)
  t.match(made, { id: /^[0-9a-f]{16}$/, key: new RegExp(`^weft_${made.id}_[\\w-]{43}$`), scopes: ['run', 'read'] })
  const record = await ask<KeyRecord>('get', { id: made.id })
  t.match(record, { name: 'one', limits, sha256: /^[0-9a-f]{64}$/, expires_at: null })
  t.notOk(JSON.stringify(record).includes(made.key.slice(-43)))
  t.equal(await ask('get', { id: 'absent' }), null)

  t.match(await ask('list'), [{ id: made.id, last_used_at: null }])
  const at = Date.now()
  await ask('used', {
    used: [
      { id: made.id, at },
      { id: 'absent', at },
    ],
  })
  await ask('used', { used: [{ id: made.id, at: at - 1_000 }] })
  t.match(await ask('list'), [{ id: made.id, last_used_at: new Date(at).toISOString() }], 'the latest use counts')

  const soon = { ...given, name: 'two', expires_at: new Date(Date.now() + 60_000).toISOString() }
  const brief = await ask<KeyInfo>('create', soon)
  t.equal(brief.expires_at, soon.expires_at)
  await t.rejects(ask('create', { ...given, expires_at: new Date(Date.now() - 1).toISOString() }), { code: 'invalid' })
  await sweepKeys({ store })
  t.equal((await ask<KeyInfo[]>('list')).length, 2)
  await store.apply([{ step: 'records.patch', kind: 'key', id: brief.id, where: {}, set: { due_at: 1 } }])
  await sweepKeys({ store })
  t.match(await ask('list'), [{ id: made.id }], 'only keys that expired long ago are removed')

  await ask('revoke', { id: made.id })
  t.same(await ask('list'), [])
  await t.rejects(ask('revoke', { id: made.id }), { code: 'not_found' })
})
