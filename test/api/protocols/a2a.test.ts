/**
 * A2A (docs/spec/protocols.md#a2a) by both lines of the official JavaScript client, and by plain requests: an
 * application with an `auth` that graph workers serve under a name, and the built-in one behind a key.
 */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { root } from '../../../cli/root.js'
import { startRoles } from '../../helpers/cluster.js'
import { sender } from '../../helpers/http.js'
import { load } from '../../helpers/sdk.js'
import { until } from '../../helpers/until.js'

t.setTimeout(180_000)
const roles = await startRoles({ app: 'test/apps/basic', env: { WEFT_REQUIRE_KEYS: '1' } })
t.teardown(() => roles.stop())
const graphs = await roles.add('graphs', ['--app', 'test/apps/a2a', '--app-id', 'guarded'])
const url = `${roles.urls[0]}/deployments/guarded`
const send = sender(url)
const as = (user: string) => ({ authorization: `Bearer ${user}` })
const made = async (graph_id: string, more: object = {}, user = 'alice') => {
  const { body } = await send('POST', '/assistants', { graph_id, name: graph_id, ...more }, as(user))
  return (body as { assistant_id: string }).assistant_id
}
const talk = await made('talk', { description: 'Answers in a few words' })

// biome-ignore lint/suspicious/noExplicitAny: results of tests, and clients of two versions of which the compiler knows none
type Loose = any
type Rpc = { id: unknown; result?: Loose; error?: { code: number; message: string } }
const rpc = async (agent: string, method: string, params: unknown, headers: object = as('alice')) =>
  (await send('POST', `/a2a/${agent}`, { jsonrpc: '2.0', id: 'r', method, params }, { ...headers })).body as Rpc
const said = (text: string, more: object = {}) => ({
  message: { role: 'user', messageId: `m-${text}`, parts: [{ kind: 'text', text }], ...more },
})
const data = (value: unknown, more: object = {}) => ({
  message: { role: 'ROLE_USER', messageId: 'd', parts: [{ data: value }], ...more },
})

/** A task or an event, as both versions have it. */
interface Seen {
  id: string
  contextId: string
  state: string | null
  text: string
  kind: 'task' | 'status' | 'artifact'
}

interface Asked {
  text: string
  contextId?: string
  taskId?: string
}

/** One line of the client. */
interface Line {
  name: string
  send(asked: Asked): Promise<Seen>
  stream(asked: Asked): AsyncGenerator<Seen>
  get(id: string): Promise<Seen>
  cancel(id: string): Promise<Seen>
  resubscribe(id: string): AsyncGenerator<Seen>
}

const textOf = (parts: Loose[] = []): string =>
  parts.map(part => part.text ?? part.content?.value ?? JSON.stringify(part.data)).join(' ')

async function* mapped<From, To>(all: AsyncIterable<From>, map: (one: From) => To): AsyncGenerator<To> {
  for await (const one of all) yield map(one)
}

async function connect(alias: string, base: string, headers: { [name: string]: string }): Promise<Loose> {
  const { ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory } = load(`${alias}/client`) as Loose
  const fetchImpl = (input: string, init: RequestInit = {}) =>
    fetch(input, { ...init, headers: { ...(init.headers as object), ...headers } })
  const factory = new ClientFactory({
    transports: [new JsonRpcTransportFactory({ fetchImpl })],
    cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
  })
  return factory.createFromUrl(`${base}/`)
}

async function line0(base: string, headers: { [name: string]: string } = as('alice')): Promise<Line> {
  const client = await connect('a2a0', base, headers)
  const seen = (one: Loose): Seen => ({
    id: one.taskId ?? one.id,
    contextId: one.contextId,
    state: one.status?.state ?? null,
    text: textOf(one.artifact?.parts ?? one.artifacts?.[0]?.parts ?? one.status?.message?.parts),
    kind: one.kind.replace('-update', ''),
  })
  const message = ({ text, ...more }: Asked) => said(text, { kind: 'message', ...more })
  return {
    name: '0.3',
    send: async asked => seen(await client.sendMessage(message(asked))),
    stream: asked => mapped(client.sendMessageStream(message(asked)), seen),
    get: async id => seen(await client.getTask({ id })),
    cancel: async id => seen(await client.cancelTask({ id })),
    resubscribe: id => mapped(client.resubscribeTask({ id }), seen),
  }
}

