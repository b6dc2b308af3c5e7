/** AG-UI: `LangGraphAgent` of `@ag-ui/langgraph`, which front ends such as CopilotKit use, with `@ag-ui/client`. */
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { startCluster } from '../../helpers/cluster.js'
import { load } from '../../helpers/sdk.js'

t.setTimeout(120_000)
const cluster = await startCluster({ app: 'test/apps/fronts' })
t.teardown(() => cluster.stop())

interface Message {
  id: string
  role: string
  content: string
  toolCalls?: { function: { name: string; arguments: string } }[]
}
interface Event {
  type: string
  [field: string]: unknown
}
interface Agent {
  threadId: string
  messages: Message[]
  pendingInterrupts: { id: string; metadata: { langgraph: { raw: unknown } } }[]
  addMessage(message: Message): void
  setMessages(messages: Message[]): void
  runAgent(parameters: object, subscriber: object): Promise<unknown>
}
const { LangGraphAgent } = load('@ag-ui/langgraph') as { LangGraphAgent: new (options: object) => Agent }

const newAgent = (more: object = {}) =>
  new LangGraphAgent({ deploymentUrl: cluster.url, graphId: 'agent', emitInterruptOutcome: true, ...more })

/** An event as a person sees it; snapshots and the raw events of the server are left out. */
function shown({ type, stepName, delta, toolCallName, content, message }: Event): string[] {
  if (type === 'RAW' || type.endsWith('_SNAPSHOT')) return []
  const text = [stepName, delta, toolCallName, content, message].find(value => value !== undefined)
  return [text === undefined ? type : `${type}: ${text}`]
}

/** `messages`: those of the thread, as the server knows them at the end; an agent orders its own in another way. */
async function run(agent: Agent, parameters: object = {}): Promise<{ events: string[]; messages: Message[] }> {
  const seen: Event[] = []
  await agent.runAgent(parameters, { onEvent: ({ event }: { event: Event }) => void seen.push(event) })
  const { messages } = seen.findLast(({ type }) => type === 'MESSAGES_SNAPSHOT') as unknown as { messages: Message[] }
  return { events: seen.flatMap(shown), messages }
}

const user = (content: string): Message => ({ id: randomUUID(), role: 'user', content })
function say(agent: Agent, content: string) {
  agent.addMessage(user(content))
  return run(agent)
}
const contents = (messages: Message[]) => messages.map(({ content }) => content)
const words = (...deltas: string[]) => [
  'TEXT_MESSAGE_START',
  ...deltas.map(delta => `TEXT_MESSAGE_CONTENT: ${delta}`),
  'TEXT_MESSAGE_END',
]
const step = (name: string, ...inside: string[]) => [`STEP_STARTED: ${name}`, ...inside, `STEP_FINISHED: ${name}`]
const call = (name: string, ...parts: string[]) => [
  `TOOL_CALL_START: ${name}`,
  ...parts.map(part => `TOOL_CALL_ARGS: ${part}`),
  'TOOL_CALL_END',
]
const whole = (...inside: string[]) => ['RUN_STARTED', ...inside, 'RUN_FINISHED']

t.test('words arrive in order, in the first and in the second run of a thread', async t => {
  const agent = newAgent()
  const first = await say(agent, 'one two')
  t.same(first.events, whole(...step('model', ...words('You said:', ' one', ' two'))))
  const second = await say(agent, 'three')
  t.same(second.events, whole(...step('model', ...words('You said:', ' three'))))
  t.same(contents(second.messages), ['one two', 'You said: one two', 'three', 'You said: three'])
})

t.test('a tool is called, its result arrives, and the model goes on', async t => {
  const { events, messages } = await say(newAgent(), 'add 20 22')
  t.same(
    events,
    whole(
      ...step('model', ...call('add', '{"a":20,', '"b":22}')),
      ...step('tools', 'TOOL_CALL_RESULT: 42'),
      ...step('model', ...words('Done:', ' 42')),
    ),
  )
  t.match(messages, [
    { role: 'user', content: 'add 20 22' },
    { role: 'assistant', toolCalls: [{ function: { name: 'add', arguments: '{"a":20,"b":22}' } }] },
    { role: 'tool', content: '42' },
    { role: 'assistant', content: 'Done: 42' },
  ])
})

t.test('an interrupt ends the run, and its answer continues it', async t => {
  for (const [form, decision, result] of [
    ['resume', 'approve', 'booked a table'],
    ['command', 'reject', 'did not book a table'],
  ] as const) {
    const agent = newAgent()
    const asked = await say(agent, 'book a table')
    t.same(asked.events.slice(-2), ['CUSTOM', 'RUN_FINISHED'], 'in both forms of the protocol')
    const [interrupt] = agent.pendingInterrupts
    t.match(interrupt!.metadata.langgraph.raw, { actionRequests: [{ name: 'book', args: { what: 'a table' } }] })
    const answer = { decisions: [{ type: decision }] }
    const { events } = await run(
      agent,
      form === 'resume'
        ? { resume: [{ interruptId: interrupt!.id, status: 'resolved', payload: answer }] }
        : { forwardedProps: { command: { resume: answer } } },
    )
    t.same(
      events,
      whole(
        ...step('tools', ...call('book', '{"what":"a table"}'), `TOOL_CALL_RESULT: ${result}`),
        ...step('model', ...words('Done:', ...result.split(' ').map(word => ` ${word}`))),
      ),
      `as ${form}`,
    )
  }
})

t.test('an error of the graph is shown, and the thread can be used again', async t => {
  const agent = newAgent()
  const seen: Event[] = []
  agent.addMessage(user('fail oh no'))
  // This version ends the step of the graph after the error, which its own client refuses.
  await t.rejects(
    agent.runAgent({}, { onEvent: ({ event }: { event: Event }) => void seen.push(event) }),
    /already errored/,
  )
  t.same(seen.flatMap(shown), ['RUN_STARTED', 'STEP_STARTED: model', 'RUN_ERROR: oh no'])
  const { events, messages } = await say(newAgent({ threadId: agent.threadId }), 'again')
  t.same(events, whole(...step('model', ...words('You said:', ' again'))))
  t.same(contents(messages), ['fail oh no', 'again', 'You said: again'])
})

t.test('a page that was reloaded continues its thread', async t => {
  const before = newAgent()
  await say(before, 'one')
  const { messages } = await say(newAgent({ threadId: before.threadId }), 'two')
  t.same(contents(messages), ['one', 'You said: one', 'two', 'You said: two'])
})

t.test('a message that is edited forks the thread there', async t => {
  const agent = newAgent()
  await say(agent, 'one')
  await say(agent, 'two')
  const [first, answer, second] = agent.messages
  // The client recognises an edit by an id that the thread does not have.
  agent.setMessages([first!, { ...answer!, id: randomUUID() }, { ...second!, content: 'three' }])
  const { events, messages } = await run(agent)
  t.same(events, whole(...step('model', ...words('You said:', ' three'))))
  t.same(contents(messages), ['one', 'You said: one', 'three', 'You said: three'])
})
