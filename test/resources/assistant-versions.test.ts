import t from 'tap'
import { BUILT_IN_APP } from '../../schemas/ids.js'
import type { Store } from '../../store/port.js'
import type { Step } from '../../store/steps.js'
import { wholeApp } from '../../workers/resources/access.js'
import { patchAssistant, searchVersions, setLatest } from '../../workers/resources/assistants/versions.js'
import type { Deps } from '../../workers/resources/context.js'
import { newAssistant, versionOf } from '../../workers/resources/rows/assistant.js'
import { stage, stepwise } from './stage.js'

t.setTimeout(60_000)

const APP = 'built-in'
let made = 0

async function create(store: Store) {
  const assistant_id = `00000000-0000-4000-8000-${`${++made}`.padStart(12, '0')}`
  const row = newAssistant({ app: APP, assistant_id, graph_id: 'g', name: 'one', metadata: '{"a":1}' })
  await store.apply([{ step: 'assistants.insert', row }])
  return row
}
const versions = async (deps: Deps, assistant_id: string, metadata?: { a: number }) => {
  const row = (await deps.store.assistants.get(APP, assistant_id))!
  const found = await searchVersions(deps, wholeApp(BUILT_IN_APP), row, metadata === undefined ? {} : { metadata })
  return found.map(({ version, name, created_at }) => ({ version, name, created_at }))
}

t.test('an assistant that was never patched has one version', async t => {
  const { all } = await stage(t, 1)
  const deps = all[0]!
  const row = await create(deps.store)
  const first = [{ version: 1, name: 'one', created_at: row.created_at }]
  t.same(await versions(deps, row.assistant_id), first)
  t.same(await versions(deps, row.assistant_id, { a: 1 }), first)
  t.same(await versions(deps, row.assistant_id, { a: 2 }), [])
  t.match(await setLatest(deps, wholeApp(BUILT_IN_APP), row, 1), { version: 1, created_at: row.created_at })
  await t.rejects(setLatest(deps, wholeApp(BUILT_IN_APP), row, 2), { code: 'not_found' })
  t.match(await patchAssistant(deps, (await deps.store.assistants.get(APP, row.assistant_id))!, { name: 'two' }), {
    version: 2,
  })
  t.match(await versions(deps, row.assistant_id), [
    { version: 2, name: 'two' },
    { version: 1, name: 'one' },
  ])
})

t.test('every crash point of the first patch keeps the first version', async t => {
  const { store, all } = await stage(t, 1, stepwise)
  const [deps] = all as [Deps & { store: ReturnType<typeof stepwise> }]
  for (let at = 0; at < 3; at++) {
    const row = await create(store)
    deps.store.crashBefore(at)
    await t.rejects(patchAssistant(deps, row, { name: 'two' }), { message: 'crashed' })
    t.match(await store.assistants.get(APP, row.assistant_id), { version: 1, name: 'one' })
    const patched = await patchAssistant(deps, row, { name: 'again' })
    const found = await versions(deps, row.assistant_id)
    t.match(found[0], { version: patched.version, name: 'again' })
    t.match(found.at(-1), { version: 1, name: 'one', created_at: row.created_at })
    t.match(await setLatest(deps, wholeApp(BUILT_IN_APP), patched, 1), { version: 1, name: 'one' })
  }
})

t.test('versions of an earlier assistant with the same id do not count', async t => {
  const { store, all } = await stage(t, 1)
  const deps = all[0]!
  const row = await create(store)
  const old = { ...versionOf(row), name: 'old', created_at: row.created_at - 1 }
  await store.apply([1, 2].map((version): Step => ({ step: 'versions.insert', row: { ...old, version } })))
  t.match(await versions(deps, row.assistant_id), [{ version: 1, name: 'one' }])
  await t.rejects(setLatest(deps, wholeApp(BUILT_IN_APP), row, 2), { code: 'not_found' })
  t.match(await patchAssistant(deps, row, { name: 'two' }), { version: 3 })
  t.match(await versions(deps, row.assistant_id), [
    { version: 3, name: 'two' },
    { version: 1, name: 'one' },
  ])
})

t.test('concurrent first patches by two workers store the first version once', async t => {
  const { store, all } = await stage(t, 2, stepwise)
  const row = await create(store)
  const patched = await Promise.all(
    Array.from({ length: 8 }, (_, i) => patchAssistant(all[i % 2]!, row, { metadata: { [`m${i}`]: i } })),
  )
  t.equal(new Set(patched.map(({ version }) => version)).size, 8)
  const found = await versions(all[0]!, row.assistant_id)
  t.match(found.at(-1), { version: 1, name: 'one' })
  t.equal(found.length, 9)
  const last = (await store.assistants.get(APP, row.assistant_id))!
  t.equal(Object.keys(JSON.parse(last.metadata)).length, 9)
})
