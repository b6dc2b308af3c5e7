/**
 * Chat messages on the wire: flat objects, never the library's constructor envelopes, and no token is lost, also of
 * models that do not await their callbacks (API: threads-and-runs 3, 13).
 */
import t from 'tap'
import { type Cluster, startCluster } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'
import { type Frame, readStream } from '../helpers/sse.js'

t.setTimeout(180_000)
let cluster: Cluster
t.before(async () => {
  cluster = await startCluster({ app: 'test/apps/basic' })
})
t.teardown(() => cluster.stop())

interface Message {
  type: string
  content: string | { type: string; text?: string }[]
  id: string
  tool_calls?: unknown[]
}
const input = { messages: [{ role: 'user', content: 'hi', id: 'q' }] }
const textOf = ({ content }: Message) =>
  typeof content === 'string' ? content : content.map(block => block.text ?? '').join('')
const dataOf = <T>(frames: Frame[], event: string) =>
  frames.filter(frame => frame.event === event).map(({ data }) => JSON.parse(data) as T)
/** What a constructor envelope looks like, in any depth. */
const ENVELOPE = /"lc":|"lc_|"kwargs":\{"content"|"langchain_core"/

/** The answer of each model, put together from its tokens. */
function answers(tuples: [Message, object][]): string[] {
  const whole = new Map<string, string>()
  for (const [message] of tuples)
    if (message.type === 'ai') whole.set(message.id, (whole.get(message.id) ?? '') + textOf(message))
  return [...whole.values()]
}

const models: [graph: string, answers: string[], types: string[]][] = [
  // FakeListChatModel, which tells its callbacks and does not wait for them.
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
    // What a client got is what it may send back.
    const { thread_id: other } = await client.threads.create()
    const back = await client.runs.wait(other, 'model', { input: values as { messages: Message[] } })
    t.same((back as { messages: Message[] }).messages.slice(0, 4), (values as { messages: Message[] }).messages)
  })
