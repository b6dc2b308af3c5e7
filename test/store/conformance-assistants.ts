/** The promises of every store about assistants and their versions (store/port.ts AssistantRow). */
import { randomUUID } from 'node:crypto'
import type { Test } from 'tap'
import { keysOf } from '../../schemas/contains.js'
import type { Store } from '../../store/port.js'
import type { AssistantQuery, AssistantRow, AssistantVersionRow } from '../../store/rows/assistants.js'
import type { Step } from '../../store/steps.js'
import { assistant } from './conformance-rows.js'
import { writer } from './conformance-writer.js'

const versionOf = ({ updated_at: _, ...row }: AssistantRow): AssistantVersionRow => row

export function assistantConformance(t: Test, store: Store): void {
  const { done } = writer(store)
  const maker = () => {
    const app = randomUUID()
    const insert = async (set: Partial<AssistantRow> = {}) => {
      const row = assistant({ app, ...set })
      await done({ step: 'versions.insert', row: versionOf(row) }, { step: 'assistants.insert', row })
      return row
    }
    const patch = (row: AssistantRow, updated_at: number, set: Partial<AssistantRow>): Step => ({
      step: 'assistants.patch',
      app,
      assistant_id: row.assistant_id,
      where: { updated_at },
      set,
    })
    const list = (query: Partial<AssistantQuery>) =>
      store.assistants.list({ app, sort: 'created_at', order: 'desc', limit: 100, ...query })
    return { app, insert, patch, list }
  }

  t.test('an assistant comes back as it was; its id is taken within its application only', async t => {
    const [app, other] = [randomUUID(), randomUUID()]
    const row = assistant({ app, description: 'one\u0000two', name: '"quoted"', metadata: '{"a":1}', context: '[]' })
    await done({ step: 'assistants.insert', row })
    t.same(await store.assistants.get(app, row.assistant_id), row)
    t.equal(await store.apply([{ step: 'assistants.insert', row: { ...row, name: 'other' } }]), 0)
    t.equal((await store.assistants.get(app, row.assistant_id))?.name, '"quoted"')
    t.equal(await store.assistants.get(other, row.assistant_id), null)
    await done({ step: 'assistants.insert', row: { ...row, app: other, description: null } })
    t.equal((await store.assistants.get(other, row.assistant_id))?.description, null)
  })

  t.test('an assistant is patched under the time of its last write', async t => {
    const { app, insert, patch } = maker()
    const row = await insert({ description: '"odd" \u0000', name: '%' })
    const set = { name: 'new', description: null, config: '{"$x":1}', metadata: '{"a":"b"}', version: 2, updated_at: 9 }
    t.equal(await store.apply([patch(row, row.updated_at + 1, set)]), 0)
    t.equal(await store.apply([patch(row, row.updated_at, set)]), -1)
    t.same(await store.assistants.get(app, row.assistant_id), { ...row, ...set })
    t.equal(await store.apply([patch({ ...row, assistant_id: randomUUID() }, 9, {})]), 0)
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, (_, i) => store.apply([patch(row, 9, { updated_at: 10 + i })])),
    )
    t.equal(outcomes.filter(failed => failed === -1).length, 1, 'of 20 callers with one time one wins')
  })

  t.test('versions are inserted once, listed newest first, and removed with their assistant', async t => {
    const { app, insert } = maker()
    const row = await insert({ description: '"odd" \u0000' })
    const { assistant_id } = row
    for (const version of [2, 3, 4])
      await store.apply([{ step: 'versions.insert', row: { ...versionOf(row), version, name: `v${version}` } }])
    t.equal(await store.apply([{ step: 'versions.insert', row: { ...versionOf(row), version: 3 } }]), 0)
    t.same(await store.assistants.version(app, assistant_id, 1), versionOf(row))
    t.match(await store.assistants.version(app, assistant_id, 3), { name: 'v3' })
    t.equal(await store.assistants.version(app, assistant_id, 9), null)
    const numbers = async (limit: number, before?: number) =>
      (await store.assistants.versions(app, assistant_id, limit, before)).map(({ version }) => version)
    t.same(await numbers(2), [4, 3])
    t.same(await numbers(9, 3), [2, 1])
    await store.apply([{ step: 'versions.remove', app, assistant_id, version: 2 }])
    t.same(await numbers(9), [4, 3, 1])
    const other = await insert()
    await store.apply([{ step: 'assistants.remove', app, assistant_id }])
    t.same(await numbers(9), [])
    t.equal(await store.assistants.get(app, assistant_id), null)
    t.ok(await store.assistants.get(app, other.assistant_id))
    t.equal(await store.apply([{ step: 'assistants.remove', app, assistant_id }]), -1, 'again')
  })

  t.test('assistants are listed in each order, by graph, and paged without gaps', async t => {
    const { app, insert, list } = maker()
    await maker().insert()
    const rows: AssistantRow[] = []
    for (let i = 0; i < 12; i++)
      rows.push(
        await insert({
          graph_id: ['one', 'two', '"three" \u0000'][i % 3]!,
          name: `n${i % 4}`,
          created_at: 1_000 + (i % 5),
          updated_at: 2_000 - i,
        }),
      )
    t.equal((await list({ graph_id: '"three" \u0000' })).length, 4)
    t.equal(await store.assistants.count({ app }), 12)
    t.equal(await store.assistants.count({ app, graph_id: '"three" \u0000' }), 4)
    t.equal(await store.assistants.count({ app, graph_id: 'nobody' }), 0)
    for (const sort of ['assistant_id', 'graph_id', 'name', 'created_at', 'updated_at'] as const)
      for (const order of ['asc', 'desc'] as const) {
        const paged: AssistantRow[] = []
        for (;;) {
          const after = paged.at(-1)
          const page = await list({ sort, order, limit: 5, ...(after ? { after } : {}) })
          paged.push(...page)
          if (page.length < 5) break
        }
        t.equal(new Set(paged.map(row => row.assistant_id)).size, rows.length, `${sort} ${order}`)
        if (sort === 'graph_id') continue
        const way = order === 'asc' ? 1 : -1
        const sorted = [...rows].sort(
          (a, b) =>
            way * (a[sort] === b[sort] ? (a.assistant_id < b.assistant_id ? -1 : 1) : a[sort] < b[sort] ? -1 : 1),
        )
        t.same(
          paged.map(row => row.assistant_id),
          sorted.map(row => row.assistant_id),
        )
      }
  })

  t.test('assistants are found by the keys of their metadata', async t => {
    const { insert, patch, list, app } = maker()
    const many = Object.fromEntries(Array.from({ length: 70 }, (_, i) => [`m${i}`, i]))
    const [one, two] = [
      await insert({ name: 'one', metadata: '{"team":"x","deep":{"n":[1,2]}}' }),
      await insert({ name: 'two', metadata: '{"team":"x"}' }),
    ]
    await insert({ name: 'all', metadata: JSON.stringify(many) })
    await insert({ name: 'none' })
    const find = async (filter: object, more: Partial<AssistantQuery> = {}) =>
      (await list({ keys: keysOf(filter), sort: 'name', order: 'asc', ...more })).map(({ name }) => name)
    t.same(await find({ team: 'x' }), ['all', 'one', 'two'])
    t.same(await find({ team: 'x', deep: { n: [2] } }), ['all', 'one'])
    t.same(await find({ team: 'x' }, { after: one, limit: 1 }), ['two'])
    t.same(await find({ team: 'x' }, { order: 'desc', limit: 1 }), ['two'])
    t.same(await find({ team: 'y' }), ['all'])
    await store.apply([patch(two, two.updated_at, { metadata: '{"team":"y"}', updated_at: 9 })])
    t.same(await find({ team: 'y' }), ['all', 'two'])
    await store.apply([patch(two, 9, { name: 'zwei', updated_at: 10 })])
    t.same(await find({ team: 'y' }), ['all', 'zwei'], 'a patch without metadata keeps the keys')
    await store.apply([{ step: 'assistants.remove', app, assistant_id: two.assistant_id }])
    t.same(await find({ team: 'y' }), ['all'])
  })
}
