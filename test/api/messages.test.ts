/**
 * Chat messages on the wire: flat objects, never constructor envelopes of the library. No token is lost, not even of
 * models that do not await their callbacks (docs/spec/streams.md#events).
 */
import t from 'tap'
import { basicServer, type TestServer } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'
import { type Frame, readStream } from '../helpers/sse.js'

t.setTimeout(180_000)
let cluster: TestServer
t.before(async () => {
  cluster = await basicServer()
})
t.teardown(() => cluster.stop())

interface Message {
  type: string
  content: string | { type: string; text?: string }[]
  id: string
  tool_calls?: unknown[]
}
type Chunk = Message & { tool_call_chunks?: object[]; usage_metadata?: object }
const input = { messages: [{ role: 'user', content: 'hi', id: 'q' }] }
const textOf = ({ content }: Message) =>
  typeof content === 'string' ? content : content.map(block => block.text ?? '').join('')
const dataOf = <T>(frames: Frame[], event: string) =>
  frames.filter(frame => frame.event === event).map(({ data }) => JSON.parse(data) as T)
/** Matches a constructor envelope at any depth. */
const ENVELOPE = /"lc":|"lc_|"kwargs":\{"content"|"langchain_core"/

/** The answer of each model, joined from its tokens. */
function answers(tuples: [Message, object][]): string[] {
  const whole = new Map<string, string>()
  for (const [message] of tuples)
    if (message.type === 'ai') whole.set(message.id, (whole.get(message.id) ?? '') + textOf(message))
  return [...whole.values()]
}

const models: [graph: string, answers: string[], types: string[]][] = [
  // FakeListChatModel, which does not await its callbacks.
  ['model', ['every token must arrive, also the last one.'], ['human', 'ai']],
  ['stream', ['streamed'], ['human', 'ai']],
  // Text with a tool call, a tool, and an answer in content blocks.
  ['talker', ['begin', 'end'], ['human', 'ai', 'tool', 'ai']],
]

for (const stream_resumable of [true, false])
  t.test(`${stream_resumable ? 'stored' : 'live'} streams: every token of 30 runs at once, both kinds`, async t => {
    for (const [assistant_id, expected, types] of models) {
      const readings = await Promise.all(
        Array.from({ length: 30 }, () =>
          readStream(`${cluster.url}/runs/stream`, {
            method: 'POST',
            body: { assistant_id, input, stream_mode: ['messages-tuple', 'messages', 'values'], stream_resumable },
          }),
        ),
      )
      const wrong = readings.filter(({ frames }) => {
        const tokens = answers(dataOf(frames, 'messages'))
        const complete = dataOf<Message[]>(frames, 'messages/complete').flat()
        const whole = complete.filter(({ type }) => type === 'ai').map(textOf)
        return JSON.stringify([tokens, whole]) !== JSON.stringify([expected, expected])
      })
      t.same(
        wrong.map(({ frames }) => frames),
        [],
        `${assistant_id}: tokens and whole messages say the same`,
      )
      for (const { frames } of readings.slice(0, 1)) {
        t.notOk(
          frames.some(({ data }) => ENVELOPE.test(data)),
          'no envelope',
        )
        const partial = dataOf<[Message]>(frames, 'messages/partial').map(([message]) => message)
        t.ok(
          partial.every((message, i) => {
            const before = partial.slice(0, i).findLast(({ id }) => id === message.id)
            return before === undefined || textOf(message).startsWith(textOf(before))
          }),
          'partials grow',
        )
        const { messages } = dataOf<{ messages: Message[] }>(frames, 'values').at(-1)!
        t.same(
          messages.map(({ type }) => type),
          types,
        )
        t.same(messages.filter(({ type }) => type === 'ai').map(textOf), expected, 'as the state has them')
        for (const message of messages) {
          t.type(message.id, 'string')
          t.hasOwnProps(message, ['type', 'content', 'additional_kwargs', 'response_metadata'])
        }
      }
    }
  })