async function line1(base: string, headers: { [name: string]: string } = as('alice')): Promise<Line> {
  const client = await connect('a2a1', base, headers)
  const { taskStateToJSON } = load('a2a1') as Loose
  const seen = (one: Loose): Seen => {
    const { $case, value = one } = one.payload ?? {}
    const state = value.status === undefined ? null : taskStateToJSON(value.status.state)
    return {
      id: value.taskId || value.id,
      contextId: value.contextId,
      state: state?.replace('TASK_STATE_', '').toLowerCase().replace('_', '-') ?? null,
      text: textOf(value.artifact?.parts ?? value.artifacts?.[0]?.parts ?? value.status?.message?.parts),
      kind: $case === 'statusUpdate' ? 'status' : $case === 'artifactUpdate' ? 'artifact' : 'task',
    }
  }
  const part = (value: string) => ({ content: { $case: 'text', value }, filename: '', mediaType: '' })
  const message = ({ text, contextId = '', taskId = '' }: Asked) => ({
    tenant: '',
    message: {
      messageId: `m-${text}`,
      role: 1,
      parts: [part(text)],
      contextId,
      taskId,
      extensions: [],
      referenceTaskIds: [],
    },
  })
  const tenant = ''
  return {
    name: '1.0',
    send: async asked => seen(await client.sendMessage(message(asked))),
    stream: asked => mapped(client.sendMessageStream(message(asked)), seen),
    get: async id => seen(await client.getTask({ tenant, id })),
    cancel: async id => seen(await client.cancelTask({ tenant, id })),
    resubscribe: id => mapped(client.resubscribeTask({ tenant, id }), seen),
  }
}

const agentUrl = `${url}/a2a/${talk}`
const lines = [await line0(agentUrl), await line1(agentUrl)]

