import t from 'tap'
import type { StreamMode } from '../../../schemas/runs.js'
import { libraryLines } from '../../helpers/lines.js'
import { type Ended, type RunSpec, startHost } from '../host-helper.js'

interface Message {
  id: string
  type: string
  content: string | { text: string }[]
  tool_calls?: unknown[]
  tool_call_chunks?: { name?: string; args: string; index: number; id?: string }[]
  usage_metadata?: unknown
}

type Json = { [key: string]: unknown }
interface Shown extends Json {
  id: string
  name: string
  type: string
  step: number
  timestamp: string
  event: string
  metadata: { step?: number; langgraph_node?: string }
  checkpoint: { checkpoint_id: string } | null
  parent_checkpoint: { checkpoint_id: string } | null
  tasks: Shown[]
  payload: Shown
  data: { chunk: Message }
}
const dataOf = ({ events }: Ended, name: string) =>
  events.filter(({ event }) => event === name).map(({ data }) => data as Shown)
const names = ({ events }: Ended) => events.map(({ event }) => event)
/** Event names without namespaces and repetitions. */
const kinds = (ended: Ended) => [...new Set(names(ended).map(name => name.split('|')[0]))]

for (const line of libraryLines.filter(({ version }) => !version.startsWith('0.'))) {
  t.test(line.name, { timeout: 60_000 }, async t => {
    const app = line.app('basic')
    const host = await startHost(app.path)
    await host.hello
    t.teardown(async () => {
      await host.stop()
      app.remove()
    })
    /** Since 1.7 the library sends tokens of subgraphs only if subgraphs are requested. */
    const withholds = line.version.startsWith('1.7')

    let threads = 0
    const stream = (graph_id: string, stream_mode: StreamMode[], kwargs: RunSpec['kwargs'] = {}, more = {}) =>
      host.run({
        graph_id,
        thread_id: `modes-${++threads}`,
        ...more,
        kwargs: { stream_mode, temporary: false, ...kwargs },
      })

    const question = { messages: [{ type: 'human', content: 'foo', id: 'm0' }] }
    const note = { note: 'x' }

    const text = ({ content }: Message) =>
      typeof content === 'string' ? content : content.map(block => block.text).join('')

    t.test('each mode sends its own events and nothing else', async t => {
      const events: { [mode in StreamMode]: string[] } = {
        values: ['values'],
        updates: ['updates'],
        messages: ['messages/metadata', 'messages/partial', 'messages/complete'],
        'messages-tuple': ['messages'],
        custom: [],
        debug: ['debug'],
        events: ['events'],
        tasks: ['tasks'],
        checkpoints: ['checkpoints'],
        tools: ['tools'],
        lifecycle: [],
      }
      for (const [mode, expected] of Object.entries(events)) {
        const ended = await stream('talker', [mode as StreamMode], { input: question })
        t.match(ended, { status: 'success', error: null })
        t.same(kinds(ended), ['metadata', ...expected], mode)
        t.equal((ended.values as { messages: unknown[] }).messages.length, 4, 'the values are known in any mode')
      }
      t.same(kinds(await stream('talker', [], { input: question })), ['metadata', 'values'], 'no mode is values')
    })

    t.test('messages-tuple: deltas of a model, whole messages of nodes once', async t => {
      const ended = await stream('talker', ['messages-tuple'], { input: question })
      const tuples = dataOf(ended, 'messages') as unknown as [Message, Shown][]
      t.same(
        tuples.map(([message]) => `${message.type} ${text(message)}`),
        ['ai b', 'ai e', 'ai g', 'ai i', 'ai n', 'ai ', 'ai ', 'ai ', 'tool found x', 'ai e', 'ai nd', 'ai '],
        'no input, nothing whole after its tokens, nothing of the model that is tagged nostream',
      )
      const { messages } = ended.values as { messages: Message[] }
      t.same(
        [...new Set(tuples.map(([{ id }]) => id))],
        messages.slice(1).map(({ id }) => id),
        'ids are those of the state',
      )
      const calls = tuples.flatMap(([{ tool_call_chunks }]) => tool_call_chunks ?? [])
      t.same(calls, [
        { index: 0, type: 'tool_call_chunk', name: 'lookup', args: '{"te', id: 'call-1' },
        { index: 0, type: 'tool_call_chunk', args: 'xt":"x"}' },
      ])
      t.match(tuples.at(-1)![0].usage_metadata, { total_tokens: 8 })
      t.match(tuples[0]![1], {
        langgraph_node: 'model',
        langgraph_step: 1,
        langgraph_checkpoint_ns: /^model:/,
        graph_id: 'talker',
        run_attempt: 1,
        tags: [],
      })
      t.notMatch(JSON.stringify(ended.events), /"lc":|lc_kwargs|"__pregel_\w+":/)
    })

    t.test('messages: the text so far, then the whole message after its state', async t => {
      const spec = { graph_id: 'talker', thread_id: 'twice' }
      const kwargs = { input: question, temporary: false, stream_mode: ['messages', 'values'] as StreamMode[] }
      const ended = await host.run({ ...spec, kwargs })
      const partial = dataOf(ended, 'messages/partial') as unknown as [Message][]
      t.same(
        partial.map(([message]) => text(message)),
        ['b', 'be', 'beg', 'begi', 'begin', 'begin', 'begin', 'begin', 'e', 'end', 'end'],
      )
      const complete = dataOf(ended, 'messages/complete').flat() as unknown as Message[]
      t.same(
        complete.map(message => `${message.type} ${text(message)}`),
        ['ai begin', 'tool found x', 'ai end'],
      )
      t.match(complete[0]!.tool_calls, [{ name: 'lookup', args: { text: 'x' }, id: 'call-1' }])
      for (const message of complete.filter(({ type }) => type === 'ai'))
        t.same(message.content, partial.findLast(([{ id }]) => id === message.id)![0].content)
      const metadata = dataOf(ended, 'messages/metadata')
      t.same(
        metadata.map(data => Object.keys(data)),
        complete.filter(({ type }) => type === 'ai').map(({ id }) => [id]),
      )
      t.match(Object.values(metadata[0]!), [{ metadata: { langgraph_node: 'model' } }])
      t.ok(names(ended).indexOf('messages/metadata') < names(ended).indexOf('messages/partial'))
      t.same(names(ended).slice(-2), ['values', 'messages/complete'])

      const again = await host.run({
        ...spec,
        kwargs: { ...kwargs, input: { messages: [{ ...question.messages[0]!, id: 'm9' }] } },
      })
      t.equal(dataOf(again, 'messages/complete').flat().length, 3, 'what the thread held before is not sent again')
    })

    t.test('messages and messages-tuple together, with values and updates', async t => {
      const ended = await stream('talker', ['messages', 'messages-tuple', 'values', 'updates'], { input: question })
      t.equal(dataOf(ended, 'messages').length, 12)
      t.equal(dataOf(ended, 'messages/partial').length, 11)
      t.equal(dataOf(ended, 'messages/complete').flat().length, 3)
      t.equal(dataOf(ended, 'values').length, 4)
      t.same(
        dataOf(ended, 'updates').flatMap(data => Object.keys(data)),
        ['model', 'tools', 'answer'],
      )
    })

    t.test('messages of a subgraph: bare names unless subgraphs are requested', async t => {
      const plain = await stream('outer', ['messages-tuple', 'messages'], { input: question })
      const own = (ended: Ended, name: string) => dataOf(ended, name) as unknown as [Message, Shown][]
      const accumulated = withholds
        ? ['messages/complete']
        : ['messages/metadata', 'messages/partial', 'messages/complete']
      t.same(kinds(plain), ['metadata', 'messages', ...accumulated])
      t.ok(names(plain).every(name => !name.includes('|')))
      t.equal(own(plain, 'messages').length, withholds ? 3 : 12, 'whole messages of the node, or the tokens')
      t.same((dataOf(plain, 'messages/complete').flat() as unknown as Message[]).map(text), [
        'begin',
        'found x',
        'end',
        'noted',
      ])
      const inside = await stream('outer', ['messages-tuple', 'messages'], { input: question, stream_subgraphs: true })
      const named = inside.events.filter(({ event }) => /^messages\|agent:[0-9a-f-]{36}$/.test(event))
      t.equal(named.length, 12)
      t.equal(own(inside, 'messages').length, 0)
      t.same(
        (dataOf(inside, 'messages/complete').flat() as unknown as Message[]).map(text),
        ['begin', 'found x', 'end', 'noted'],
        'once each',
      )
    })

    t.test('subgraphs: names carry the path, the root has the bare name', async t => {
      const modes: StreamMode[] = ['values', 'updates', 'custom', 'tasks', 'debug', 'checkpoints']
      const ended = await stream('deep', modes, { input: note, stream_subgraphs: true })
      const uuid = '[0-9a-f-]{36}'
      for (const mode of modes) {
        const found = new Set(names(ended).filter(name => name.split('|')[0] === mode))
        t.match(
          [...found],
          [mode, new RegExp(`^${mode}\\|sub:${uuid}$`), new RegExp(`^${mode}\\|sub:${uuid}\\|down:${uuid}$`)],
        )
      }
      t.same(
        ended.events.filter(({ event }) => event.startsWith('custom')).map(({ data }) => data),
        [{ at: 'top' }, { at: 'mid' }, { at: 'low' }],
      )
    })

    t.test('without subgraphs no combination of modes sends their events', async t => {
      const all: StreamMode[] = ['values', 'updates', 'custom', 'tasks', 'debug', 'checkpoints']
      for (const modes of [['custom'], ['custom', 'updates'], ['values'], all] as StreamMode[][]) {
        const ended = await stream('deep', modes, { input: note })
        t.ok(names(ended).every(name => !name.includes('|')))
        t.same(dataOf(ended, 'custom'), modes.includes('custom') ? [{ at: 'top' }] : [])
        t.ok(!modes.includes('updates') || dataOf(ended, 'updates').length === 2)
        t.ok(!modes.includes('checkpoints') || dataOf(ended, 'checkpoints').length === 4)
      }
    })

    t.test('debug: its checkpoints match the history, oldest first', async t => {
      for (const durability of ['sync', 'async'] as const) {
        const thread_id = `history-${durability}`
        const kwargs = { input: note, durability, temporary: false, stream_mode: ['debug'] as StreamMode[] }
        const ended = await host.run({ graph_id: 'steps', thread_id, kwargs })
        const seen = dataOf(ended, 'debug').filter(({ type }) => type === 'checkpoint')
        const { json } = await host.call({ verb: 'state', graph_id: 'steps', thread_id, config: {} })
        const history = [json as Shown]
        while (history[0]!.parent_checkpoint !== null) {
          const checkpoint = history[0]!.parent_checkpoint
          history.unshift(
            (await host.call({ verb: 'state', graph_id: 'steps', thread_id, checkpoint, config: {} })).json,
          )
        }
        t.equal(history.length, 5)
        t.same(
          seen.map(({ step, payload: { checkpoint, parent_checkpoint, values, next } }) => [
            step,
            checkpoint,
            parent_checkpoint,
            values,
            next,
          ]),
          history.map(({ metadata: { step }, checkpoint, parent_checkpoint, values, next }) => [
            step,
            checkpoint,
            parent_checkpoint,
            values,
            next,
          ]),
        )
        const { payload } = seen[1]!
        t.match(payload, { config: { configurable: { thread_id } }, parent_config: { configurable: { thread_id } } })
        t.notMatch(JSON.stringify(seen), /"__pregel_\w+":|callbacks/)
        t.match(seen[0]!.timestamp, /^\d{4}-\d\d-\d\dT/)
      }
    })

    t.test('debug, tasks and checkpoints carry the same payloads', async t => {
      const ended = await stream('steps', ['debug', 'tasks', 'checkpoints'], { input: note })
      const debug = dataOf(ended, 'debug')
      const payloads = (types: string[]) =>
        debug.filter(({ type }) => types.includes(type)).map(({ payload }) => payload)
      t.same(payloads(['checkpoint']), dataOf(ended, 'checkpoints'))
      t.same(payloads(['task', 'task_result']), dataOf(ended, 'tasks'))
      t.match(dataOf(ended, 'tasks').slice(0, 2), [
        { name: 'a', input: note, triggers: ['branch:to:a'] },
        { name: 'a', result: { path: ['a'] }, interrupts: [] },
      ])
      t.same(Object.keys(dataOf(ended, 'checkpoints')[0]!), [
        'values',
        'next',
        'metadata',
        'config',
        'parent_config',
        'checkpoint',
        'parent_checkpoint',
        'tasks',
      ])
    })

    t.test('a checkpoint refers to subgraphs by checkpoint, and tasks carry their interrupts', async t => {
      const ended = await stream('nested', ['checkpoints', 'tasks', 'debug'], { input: { numbers: [] } })
      const task = dataOf(ended, 'checkpoints')
        .flatMap(({ tasks }) => tasks)
        .find(({ name }) => name === 'sub')!
      t.match(task, { checkpoint: { checkpoint_ns: `sub:${task.id}`, thread_id: /^modes/, checkpoint_id: null } })
      t.notOk('state' in task)
      const [interrupt] = Object.values(ended.interrupts).flat()
      t.match(dataOf(ended, 'tasks').at(-1), { name: 'sub', interrupts: [interrupt] })
      const hidden = await stream('seen_config', ['debug', 'checkpoints'], {
        input: { ask: 1 },
        config: { configurable: { langgraph_auth_user: { identity: 'secret-name' }, mine: 'visible' } },
      })
      t.notMatch(JSON.stringify(dataOf(hidden, 'checkpoints').map(({ config }) => config)), /secret-name/)
      t.match(dataOf(hidden, 'debug').at(-1), { payload: { config: { configurable: { mine: 'visible' } } } })
    })

    t.test('several writes to one channel become $writes', async t => {
      const ended = await stream('twice', ['tasks'], { input: note })
      t.match(
        dataOf(ended, 'tasks').find(({ name, result }) => name === 'left' && result),
        {
          result: { path: { $writes: [['l1'], ['l2']] } },
        },
      )
      const updates = await stream('twice', ['updates'], { input: note })
      t.ok(
        dataOf(updates, 'updates').some(data => data.right === null),
        'no writes is null',
      )
    })

    t.test('events: callbacks without internals; the other modes stay unchanged beside it', async t => {
      const run_id = '01890000-0000-7000-8000-00000000000a'
      const ended = await stream('talker', ['events'], { input: question }, { run_id })
      const events = dataOf(ended, 'events')
      t.same([...new Set(events.map(({ event }) => event))].sort(), [
        'on_chain_end',
        'on_chain_start',
        'on_chat_model_end',
        'on_chat_model_start',
        'on_chat_model_stream',
        'on_tool_end',
        'on_tool_start',
      ])
      t.match(events[0], { event: 'on_chain_start', run_id, name: 'LangGraph', data: { input: question } })
      t.match(events.at(-1), { event: 'on_chain_end', run_id, data: { output: { messages: [{ id: 'm0' }] } } })
      t.notMatch(JSON.stringify(events), /langsmith:hidden|"__start__"|"lc":/)
      const tokens = events.filter(({ event }) => event === 'on_chat_model_stream')
      t.ok(tokens.every(({ data }) => data.chunk.type === 'ai'))
      t.match(tokens[0]!.metadata, { langgraph_node: 'model' })

      const modes: StreamMode[] = [
        'events',
        'values',
        'updates',
        'custom',
        'messages-tuple',
        'messages',
        'tasks',
        'debug',
      ]
      for (const stream_subgraphs of [false, true]) {
        const alone = await stream('outer', modes.slice(1), { input: question, stream_subgraphs })
        const mixed = await stream('outer', modes, { input: question, stream_subgraphs })
        const plain = (ended: Ended) =>
          names(ended)
            .filter(name => name !== 'events')
            .map(name => name.replace(/:[0-9a-f-]{36}/g, ''))
        t.same(plain(mixed), plain(alone), 'the other modes are as they would be alone, in the same order')
        t.ok(dataOf(mixed, 'events').length > 20)
      }
      const steps = await stream('deep', ['events', 'custom'], { input: note })
      t.same(dataOf(steps, 'custom'), [{ at: 'top' }])
    })

    t.test('events of a run that fails or pauses end like its other modes', async t => {
      const failed = await stream('fail', ['events', 'values'], { input: { message: 'oh no' } })
      t.match(failed, { status: 'error', error: { error: 'TooBadError', message: 'oh no' }, next: ['bad'] })
      t.equal(names(failed).at(-1), 'error')
      const paused = await stream('ask', ['events', 'values'], { input: { question: '?' } })
      t.match(paused, { status: 'success', next: ['node'] })
      t.match(dataOf(paused, 'values').at(-1), { __interrupt__: [{ value: { question: '?' } }] })
    })

    t.test('tools report their start and end', async t => {
      const ended = await stream('talker', ['tools'], { input: question })
      t.match(dataOf(ended, 'tools'), [
        { event: 'on_tool_start', name: 'lookup', input: /"x"/ },
        { event: 'on_tool_end', name: 'lookup', output: 'found x' },
      ])
      t.same(kinds(await stream('outer', ['tools'], { input: question })), ['metadata'], 'not those of subgraphs')
      const inside = await stream('outer', ['tools'], { input: question, stream_subgraphs: true })
      t.match(names(inside), ['metadata', /^tools\|agent:[0-9a-f-]{36}$/, /^tools\|agent/])
    })

    t.test('values and updates report an interrupt in a separate event', async t => {
      const ended = await stream('ask', ['values', 'updates'], { input: { question: '?' } })
      const [interrupt] = Object.values(ended.interrupts).flat()
      t.same(
        ended.events.slice(1).map(({ event, data }) => [event, data]),
        [
          ['values', { question: '?' }],
          ['updates', { __interrupt__: [interrupt] }],
          ['values', { __interrupt__: [interrupt] }],
        ],
      )
    })
  })
}