/** The final messages of the graph `shapes`, as a client sees them: [first message, …the others]. */
const SHAPES = [
  {
    type: 'ai',
    id: String,
    content: [
      { type: 'reasoning', reasoning: 'let me see' },
      { type: 'text', text: 'Looking up' },
    ],
    additional_kwargs: { trace: 'abc' },
    response_metadata: { finish_reason: 'tool_calls', model_name: 'scripted' },
    usage_metadata: { input_tokens: 3, output_tokens: 5, total_tokens: 8, input_token_details: { cache_read: 1 } },
    tool_calls: [
      { name: 'lookup', args: { text: 'a' }, id: 'call-a', type: 'tool_call' },
      { name: 'lookup', args: { text: 'b' }, id: 'call-b', type: 'tool_call' },
    ],
    invalid_tool_calls: [],
  },
  {
    type: 'tool',
    id: 'tool-a',
    content: 'found',
    tool_call_id: 'call-a',
    name: 'lookup',
    status: 'success',
    artifact: { rows: [{ id: 1 }], raw: null },
  },
  { type: 'tool', id: 'tool-b', content: 'broken', tool_call_id: 'call-b', name: 'lookup', status: 'error' },
  {
    type: 'ai',
    id: 'shown',
    name: 'painter',
    content: [
      { type: 'text', text: 'Here:' },
      { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
    ],
  },
]

for (const stream_resumable of [true, false])
  t.test(`every kind of message in every mode, ${stream_resumable ? 'stored' : 'live'}, and joined again`, async t => {
    const thread_id = (await lines[0]!.connect(cluster.url).threads.create()).thread_id
    const runs = `${cluster.url}/threads/${thread_id}/runs`
    const stream_mode = ['messages-tuple', 'messages', 'values', 'updates', 'events', 'tasks', 'checkpoints', 'debug']
    const body = { assistant_id: 'shapes', input, stream_mode, stream_resumable, on_disconnect: 'continue' }
    const { frames, headers } = await readStream(`${runs}/stream`, { method: 'POST', body })
    t.notOk(frames.find(({ data }) => ENVELOPE.test(data)))
    t.match(dataOf<{ messages: Message[] }>(frames, 'values').at(-1)!.messages, SHAPES)

    const tuples = dataOf<[Chunk, object]>(frames, 'messages').map(([message]) => message)
    const byId = [...new Set(tuples.map(({ id }) => id))].map(id => tuples.filter(one => one.id === id))
    const [streamed, ...whole] = byId
    t.same(streamed!.map(textOf).join(''), 'Looking up', 'pieces, each once')
    t.same(
      streamed!.flatMap(({ tool_call_chunks }) => tool_call_chunks ?? []),
      [
        { name: 'lookup', args: '{"text":', id: 'call-a', index: 0, type: 'tool_call_chunk' },
        { args: '"a"}', index: 0, type: 'tool_call_chunk' },
        { name: 'lookup', args: '{"text":"b"}', id: 'call-b', index: 1, type: 'tool_call_chunk' },
      ],
    )
    t.match(
      streamed!.find(({ usage_metadata }) => usage_metadata),
      { usage_metadata: SHAPES[0]!.usage_metadata },
    )
    t.match(
      whole.map(one => [one.length, one[0]]),
      SHAPES.slice(1).map(message => [1, message]),
      'whole ones come as one piece',
    )
    t.match(
      dataOf<[Message]>(frames, 'messages/partial').findLast(([{ id }]) => id === streamed![0]!.id)![0],
      SHAPES[0],
    )
    const complete = dataOf<Message[]>(frames, 'messages/complete').flat()
    t.match(
      complete.map(({ id }) => id),
      [streamed![0]!.id, 'tool-a', 'tool-b', 'shown'],
    )
    t.match(complete, SHAPES)
    const updates = dataOf<{ [node: string]: { messages: Message[] } }>(frames, 'updates')
    t.match(updates, [
      { ask: { messages: [SHAPES[0]] } },
      { tools: { messages: SHAPES.slice(1, 3) } },
      { show: { messages: [{ type: 'remove', id: 'q' }, SHAPES[3]] } },
    ])
    const ended = dataOf<{ event: string; data: { output: unknown } }>(frames, 'events')
    t.match(ended.find(({ event }) => event === 'on_chat_model_end')?.data.output, SHAPES[0])

    const run = `${cluster.url}${headers.get('location')}`
    const joined = await readStream(run, { headers: { 'last-event-id': '-1' } })
    t.same(joined.frames, frames, 'a join from the start is the same to the byte')
    const some = await readStream(`${run}?stream_mode=messages-tuple`, { headers: { 'last-event-id': '-1' } })
    t.same(
      some.frames.filter(({ event }) => event === 'messages'),
      frames.filter(({ event }) => event === 'messages'),
    )
    const at = async (path: string) => (await (await fetch(`${cluster.url}${path}`)).json()) as { values: unknown }
    const values = dataOf<unknown>(frames, 'values').at(-1)
    t.same((await at(`/threads/${thread_id}/state`)).values, values)
    t.same((await at(`/threads/${thread_id}`)).values, values)
    t.same(((await at(`/threads/${thread_id}/history`)) as never as { values: unknown }[])[0]!.values, values)
    t.same(await at(`${headers.get('content-location')}/join`), values)
    const threads = await fetch(`${cluster.url}/threads/search`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ids: [thread_id], extract: { last: 'values.messages[-1]' } }),
    })
    t.match(await threads.json(), [{ extracted: { last: SHAPES[3] } }])
  })