for (const line of lines) {
  await t.test(`the client of version ${line.name}: send, get, stream`, async t => {
    const task = await line.send({ text: 'hello' })
    t.match(task, { kind: 'task', state: 'completed', text: 'You said hello' })
    t.same(await line.get(task.id), task)
    const next = await line.send({ text: 'again', contextId: task.contextId })
    t.match(next, { contextId: task.contextId, text: 'You said again' })
    t.not(next.id, task.id)
    t.same(await line.get(task.id), task, 'the earlier task of the context keeps its output')

    const events: Seen[] = []
    for await (const event of line.stream({ text: 'hi' })) events.push(event)
    t.equal(events[0]!.kind, 'task')
    t.same(
      events.slice(-2).map(({ kind, state, text }) => [kind, state, text]),
      [
        ['artifact', null, 'You said hi'],
        ['status', 'completed', ''],
      ],
    )
    const spoken = events.filter(({ kind, state }) => kind === 'status' && state === 'working').map(({ text }) => text)
    t.equal(spoken.join(''), 'You said hi', 'as the model says it')
    t.equal(new Set(events.map(({ id }) => id)).size, 1)
  })

  await t.test(`the client of version ${line.name}: an interrupt`, async t => {
    const asking = await line.send({ text: 'ask me' })
    t.match(asking, { state: 'input-required', text: 'Your name?' })
    await t.rejects(line.send({ text: 'Ann', taskId: asking.id, contextId: '0198aaaa-0000-7000-8000-000000000001' }))
    const answered = await line.send({ text: 'Ann', taskId: asking.id, contextId: asking.contextId })
    t.match(answered, { id: asking.id, contextId: asking.contextId, state: 'completed', text: 'You said Ann: ask me' })
    t.same(await line.get(asking.id), answered, 'one task')
    await t.rejects(line.send({ text: 'Bob', taskId: asking.id }), /waits for no input: it is completed|not supported/)

    const events: Seen[] = []
    for await (const event of line.stream({ text: 'ask more' })) events.push(event)
    const last = events.at(-1)!
    t.match(last, { kind: 'status', state: 'input-required', text: 'Your name?' })
    const resumed: Seen[] = []
    for await (const event of line.stream({ text: 'Eve', taskId: last.id })) resumed.push(event)
    t.match(resumed.at(-2), { kind: 'artifact', id: last.id, text: 'You said Eve: ask more' })

    const waiting = await line.send({ text: 'ask no more' })
    t.match(await line.cancel(waiting.id), { id: waiting.id, state: 'canceled', text: '' })
    t.match(await line.get(waiting.id), { state: 'canceled' })
    await t.rejects(line.cancel(waiting.id), /cannot be canceled/)
    await t.rejects(line.send({ text: 'Ann', taskId: waiting.id }), /waits for no input: it is canceled|not supported/)
    const next = await line.send({ text: 'new', contextId: waiting.contextId })
    t.match(next, { state: 'completed', text: 'You said new' }, 'the context goes on')
  })

  await t.test(`the client of version ${line.name}: cancel`, async t => {
    const events = line.stream({ text: 'wait 60000' })
    const { id } = (await events.next()).value as Seen
    await until(async () => (await line.get(id)).state === 'working')
    t.match(await line.cancel(id), { id, state: 'canceled' })
    const rest: Seen[] = []
    for await (const event of events) rest.push(event)
    t.match(rest.at(-1), { kind: 'status', state: 'canceled' })
    await t.rejects(line.cancel(id), /cannot be canceled/)
    await t.rejects(line.get('0198aaaa-0000-7000-8000-000000000001'), /not found/)
  })

  await t.test(`the client of version ${line.name}: a lost connection`, async t => {
    const events = line.stream({ text: 'wait 1500' })
    const { id } = (await events.next()).value as Seen
    await until(async () => ((await events.next()).value as Seen).text !== '')
    await events.return(undefined)
    const again: Seen[] = []
    for await (const event of line.resubscribe(id)) again.push(event)
    const spoken = again.filter(({ kind, state }) => kind === 'status' && state === 'working').map(({ text }) => text)
    t.equal(again[0]!.kind, 'task')
    t.equal(spoken.join(''), 'You said wait 1500', 'nothing is lost')
    t.match(again.at(-1), { kind: 'status', state: 'completed' })
  })
}

