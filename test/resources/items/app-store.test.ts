/** Answers of a store that the application brings: its code may send anything. */
import t from 'tap'
import { fail } from '../../../schemas/errors.js'
import { jsonText } from '../../../schemas/exact.js'
import type { ItemBatch, ItemOperation } from '../../../schemas/items/items.js'
import { type Access, wholeApp } from '../../../workers/resources/access.js'
import type { Deps } from '../../../workers/resources/context.js'
import { appStoreOf } from '../../../workers/resources/items/app-store.js'

const item = (owner: string) => ({
  namespace: ['a'],
  key: 'k',
  value: { owner },
  created_at: '2026-01-01T00:00:00Z',
  updated_at: '2026-01-01T00:00:00Z',
})
const ofAnn: Access = { app: 'app', filter: value => value.owner === 'ann', keys: [], members: { owner: 'ann' } }

/** The store of an application whose code answers each batch so. */
async function storeThat(answer: (operations: ItemOperation[]) => unknown, pools = ['p1', 'p2'], active = 'p2') {
  const deps = {
    apps: { poolFor: async () => active },
    settings: { of: async () => pools.map(pool => ({ pool })) },
    caller: {
      async ask(_: string, __: object, body: Uint8Array) {
        const { operations } = JSON.parse(Buffer.from(body).toString()) as ItemBatch
        const answered = answer(operations)
        return { head: {}, body: Buffer.from(typeof answered === 'string' ? answered : jsonText(answered)) }
      },
    },
  } as unknown as Deps
  return appStoreOf(deps, 'app')
}

t.test('only the revision that serves counts', async t => {
  t.equal(await storeThat(() => [], []), null)
  t.equal(await storeThat(() => [], ['p1'], 'p2'), null)
  t.ok(await storeThat(() => []))
})

t.test('an answer of another kind is an error of the server', async t => {
  const get = async (answer: unknown) =>
    (await storeThat(() => answer))!.get(wholeApp('app'), { namespace: ['a'], key: 'k' }, null)
  for (const wrong of [
    '{',
    '[',
    [],
    [null, null],
    [{ key: 1 }],
    {},
    [{ ...item('x'), value: 7 }],
    '[[[['.repeat(5_000),
  ])
    await t.rejects(get(wrong), fail('internal', 'The store of the application did not answer what it was asked'))
  await t.rejects(get([{ error: 'gone', code: 'internal' }]), fail('internal', 'The store of the application: gone'))
  await t.rejects(get([{ error: 'no ttl', code: 'invalid' }]), fail('invalid', 'The store of the application: no ttl'))
  t.same(await get([item('ann')]), item('ann'))
})

t.test('integers keep their digits', async t => {
  const seen: unknown[] = []
  const store = await storeThat(operations => {
    seen.push(...operations)
    return `[${jsonText({ ...item('ann'), value: { n: 2n ** 70n } })}]`
  })
  t.same(await store!.get(wholeApp('app'), { namespace: ['a'], key: 'k' }, false), {
    ...item('ann'),
    value: { n: 2n ** 70n },
  })
  t.same(seen, [{ op: 'get', namespace: ['a'], key: 'k', refresh_ttl: false }])
})

t.test('a search with a filter of authorization ends, also in a store that knows no offset', async t => {
  let asked = 0
  const store = await storeThat(() => {
    asked++
    return [Array.from({ length: 200 }, () => item('bob'))]
  })
  t.same(await store!.search(ofAnn, { namespace_prefix: ['a'] }), [])
  t.equal(asked, 500)
})
