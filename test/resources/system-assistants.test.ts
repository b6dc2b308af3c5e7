import t from 'tap'
import { ensureSystemAssistants } from '../../workers/resources/assistants/system.js'
import { patchAssistant } from '../../workers/resources/assistants/versions.js'
import { systemAssistantId } from '../../workers/resources/rows/assistant.js'
import { stage } from './stage.js'

t.setTimeout(60_000)

t.test('name and description follow the announcement when it changes, and only then', async t => {
  const { all, store } = await stage(t, 1)
  const deps = all[0]!
  const announce = (description: string | null, more: object = {}) =>
    ensureSystemAssistants(store, 'x', [{ graph_id: 'a', description, ...more }])
  const read = async () => (await store.assistants.get('x', systemAssistantId('a')))!
  await announce('First', { config: { tags: ['t'] }, context: { c: 1 } })
  t.match(await read(), { name: 'a', description: 'First', config: '{"tags":["t"]}', context: '{"c":1}', version: 1 })

  await patchAssistant(deps, await read(), { name: 'Mine', description: 'My own', config: { tags: [] } })
  await announce('First', { config: { tags: ['other'] } })
  t.match(
    await read(),
    { name: 'Mine', description: 'My own', config: '{"tags":[]}' },
    'an equal announcement changes nothing',
  )
  await announce('Second', { config: { tags: ['other'] } })
  t.match(await read(), { name: 'a', description: 'Second', config: '{"tags":[]}', version: 2 }, 'the config stays')
  await announce('Second')
  await announce(null)
  t.match(await read(), { name: 'a', description: null })

  await store.apply([{ step: 'assistants.remove', app: 'x', assistant_id: systemAssistantId('a') }])
  await announce(null)
  t.match(await read(), { name: 'a', version: 1 }, 'a removed assistant comes back')
})