t.test('a stream goes on behind an event, also after the end', async t => {
  const open = (params: object, method: string, headers: object) =>
    fetch(`${url}/a2a/${talk}`, {
      method: 'POST',
      headers: { ...as('alice'), 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    }).then(answer => answer.text())
  const whole = await open(said('hi'), 'message/stream', {})
  const idsIn = (text: string) => [...text.matchAll(/^id: (.+)$/gm)].map(([, id]) => id!)
  const ids = idsIn(whole)
  const { result } = JSON.parse(/^data: (.*)$/m.exec(whole)![1]!)
  const rest = await open({ id: result.id }, 'tasks/resubscribe', { 'last-event-id': ids[3] })
  t.same(idsIn(rest), ids.slice(4))
  t.match(rest, /"artifact-update".*You said hi[\s\S]*"final":true/)
  t.match(JSON.parse(await open({ id: result.id }, 'SubscribeToTask', {})), { error: { code: -32004 } })
  const ended = await open({ id: result.id }, 'tasks/resubscribe', {})
  t.match(ended, /"kind":"task"[\s\S]*"artifact-update"[\s\S]*"final":true/)
  t.match(JSON.parse(await open({ id: result.id }, 'tasks/resubscribe', { 'last-event-id': '3' })), {
    error: { code: -32602, message: /Last-Event-ID/ },
  })

  const asked = await open(said('ask s'), 'message/stream', {})
  const { result: asking } = JSON.parse(/^data: (.*)$/m.exec(asked)![1]!)
  const answered = await open(said('Ann', { taskId: asking.id }), 'message/stream', {})
  const behind = await open({ id: asking.id }, 'tasks/resubscribe', { 'last-event-id': idsIn(asked).at(-1) })
  t.same(idsIn(behind), idsIn(answered), 'the run that resumed the task has events of its own')
})

t.test('cards', async t => {
  const read = (path: string, headers: object = {}) => send('GET', path, undefined, { ...as('alice'), ...headers })
  const { body } = await read(`/a2a/${talk}/.well-known/agent-card.json`)
  t.match(body, {
    protocolVersion: '0.3.0',
    name: 'talk',
    description: 'Answers in a few words',
    url: agentUrl,
    preferredTransport: 'JSONRPC',
    supportedInterfaces: [{ url: agentUrl, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
    capabilities: { streaming: true, pushNotifications: false, stateTransitionHistory: false },
    defaultInputModes: ['application/json', 'text/plain'],
    skills: [{ id: `${talk}-main`, metadata: { inputSchema: { supportsA2A: true } } }],
    version: '1',
  })
  t.same((await read(`/.well-known/agent-card.json?assistant_id=${talk}`)).body, body)
  t.match(await rpc(talk, 'agent/getAuthenticatedExtendedCard', undefined), { result: body as object })
  t.same((await rpc(talk, 'GetExtendedAgentCard', {})).result, body)
  const proxied = await read(`/a2a/${talk}/.well-known/agent-card.json`, {
    'x-forwarded-proto': 'https',
    'x-forwarded-host': 'agents.example.com',
  })
  t.match(proxied.body, { url: `https://agents.example.com/deployments/guarded/a2a/${talk}` })
  const { port } = await roles.add('edge', ['--port', '0'], { WEFT_PUBLIC_URL: 'https://weft.example/base' })
  const named = await fetch(`http://127.0.0.1:${port}/deployments/guarded/a2a/${talk}/.well-known/agent-card.json`, {
    headers: { ...as('alice'), 'x-forwarded-host': 'agents.example.com' },
  })
  t.match(await named.json(), { url: `https://weft.example/base/deployments/guarded/a2a/${talk}` })
  t.match(await read('/.well-known/agent-card.json'), { status: 422, body: { detail: /assistant_id/ } })
  t.equal((await send('GET', `/a2a/${talk}/.well-known/agent-card.json`, undefined, as('bob'))).status, 404)
  const metadata = { a2a: { input_modes: ['image/png'], output_modes: ['text/plain'] } }
  const own = await made('echo', { metadata })
  t.match(await read(`/a2a/${own}/.well-known/agent-card.json`), {
    body: {
      description: 'echo assistant',
      defaultInputModes: ['image/png'],
      defaultOutputModes: ['text/plain'],
      skills: [{ metadata: { inputSchema: { supportsA2A: false } } }],
    },
  })
})

t.test('inputs and outputs of graphs', async t => {
  const echo = await made('echo')
  t.match(await rpc(echo, 'SendMessage', data({ text: 'x' })), {
    result: { task: { status: { state: 'TASK_STATE_COMPLETED' }, artifacts: [{ parts: [{ data: { seen: 'x' } }] }] } },
  })
  t.match(await rpc(echo, 'message/send', data({ text: 'x' })), {
    result: {
      kind: 'task',
      artifacts: [{ name: 'Assistant Response', parts: [{ kind: 'data', data: { seen: 'x' } }] }],
    },
  })
  t.match(await rpc(echo, 'message/send', said('x')), { error: { code: -32005, message: /data parts only/ } })
  const file = { kind: 'file', file: { bytes: 'aGk=', mimeType: 'image/png', name: 'x.png' } }
  const { result } = await rpc(talk, 'message/send', {
    message: { role: 'user', messageId: 'f', parts: [{ kind: 'text', text: 'see' }, file] },
  })
  t.match(result.history[0].parts, [{ text: 'see' }, { kind: 'file', file: { bytes: 'aGk=', mimeType: 'image/png' } }])
  const raw = { raw: 'aGk=', mediaType: 'text/csv', filename: 'x.csv' }
  const spoken = await rpc(talk, 'SendMessage', { message: { role: 'ROLE_USER', messageId: 'f', parts: [raw] } })
  t.match(spoken.result.task.history[0].parts, [{ raw: 'aGk=', mediaType: 'text/csv' }])

  const broken = await made('fail')
  t.match(await rpc(broken, 'message/send', data({ message: 'oh' })), {
    result: { status: { state: 'failed', message: { parts: [{ text: 'TooBadError: oh' }] } } },
  })
  const seen = await made('seen_config')
  const { result: configured } = await rpc(seen, 'message/send', { ...data({ ask: 1 }), context: { colour: 'blue' } })
  t.match(configured.artifacts[0].parts[0].data.seen_config, { context: { colour: 'blue' } })
})

t.test('parallel interrupts, and a command', async t => {
  const asks = await made('asks')
  const { result } = await rpc(asks, 'message/send', data({ names: ['a', 'b'] }))
  t.equal(result.status.state, 'input-required')
  const of = { taskId: result.id, contextId: result.contextId }
  type Question = { text: string; metadata: { interrupt_id: string } }
  const questions = (result.status.message.parts as Question[]).sort((a, b) => (a.text < b.text ? -1 : 1))
  const [first, second] = questions.map(({ text, metadata }) => ({ [metadata.interrupt_id]: text.toUpperCase() }))
  for (const wrong of ['x', { resume: 'x' }, { resume: {} }, { resume: { none: 'x' } }])
    t.match(await rpc(asks, 'message/send', typeof wrong === 'string' ? said(wrong, of) : data(wrong, of)), {
      error: { code: -32602, message: new RegExp(`2 answers.*${questions[0]!.metadata.interrupt_id}`) },
    })
  const { result: half } = await rpc(asks, 'SendMessage', data({ resume: first }, of))
  t.match(half.task.status, { state: 'TASK_STATE_INPUT_REQUIRED', message: { parts: [{ text: 'b?' }] } })
  t.equal(half.task.status.message.parts.length, 1)
  const { result: answered } = await rpc(asks, 'message/send', data({ resume: second }, of))
  t.match(answered, { id: result.id, status: { state: 'completed' } })
  t.same([...answered.artifacts[0].parts[0].data.answers].sort(), ['A?', 'B?'])

  const asking = (await rpc(talk, 'message/send', said('ask y'))).result
  const mixed = { ...of, taskId: asking.id, contextId: asking.contextId, role: 'user', messageId: 'x' }
  for (const parts of [
    [{ text: 'a' }, { data: { b: 1 } }],
    [{ data: { b: 1 } }, { data: 2 }],
  ])
    t.match(await rpc(talk, 'message/send', { message: { ...mixed, parts } }), { error: { code: -32602 } })
  const command = { ...said('ignored', { taskId: asking.id }), command: { resume: 'Kim' } }
  t.match((await rpc(talk, 'message/send', command)).result, {
    id: asking.id,
    artifacts: [{ parts: [{ text: 'You said Kim: ask y' }] }],
  })
})

t.test('answers at the same time: one counts', async t => {
  for (let i = 0; i < 3; i++) {
    const { result: asking } = await rpc(talk, 'message/send', said('ask all'))
    const answers = await Promise.all(
      ['A', 'B', 'C', 'D', 'E', 'F'].map(name => rpc(talk, 'message/send', said(name, { taskId: asking.id }))),
    )
    const taken = answers.filter(({ error }) => error === undefined)
    t.equal(taken.length, 1, JSON.stringify(answers.map(({ error }) => error)))
    const { result } = await rpc(talk, 'tasks/get', { id: asking.id })
    t.match(result, { status: { state: 'completed' }, artifacts: taken[0]!.result.artifacts })
  }
})

t.test('an interrupt that nobody answered, when the context went on', async t => {
  const { result: asking } = await rpc(talk, 'message/send', said('ask z'))
  await rpc(talk, 'message/send', said('never mind', { contextId: asking.contextId }))
  t.match((await rpc(talk, 'tasks/get', { id: asking.id })).result, { status: { state: 'canceled' } })
  t.match(await rpc(talk, 'message/send', said('Ann', { taskId: asking.id })), { error: { code: -32004 } })
})

t.test('history', async t => {
  const { result: first } = await rpc(talk, 'message/send', said('one'))
  const { result } = await rpc(talk, 'message/send', said('two', { contextId: first.contextId }))
  const texts = ({ history }: { history?: Loose[] }) => history?.map(({ parts }) => parts[0].text)
  t.same(texts(result), ['one', 'You said one', 'two', 'You said two'])
  const of = async (id: string, more: object, headers: object = {}) =>
    texts((await rpc(talk, 'tasks/get', { id, ...more }, { ...as('alice'), ...headers })).result)
  t.same(await of(result.id, { historyLength: 1 }), ['You said two'])
  t.same(await of(result.id, { historyLength: 0 }), undefined)
  t.same(await of(result.id, { historyScope: 'task' }), ['two', 'You said two'])
  t.same(await of(result.id, {}, { 'LangGraph-A2A-History-Scope': 'task' }), ['two', 'You said two'])
  t.same(await of(first.id, {}), ['one', 'You said one'])
  t.match(await rpc(talk, 'tasks/get', { id: first.id, historyLength: 11 }), { error: { code: -32602 } })
  t.match(await rpc(talk, 'message/stream', { ...said('x'), configuration: { historyScope: 'task' } }), {
    error: { code: -32602 },
  })
})

t.test('a list of tasks', async t => {
  const agent = await made('echo', { name: 'listed' })
  const contexts: string[] = []
  for (let i = 0; i < 3; i++)
    contexts.push((await rpc(agent, 'SendMessage', data({ text: `${i}` }))).result.task.contextId)
  await rpc(agent, 'SendMessage', data({ text: 'more' }, { contextId: contexts[0]! }))
  const list = async (params: object) => (await rpc(agent, 'ListTasks', params)).result
  const all = await list({ includeArtifacts: true })
  t.match(all, { nextPageToken: '', pageSize: 50, totalSize: 4 })
  t.same(
    all.tasks.map(({ artifacts }: Loose) => artifacts[0].parts[0].data.seen),
    ['more', '0', '2', '1'],
    'those that changed last come first',
  )
  const pages: Loose[] = []
  let pageToken = ''
  do {
    const page = await list({ pageSize: 1, pageToken })
    pages.push(...page.tasks)
    pageToken = page.nextPageToken
  } while (pageToken !== '')
  t.same(
    pages.map(({ id }) => id),
    all.tasks.map(({ id }: Loose) => id),
  )
  t.equal((await list({ contextId: contexts[0] })).tasks.length, 2)
  t.same((await list({ contextId: '0198aaaa-0000-7000-8000-000000000001' })).tasks, [])
  t.equal((await list({ status: 'TASK_STATE_COMPLETED' })).tasks.length, 4)
  t.equal((await list({ status: 'TASK_STATE_FAILED' })).tasks.length, 0)
  t.equal((await list({ statusTimestampAfter: all.tasks[0].status.timestamp })).tasks.length, 1)
  t.match(await rpc(agent, 'ListTasks', { status: 'done' }), { error: { code: -32602, message: /status/ } })
  t.match(await rpc(agent, 'ListTasks', { pageToken: 'x' }), { error: { code: -32602, message: /pageToken/ } })
  t.match(await rpc(agent, 'ListTasks', { pageSize: 101 }), { error: { code: -32602 } })
  const other = await made('echo', { name: 'unused' })
  t.same((await rpc(other, 'ListTasks', {})).result, { tasks: [], nextPageToken: '', pageSize: 50, totalSize: 0 })
})

t.test('an answer that does not wait, and a restart', async t => {
  const { result } = await rpc(talk, 'message/send', { ...said('wait 1000'), configuration: { blocking: false } })
  t.match(result.status.state, /submitted|working/)
  const task = (await rpc(talk, 'SendMessage', { ...said('wait 1000'), configuration: { returnImmediately: true } }))
    .result.task
  t.match(task.status.state, /SUBMITTED|WORKING/)
  await until(async () => (await rpc(talk, 'tasks/get', { id: result.id })).result.status.state === 'completed')
  await roles.resources[0]!.stop()
  await graphs.stop()
  await roles.add('resources')
  await roles.add('graphs', ['--app', 'test/apps/a2a', '--app-id', 'guarded'])
  t.match(await until(async () => (await rpc(talk, 'tasks/get', { id: result.id })).result), {
    status: { state: 'completed' },
    artifacts: [{ parts: [{ text: 'You said wait 1000' }] }],
  })
  await until(async () => (await rpc(talk, 'GetTask', { id: task.id })).result?.status.state === 'TASK_STATE_COMPLETED')
})

t.test('requests that are wrong', async t => {
  const plain = async (body: unknown, headers: object = {}) => {
    const answer = await send('POST', `/a2a/${talk}`, body, {
      ...as('alice'),
      'content-type': 'application/json',
      ...headers,
    })
    return [answer.status, (answer.body as Rpc).error?.code, (answer.body as Rpc).id]
  }
  const request = { jsonrpc: '2.0', id: 1, method: 'tasks/get', params: { id: 'x' } }
  t.equal((await plain('{'))[0], 400, 'the auth of the application reads the body first')
  t.same(await plain([request, request]), [400, -32600, null])
  t.same(await plain({ ...request, jsonrpc: '1.0' }), [400, -32600, 1])
  t.same(await plain({ ...request, id: 'x'.repeat(2000) }), [400, -32600, null])
  t.same(await plain({ ...request, id: 1e300 }), [400, -32600, null])
  t.same(await plain({ ...request, id: 2 ** 53 }), [400, -32600, null], 'its digits are lost')
  t.same(await plain({ ...request, id: -1 }), [200, -32001, -1])
  t.same(await plain({ ...request, id: { a: 1 } }), [400, -32600, null])
  t.same(await plain({ jsonrpc: '2.0', method: 'tasks/get' }), [400, -32600, null])
  t.same(await plain({ ...request, params: [1] }), [400, -32600, 1])
  t.same(await plain(request), [200, -32001, 1])
  t.same(await plain({ ...request, method: 'tasks/delete' }), [200, -32601, 1])
  t.same(await plain({ ...request, method: 'constructor' }), [200, -32601, 1])
  t.same(await plain({ ...request, params: {} }), [200, -32602, 1])
  t.same(await plain({ ...request, params: null }), [200, -32602, 1])
  t.same(await plain(request, { 'A2A-Version': '2.0' }), [200, -32009, 1])
  t.same(await plain(request, { 'A2A-Version': '1.0.1' }), [200, -32001, 1])
  const sent = (message: object, more: object = {}) =>
    plain({ ...request, method: 'message/send', params: { message: { ...said('x').message, ...message }, ...more } })
  t.same(await sent({ contextId: 'mine' }), [200, -32602, 1])
  t.same(await sent({ parts: [] }), [200, -32602, 1])
  t.same(await sent({ parts: [{ kind: 'text' }] }), [200, -32602, 1])
  t.same(await sent({ parts: [{ kind: 'data', data: 7 }] }), [200, -32602, 1])
  t.same(await sent({ role: 'system' }), [200, -32602, 1])
  t.same(await sent({ messageId: '' }), [200, -32602, 1])
  t.same(await sent({ taskId: 'none' }), [200, -32001, 1])
  t.same(await sent({}, { command: { goto: 7 } }), [200, -32602, 1])
  t.same(await sent({}, { configuration: { pushNotificationConfig: { url: 'http://x' } } }), [200, -32003, 1])
  for (const method of ['tasks/pushNotificationConfig/set', 'ListTaskPushNotificationConfigs'])
    t.same(await plain({ ...request, method }), [200, -32003, 1])
  t.match(await send('POST', '/a2a/none', request, as('alice')), { status: 404 })
  for (const [id, status] of [
    ['search', 404],
    ['count', 404],
    [`${talk}%2Fschemas`, 404],
    ['%252e%252e%252fv2%252fdeployments', 404],
    ['%2e%2e%2fv2%2fdeployments', 400],
    ['..%2F..%2Fv2%2Fdeployments', 400],
    ['x'.repeat(4000), 404],
  ] as const)
    t.match(await send('POST', `/a2a/${id}`, request, as('alice')), { status }, id.slice(0, 40))
  t.match(await send('GET', `/a2a/${talk}`, undefined, as('alice')), { status: 405 })
})

t.test('other users and other agents', async t => {
  const { result } = await rpc(talk, 'message/send', said('mine'))
  const bobs = await made('talk', {}, 'bob')
  const bob = (method: string, params: object) => rpc(bobs, method, params, as('bob'))
  t.equal((await send('POST', `/a2a/${talk}`, { jsonrpc: '2.0', id: 1, method: 'tasks/get' }, as('bob'))).status, 404)
  t.equal((await send('POST', `/a2a/${talk}`, { jsonrpc: '2.0', id: 1, method: 'tasks/get' })).status, 401)
  t.match(await bob('tasks/get', { id: result.id }), { error: { code: -32001 } })
  t.match(await bob('tasks/cancel', { id: result.id }), { error: { code: -32001 } })
  t.match(await bob('tasks/resubscribe', { id: result.id }), { error: { code: -32001 } })
  t.match(await bob('message/send', said('x', { taskId: result.id })), { error: { code: -32001 } })
  t.match(await bob('message/send', said('x', { contextId: result.contextId })), { error: { code: -32602 } })
  t.same((await bob('ListTasks', { contextId: result.contextId })).result.tasks, [])
  t.match(await rpc(await made('echo'), 'tasks/get', { id: result.id }), { error: { code: -32001 } })
  const thread = `${result.contextId}:${result.id}`
  t.match((await rpc(talk, 'tasks/get', { id: thread })).result, { id: result.id })
  t.match(await rpc(talk, 'tasks/get', { id: `${result.id}:${result.id}` }), { error: { code: -32001 } })
  const denied = await send(
    'POST',
    `/a2a/${talk}`,
    { jsonrpc: '2.0', id: 1, method: 'message/send', params: said('x') },
    {
      ...as('alice'),
      'x-wish': 'deny threads:create_run',
    },
  )
  t.equal(denied.status, 403)
})

t.test('the built-in application behind a key', async t => {
  const open = sender(roles.urls[0]!)
  const weft = [join(root, 'dist/cli/weft.js'), 'keys', 'create', 'a2a', '--data', roles.nats.data]
  const key = async (scope: string) => {
    const env = { ...process.env, WEFT_REQUIRE_KEYS: '1', NODE_OPTIONS: '' }
    const flags = ['--scope', scope, '--open-streams', '1']
    return (await promisify(execFile)(process.execPath, [...weft, ...flags], { env })).stdout.trim()
  }
  const base = `${roles.urls[0]}/a2a/model`
  const line: Line = await line1(base, { 'x-api-key': await key('run') })
  t.match(await line.send({ text: 'x' }), { state: 'completed', text: /every token/ })
  const slow = `${roles.urls[0]}/a2a/slow`
  const headers = { 'x-api-key': await key('run'), 'content-type': 'application/json' }
  const ask = (method: string, params: object) =>
    fetch(slow, { method: 'POST', headers, body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }) })
  const one = await ask('message/stream', data({ ms: 60_000 }))
  const events = one.body!.pipeThrough(new TextDecoderStream()).getReader()
  let seen = ''
  while (!seen.includes('"status-update"')) seen += (await events.read()).value
  const { id } = JSON.parse(/^data: (.*)$/m.exec(seen)![1]!).result
  t.equal((await ask('message/stream', data({ ms: 1 }))).status, 429, 'one stream')
  t.equal((await ask('message/send', data({ ms: 1 }))).status, 429, 'which waits, too')
  t.match(await (await ask('tasks/cancel', { id })).json(), { result: { status: { state: 'canceled' } } })
  while (!(await events.read()).done);
  await until(async () => (await ask('message/send', data({ ms: 1 }))).status === 200)

  const reader = { 'x-api-key': await key('read') }
  for (const body of ['{', '['.repeat(200)])
    t.match(await open('POST', '/a2a/model', body, { ...reader, 'content-type': 'application/json' }), {
      status: 400,
      body: { jsonrpc: '2.0', id: null, error: { code: -32700 } },
    })
  const old = await line0(base, reader)
  await t.rejects(old.send({ text: 'x' }), /scope run/)
  await t.rejects(line0(base, { 'x-api-key': 'weft_no' }), /401/)
})
