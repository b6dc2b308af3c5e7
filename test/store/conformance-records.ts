/** The promises of every store about records (store/port.ts RecordRow). */
import { randomUUID } from 'node:crypto'
import type { Test } from 'tap'
import type { Store } from '../../store/port.js'
import type { RecordQuery, RecordRow } from '../../store/rows/records.js'
import type { Step } from '../../store/steps.js'
import { APP, record } from './conformance-rows.js'

export function recordConformance(t: Test, store: Store): void {
  /** Each test has its own kind, so that none sees the records of another. */
  const maker = () => {
    const kind = randomUUID()
    return {
      kind,
      insert: async (set: Partial<RecordRow> = {}) => {
        const row = record({ kind, ...set })
        const failed = await store.apply([{ step: 'records.insert', row }])
        if (failed !== -1) throw new Error('the record was not inserted')
        return row
      },
      ids: async (query: Omit<RecordQuery, 'kind'>) =>
        (await store.records.list({ kind, ...query })).map(({ id }) => id),
    }
  }

  t.test('a record comes back as it was; id and name are taken once', async t => {
    const { kind, insert } = maker()
    const body = '{"$set":{"a.b":"\\u0000"},"__proto__":1}'
    const row = await insert({ name: '"odd" \u0000 $x', body, keys: ['k1', 'k2'], due_at: 5, parent: 'p', rev: 3 })
    t.same(await store.records.get(kind, row.id), row)
    t.same(await store.records.named(kind, APP, row.name!), row)
    t.equal(await store.records.get('other', row.id), null)
    t.equal(await store.records.named(kind, 'other', row.name!), null)
    t.equal(await store.apply([{ step: 'records.insert', row: { ...row, name: null } }]), 0, 'the id is taken')
    t.equal(await store.apply([{ step: 'records.insert', row: { ...row, id: 'another' } }]), 0, 'the name is taken')
    await insert({ name: row.name, app: 'other' })
    await insert()
    await insert()
    const racers = Array.from({ length: 20 }, () => record({ kind, name: 'one' }))
    const outcomes = await Promise.all(racers.map(row => store.apply([{ step: 'records.insert', row }])))
    t.equal(outcomes.filter(failed => failed === -1).length, 1, 'of 20 callers with one name one wins')
  })

  t.test('a patch sets what it names, grows rev, and holds its conditions', async t => {
    const { kind, insert } = maker()
    const row = await insert({ name: 'mine', keys: ['a'] })
    const taken = await insert({ name: 'taken' })
    const patch = (rev: number | undefined, set: Extract<Step, { step: 'records.patch' }>['set']): Step => ({
      step: 'records.patch',
      kind,
      id: row.id,
      where: { rev },
      set,
    })
    const set = { body: '{"x":1}', keys: [], due_at: 7, name: null, parent: 'p', updated_at: 9 }
    t.equal(await store.apply([patch(0, set)]), -1)
    t.same(await store.records.get(kind, row.id), { ...row, ...set, rev: 1 })
    t.equal(await store.apply([patch(0, {})]), 0, 'an old rev')
    t.equal(await store.apply([patch(undefined, { name: taken.name })]), 0, 'the name is taken')
    t.equal((await store.records.get(kind, row.id))?.rev, 1)
    t.equal(await store.apply([patch(undefined, { due_at: null })]), -1)
    t.match(await store.records.get(kind, row.id), { rev: 2, due_at: null })
    t.equal(await store.apply([{ ...patch(undefined, {}), id: 'absent' } as Step]), 0)
    const outcomes = await Promise.all(Array.from({ length: 20 }, (_, i) => store.apply([patch(2, { due_at: i })])))
    t.equal(outcomes.filter(failed => failed === -1).length, 1, 'of 20 callers with one rev one wins')
  })

  t.test('records are removed by id under their rev, or all that belong to one', async t => {
    const { kind, insert, ids } = maker()
    const row = await insert({ rev: 4, name: 'again' })
    const remove = (rev?: number): Step => ({ step: 'records.remove', kind, id: row.id, where: { rev } })
    t.equal(await store.apply([remove(3)]), 0)
    t.equal(await store.apply([remove(4)]), -1)
    t.equal(await store.apply([remove()]), 0)
    const [kept] = [await insert({ name: 'again' }), await insert({ parent: 'p' }), await insert({ parent: 'p' })]
    t.equal(await store.apply([{ step: 'records.clear', kind, parent: 'p' }]), -1)
    t.same(await ids({ limit: 9 }), [kept.id])
    t.equal(await store.apply([{ step: 'records.clear', kind, parent: 'p' }]), -1)
  })

  t.test('a list is narrowed, ordered and paged', async t => {
    const { insert, ids } = maker()
    const rows: RecordRow[] = []
    for (let i = 0; i < 10; i++)
      rows.push(
        await insert({
          id: `id-${(i * 7) % 10}`,
          app: i < 8 ? APP : 'other',
          parent: i % 2 ? 'odd' : 'even',
          keys: i % 3 === 0 ? ['three', `n${i}`] : [`n${i}`],
          created_at: 1_000 + Math.floor(i / 2),
          updated_at: 2_000 - i,
        }),
      )
    const sorted = (by: (a: RecordRow, b: RecordRow) => number) => rows.toSorted(by).map(({ id }) => id)
    const compare = (a: string, b: string) => (a < b ? -1 : 1)
    const byCreated = sorted((a, b) => b.created_at - a.created_at || compare(b.id, a.id))
    t.same(await ids({ limit: 100 }), byCreated, 'newest first')
    t.same(await ids({ limit: 100, order: 'asc' }), byCreated.toReversed())
    const byUpdated = sorted((a, b) => a.updated_at - b.updated_at)
    t.same(await ids({ limit: 3, sort: 'updated_at', order: 'asc' }), byUpdated.slice(0, 3))
    t.same(
      await ids({ limit: 100, sort: 'id', order: 'asc' }),
      sorted((a, b) => compare(a.id, b.id)),
    )
    const of = (test: (row: RecordRow, i: number) => boolean) =>
      rows
        .filter(test)
        .map(({ id }) => id)
        .sort()
    t.same(
      (await ids({ limit: 100, app: APP })).sort(),
      of((_, i) => i < 8),
    )
    t.same(
      (await ids({ limit: 100, parent: 'odd', app: 'other' })).sort(),
      of((_, i) => i === 9),
    )
    t.same(
      (await ids({ limit: 100, keys: ['three'] })).sort(),
      of((_, i) => i % 3 === 0),
    )
    t.same(
      (await ids({ limit: 100, keys: ['three', 'n6'] })).sort(),
      of((_, i) => i === 6),
    )
    t.same(await ids({ limit: 100, keys: ['absent'] }), [])
    for (const order of ['asc', 'desc'] as const) {
      const walked: string[] = []
      for (let after: RecordRow | undefined; ; ) {
        const page = await ids({ limit: 3, order, after })
        walked.push(...page)
        if (page.length < 3) break
        after = rows.find(({ id }) => id === page.at(-1))
      }
      t.same(walked, order === 'desc' ? byCreated : byCreated.toReversed(), 'every page, none twice')
    }
  })

  t.test('records are due at their time, earliest first', async t => {
    const { kind, insert } = maker()
    const [exact, early] = [await insert({ due_at: 2_000 }), await insert({ due_at: 1_000 })]
    await insert({ due_at: 2_001 })
    await insert()
    const due = async (limit: number) => (await store.records.due(kind, 2_000, limit)).map(({ id }) => id)
    t.same(await due(10), [early.id, exact.id])
    t.same(await due(1), [early.id])
    t.same((await store.records.due(kind, 2_000, 1))[0], early)
  })
}
