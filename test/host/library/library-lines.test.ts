import t from 'tap'
import type { StreamMode } from '../../../schemas/runs.js'
import { libraryLines } from '../../helpers/lines.js'
import { type Ended, startHost } from '../host-helper.js'

interface V2Event {
  method: string
  params: { namespace: string[]; node?: string; data: { [name: string]: unknown } }
}

const input = { messages: [{ type: 'human', content: 'What is 2 + 3?', id: 'm0' }] }
const withoutIds = (text: string) => text.replace(/:[0-9a-f-]{36}/g, '')
const named = (ended: Ended) => ended.events.map(({ event }) => withoutIds(event))
/** Message id and text of each tuple, with predictable ids. */
const tuples = (ended: Ended) => {
  const ids = new Map<string, number>()
  return ended.events
    .filter(({ event }) => event.split('|')[0] === 'messages')
    .map(({ data }) => {
      const [{ id, content, type }] = data as [{ id: string; content: string; type: string }]
      if (!ids.has(id)) ids.set(id, ids.size)
      return `${ids.get(id)} ${type} ${content}`
    })
}

for (const line of libraryLines) {
  t.test(line.name, { timeout: 60_000 }, async t => {
    const app = line.app('lines')
    const host = await startHost(app.path)
    t.teardown(async () => {
      await host.stop()
      app.remove()
    })
    const { graphs } = await host.hello
    const served = graphs.filter(({ error }) => error === null).map(({ graph_id }) => graph_id)
    t.same(served, ['agent', 'outer', ...(line.version.startsWith('0.2') ? [] : ['functional', 'ask', 'review'])])

    const run = (graph_id: string, stream_mode: StreamMode[], stream_subgraphs = false) =>
      host.run({ graph_id, kwargs: { input, stream_mode, stream_subgraphs } })
    const v2 = async (graph_id: string): Promise<V2Event[]> => {
      let text = ''
      const stream_mode: StreamMode[] = [
        'values',
        'updates',
        'messages-tuple',
        'custom',
        'tasks',
        'checkpoints',
        'tools',
      ]
      const { ended } = host.start(
        { graph_id, events: true, kwargs: { input, stream_mode, stream_subgraphs: true } },
        frame => {
          if (frame.flags !== 0) text += Buffer.from(frame.body).toString()
        },
      )
      t.equal((await ended).status, 'success')
      return text
        .split('\n')
        .filter(one => one.startsWith('data: '))
        .map(one => JSON.parse(one.slice(6)) as V2Event)
    }
    const sequenceOf = (events: V2Event[], methods: string[]) =>
      events
        .filter(({ method }) => methods.includes(method))
        .map(({ method, params: { namespace, node, data } }) =>
          [method, withoutIds(namespace.join('|')), node ?? '-', data.event ?? '', data.role ?? ''].join(' ').trim(),
        )
        .filter(text => !text.includes('content-block'))

    t.test('tokens and tools of a graph have bare names and keep their order', async t => {
      const ended = await run('agent', ['messages-tuple', 'tools'])
      const expected = [
        'metadata',
        ...Array(3).fill('messages'),
        ...(line.tools ? ['tools', 'tools'] : []),
        ...Array(4).fill('messages'),
      ]
      t.same(named(ended), expected)
      t.same(tuples(ended), ['0 ai I add.', '0 ai ', '0 ai ', '1 tool 5', '2 ai The sum ', '2 ai is ', '2 ai 5'])
    })

    t.test('tokens and tools of subgraphs carry the namespace of their graph', async t => {
      const ended = await run('outer', ['messages-tuple', 'tools', 'custom', 'updates'], true)
      const names = named(ended)
      t.same(
        names.filter(name => name.startsWith('custom')),
        ['custom', 'custom|sub'],
      )
      // 0.2.20 also repeats the human message when a node returns it.
      t.same(names.filter(name => name.startsWith('messages')).slice(0, 7), Array(7).fill('messages|sub|agent'))
      t.same(
        names.filter(name => name.startsWith('tools')),
        line.tools ? ['tools|sub|agent', 'tools|sub|agent'] : [],
      )
      t.equal(names.filter(name => name === 'messages').length, 1, 'the message of the root')
    })

    t.test('a further mode does not change the messages, and no subgraph chunk is sent', async t => {
      const alone = await run('outer', ['messages-tuple'])
      for (const more of [['custom'], ['tools'], ['custom', 'tools', 'updates']] as StreamMode[][]) {
        const mixed = await run('outer', ['messages-tuple', ...more])
        t.same(tuples(mixed), tuples(alone), `with ${more}`)
        t.same(
          [...new Set(named(mixed))].sort(),
          ['messages', 'metadata', ...more.filter(mode => mode !== 'tools')].sort(),
        )
        const custom = mixed.events.filter(({ event }) => event === 'custom').map(({ data }) => data)
        t.same(custom, more.includes('custom') ? [{ at: 'outer' }] : [])
      }
      t.same(named(await run('outer', ['custom'])), ['metadata', 'custom'])
    })

    t.test('protocol v2: each message finishes before the next one starts', async t => {
      const tools = (ns: string) =>
        line.tools ? [`tools ${ns}tools tool-started`, `tools ${ns}tools tool-finished`] : []
      const model = line.agents ? 'model_request' : 'agent'
      t.same(sequenceOf(await v2('agent'), ['messages', 'tools']), [
        `messages  ${model} message-start ai`,
        `messages  ${model} message-finish`,
        ...tools(' '),
        'messages  tools message-start tool',
        'messages  tools message-finish',
        `messages  ${model} message-start ai`,
        `messages  ${model} message-finish`,
      ])
    })

    t.test('protocol v2: messages and tools of subgraphs carry their namespace', async t => {
      const seen = sequenceOf(await v2('outer'), ['messages', 'tools', 'custom', 'lifecycle'])
      const ns = 'sub|agent '
      const expected = [
        'lifecycle  - running',
        'custom  -',
        'lifecycle sub - started',
        'custom sub -',
        'lifecycle sub|agent - started',
        `messages ${ns}agent message-start ai`,
        `messages ${ns}agent message-finish`,
        ...(line.tools ? [`tools ${ns}tools tool-started`, `tools ${ns}tools tool-finished`] : []),
        `messages ${ns}tools message-start tool`,
        `messages ${ns}tools message-finish`,
        `messages ${ns}agent message-start ai`,
        `messages ${ns}agent message-finish`,
        'lifecycle sub|agent - completed',
        'lifecycle sub - completed',
        'messages  note message-start ai',
        'messages  note message-finish',
        'lifecycle  - completed',
      ]
      t.same(
        seen.filter(text => !/human$/.test(text) && !/^messages sub agent message-finish/.test(text)),
        expected,
      )
    })

    t.test('tasks that call tasks are not subgraphs', { skip: !served.includes('functional') }, async t => {
      const ended = await run('functional', ['messages-tuple', 'tools', 'custom'])
      t.same(named(ended), ['metadata', 'custom', 'messages', 'messages', 'messages', 'tools', 'tools'])
      t.same(sequenceOf(await v2('functional'), ['messages', 'tools', 'lifecycle']), [
        'lifecycle  - running',
        'messages  ask message-start ai',
        'messages  ask message-finish',
        'tools  functional tool-started',
        'tools  functional tool-finished',
        'lifecycle  - completed',
      ])
    })
  })
}
