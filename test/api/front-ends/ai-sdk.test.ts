/** The AI SDK: `LangSmithDeploymentTransport` below the state of `useChat`, and `toUIMessageStream` over runs of a thread. */
import { ReadableStream } from 'node:stream/web'
import type { Client } from '@langchain/langgraph-sdk'
import t from 'tap'
import { startCluster } from '../../helpers/cluster.js'
import { lines, load } from '../../helpers/sdk.js'

t.setTimeout(120_000)
const cluster = await startCluster({ app: 'test/apps/fronts' })
t.teardown(() => cluster.stop())

interface Message {
  role: string
  parts: { type: string; [field: string]: unknown }[]
}
type Part = { type: string; [field: string]: unknown }
type Pair = [mode: string, value: unknown]
interface Chat {
  status: string
  error: Error | undefined
  messages: Message[]
  sendMessage(message: { text: string }): Promise<void>
}
const { AbstractChat } = load('ai') as { AbstractChat: new (options: object) => Chat }
const { LangSmithDeploymentTransport, toUIMessageStream } = load('@ai-sdk/langchain') as {
  LangSmithDeploymentTransport: new (options: object) => unknown
  toUIMessageStream(pairs: ReadableStream<Pair>): ReadableStream<Part>
}

/** The state of `useChat`, without a page. */
class ChatState {
  status = 'ready'
  error: Error | undefined = undefined
  messages: Message[] = []
  pushMessage = (message: Message) => void this.messages.push(message)
  popMessage = () => void this.messages.pop()
  replaceMessage = (index: number, message: Message) => void (this.messages[index] = message)
  snapshot = structuredClone
}

const newChat = () =>
  new AbstractChat({ transport: new LangSmithDeploymentTransport({ url: cluster.url }), state: new ChatState() })
const textOf = ({ parts }: Message) => parts.map(({ type, text }) => (type === 'text' ? text : '')).join('')

t.test('a chat: words, the second message of a conversation, and a tool', async t => {
  const chat = newChat()
  await chat.sendMessage({ text: 'one two' })
  t.equal(chat.status, 'ready')
  await chat.sendMessage({ text: 'add 20 22' })
  t.same(chat.messages.map(textOf), ['one two', 'You said: one two', 'add 20 22', 'Done: 42'])
  // The graph names a call by the number of messages that it has got.
  t.match(
    chat.messages.at(-1)!.parts.find(({ type }) => type === 'dynamic-tool'),
    { toolName: 'add', toolCallId: 'call_3', state: 'output-available', output: '42' },
  )
})

t.test('an error of the graph is the error of the chat', async t => {
  const chat = newChat()
  await chat.sendMessage({ text: 'fail oh no' })
  t.equal(chat.status, 'error')
  t.match(chat.error!.message, /oh no/)
})

const client: Client = lines.at(-1)!.connect(cluster.url)
const streamMode = ['values' as const, 'messages-tuple' as const]
type Events = AsyncIterable<{ event: string; data: unknown }>

async function* pairs(events: Events): AsyncGenerator<Pair> {
  for await (const { event, data } of events) if (event === 'values' || event === 'messages') yield [event, data]
}
const partsOf = (events: Events) => toUIMessageStream(ReadableStream.from(pairs(events)))
const ask = (text: string) => ({ input: { messages: [{ role: 'user', content: text }] }, streamMode })

async function all(parts: ReadableStream<Part>): Promise<Part[]> {
  const seen: Part[] = []
  for await (const part of parts) seen.push(part)
  return seen
}
const deltas = (parts: Part[]) => parts.flatMap(({ type, delta }) => (type === 'text-delta' ? [delta] : []))

t.test('a thread: deltas in order, an interrupt as a request for approval, and its answer', async t => {
  const { thread_id } = await client.threads.create()
  const words = await all(partsOf(client.runs.stream(thread_id, 'agent', ask('one two'))))
  t.same(
    words.map(({ type, delta }) => delta ?? type),
    ['start', 'start-step', 'text-start', 'You said:', ' one', ' two', 'text-end', 'finish-step', 'finish'],
  )
  const asked = await all(partsOf(client.runs.stream(thread_id, 'agent', ask('book a table'))))
  t.same(
    asked.flatMap(({ type, inputTextDelta }) => (type === 'tool-input-delta' ? [inputTextDelta] : [])),
    ['{"what":', '"a table"}'],
  )
  t.match(
    asked.findLast(({ type }) => type === 'tool-approval-request'),
    { toolCallId: 'call_3' },
  )
  const command = { resume: { decisions: [{ type: 'approve' }] } }
  const done = await all(partsOf(client.runs.stream(thread_id, 'agent', { command, streamMode })))
  t.match(
    done.find(({ type }) => type === 'tool-output-available'),
    { toolCallId: 'call_3', output: 'booked a table' },
  )
  t.same(deltas(done), ['Done:', ' booked', ' a', ' table'])
})

t.test('a page that was reloaded joins the run and gets every delta once', async t => {
  const { thread_id } = await client.threads.create()
  const created = new Promise<string>(done => {
    const stream = client.runs.stream(thread_id, 'agent', {
      ...ask('one two three'),
      streamResumable: true,
      onDisconnect: 'continue',
      onRunCreated: ({ run_id }) => done(run_id),
    })
    // The first page goes away at the first delta.
    void (async () => {
      for await (const { type } of partsOf(stream)) if (type === 'text-delta') break
    })()
  })
  const events = client.runs.joinStream(thread_id, await created, { lastEventId: '-1', streamMode })
  t.same(deltas(await all(partsOf(events))), ['You said:', ' one', ' two', ' three'])
})