t.test('as blocks of protocol v2', async t => {
  const { threads } = lines[0]!.connect(cluster.url)
  const thread = threads.stream({ assistantId: 'shapes' })
  const { messages } = thread
  await thread.run.start({ input })
  const seen: unknown[] = []
  for await (const message of messages) {
    const [text, reasoning, calls] = await Promise.all([message.text, message.reasoning, message.output])
    seen.push({ text, reasoning, calls: (calls as { tool_calls?: unknown }).tool_calls })
  }
  t.match(seen[0], { text: 'Looking up', reasoning: 'let me see' })
  t.match(await thread.output, { messages: SHAPES.map(({ id }) => ({ id })) })
  await thread.close()
})

t.test('every form of a human message', async t => {
  for (const said of [
    { role: 'user', content: 'hi' },
    { role: 'human', content: 'hi' },
    { type: 'human', content: 'hi' },
    { type: 'human', content: [{ type: 'text', text: 'hi' }] },
    ['human', 'hi'],
    ['user', 'hi'],
    'hi',
  ]) {
    const response = await fetch(`${cluster.url}/runs/wait`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ assistant_id: 'stream', input: { messages: [said] } }),
    })
    const [human, ai] = ((await response.json()) as { messages: Message[] }).messages
    t.match(human, { type: 'human', id: String })
    t.equal(textOf(human!), 'hi', JSON.stringify(said))
    t.match(ai, { type: 'ai', content: 'streamed' })
  }
})

for (const { name, connect } of lines)
  t.test(`wherever messages show: ${name}`, async t => {
    const client = connect(cluster.url)
    const { thread_id } = await client.threads.create()
    const values = await client.runs.wait(thread_id, 'talker', { input })
    const state = await client.threads.getState(thread_id)
    const thread = await client.threads.get(thread_id)
    const [run] = await client.runs.list(thread_id)
    t.match((values as { messages: Message[] }).messages, [
      { type: 'human', content: 'hi', id: 'q' },
      { type: 'ai', content: 'begin', tool_calls: [{ name: 'lookup', args: { text: 'x' }, id: 'call-1' }] },
      { type: 'tool', content: 'found x', tool_call_id: 'call-1', name: 'lookup' },
      { type: 'ai' },
    ])
    t.same(state.values, values)
    t.same(thread.values, values)
    t.same(await client.runs.join(thread_id, run!.run_id), values)
    for (const mode of ['updates', 'debug', 'tasks', 'checkpoints', 'events'] as const) {
      const parts = []
      for await (const part of client.runs.stream(thread_id, 'talker', { input, streamMode: mode })) parts.push(part)
      t.ok(parts.length > 2)
      t.notMatch(JSON.stringify(parts), ENVELOPE, mode)
    }
    t.notMatch(JSON.stringify([values, state, thread, run, await client.threads.getHistory(thread_id)]), ENVELOPE)
    // A client may send back what it received.
    const { thread_id: other } = await client.threads.create()
    const back = await client.runs.wait(other, 'model', { input: values as { messages: Message[] } })
    t.same((back as { messages: Message[] }).messages.slice(0, 4), (values as { messages: Message[] }).messages)
  })
