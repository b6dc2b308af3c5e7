/** A2UI over A2A (docs/spec/protocols.md#a2ui) by both lines of the official client, and by plain requests. */
import t from 'tap'
import { startCluster } from '../../helpers/cluster.js'
import { sender } from '../../helpers/http.js'
import { load } from '../../helpers/sdk.js'

t.setTimeout(120_000)
const cluster = await startCluster({ app: 'test/apps/a2a', flags: ['--host', '127.0.0.1'] })
t.teardown(() => cluster.stop())
const { url } = cluster
const send = sender(url)
const alice = { authorization: 'Bearer alice' }
const EXTENSION = 'https://a2ui.org/a2a-extension/a2ui/v0.9'
const TYPE = 'application/json+a2ui'
const active = { 'a2a-extensions': `https://example.org/other, ${EXTENSION}` }

const made = async (metadata: object) => {
  const { body } = await send('POST', '/assistants', { graph_id: 'form', name: 'form', metadata }, alice)
  return (body as { assistant_id: string }).assistant_id
}
const form = await made({ a2a: { a2ui: true } })
const plain = await made({})

// biome-ignore lint/suspicious/noExplicitAny: results of tests
type Loose = any
const rpc = async (method: string, params: object, headers: { [name: string]: string } = active, agent = form) =>
  send('POST', `/a2a/${agent}`, { jsonrpc: '2.0', id: 1, method, params }, { ...alice, ...headers })
const result = async (...args: Parameters<typeof rpc>): Promise<Loose> => ((await rpc(...args)).body as Loose).result
const refused = async (...args: Parameters<typeof rpc>): Promise<Loose> => ((await rpc(...args)).body as Loose).error
const message = (parts: object[], more: object = {}) => ({ message: { role: 'user', messageId: 'm', parts, ...more } })
const text = (text: string) => ({ kind: 'text', text })
const action = {
  version: 'v0.9',
  action: {
    name: 'press',
    surfaceId: 's',
    sourceComponentId: 'root',
    timestamp: '2026-01-15T12:00:00Z',
    context: { email: 'a@b.c' },
  },
}
const event = (data: unknown, mimeType = TYPE) => ({ kind: 'data', data, metadata: { mimeType } })
const shown = [
  { version: 'v0.9', createSurface: { surfaceId: 's', catalogId: 'c' } },
  {
    version: 'v0.9',
    updateComponents: { surfaceId: 's', components: [{ id: 'root', component: 'Button', child: 'text' }] },
  },
]
const metadata = { mimeType: TYPE, of: 'form' }

t.test('the card of an agent that shows interfaces says so', async t => {
  const card = async (id: string) =>
    (await send('GET', `/a2a/${id}/.well-known/agent-card.json`, undefined, alice)).body as Loose
  const { capabilities, defaultInputModes, defaultOutputModes } = await card(form)
  t.match(capabilities.extensions, [{ uri: EXTENSION, required: false }])
  t.same(defaultInputModes, ['application/json', 'text/plain', TYPE])
  t.same(defaultOutputModes, defaultInputModes)
  const other = await card(plain)
  t.notOk(other.capabilities.extensions)
  t.notOk(other.defaultOutputModes.includes(TYPE))
})

t.test('an interface is a part of the artifact for a client that has activated the extension', async t => {
  const task = await result('message/send', message([text('hi')]))
  t.same(task.artifacts[0].parts, [text('Here:'), { kind: 'data', data: shown, metadata }], 'and no other data')
  t.same(await result('tasks/get', { id: task.id }, {}), task, 'also when it asks again, without the header')
  t.match(task.history.at(-1).parts, task.artifacts[0].parts)
  const { task: newer } = await result('SendMessage', message([{ text: 'hi' }]), active)
  t.same(newer.artifacts[0].parts, [{ text: 'Here:' }, { data: shown, metadata, mediaType: TYPE }])
  const { tasks } = await result('ListTasks', { includeArtifacts: true })
  t.same(tasks[0].artifacts, newer.artifacts)
  const old = await result('message/send', message([text('hi')]), { 'x-a2a-extensions': EXTENSION })
  t.equal(old.artifacts[0].parts.length, 2, 'the header of version 0.3')
})

t.test('other clients and agents have texts only', async t => {
  const texts = [text('Here:')]
  t.same((await result('message/send', message([text('hi')]), {})).artifacts[0].parts, texts)
  t.same((await result('message/send', message([text('hi')]), active, plain)).artifacts[0].parts, texts)
  t.equal((await rpc('message/send', message([text('hi')]), active, plain)).headers.get('a2a-extensions'), null)
})

t.test('the answer names the extension', async t => {
  const { headers } = await rpc('SendMessage', message([{ text: 'hi' }]))
  t.equal(headers.get('a2a-extensions'), EXTENSION)
  t.equal((await rpc('message/send', message([text('hi')]))).headers.get('x-a2a-extensions'), EXTENSION)
})

t.test('an event of the user reaches the graph as a block of a message, with what the client can show', async t => {
  const capabilities = { a2uiClientCapabilities: { 'v0.9': { supportedCatalogIds: ['c'] } } }
  const given = message([text('look'), event([action])], { metadata: capabilities })
  const task = await result('message/send', given)
  const got = JSON.parse(task.artifacts[0].parts[0].text)
  t.same(got.event, { type: 'data', data: [action], metadata: { mimeType: TYPE } })
  t.match(got.additional_kwargs.a2a, { metadata: capabilities, extensions: ['https://example.org/other', EXTENSION] })
  t.same(task.history[0].parts, [text('look'), event([action])])
  const newer = 'application/a2ui+json'
  const { contextId } = task
  const next = await result('message/send', message([event(action, newer), text('x')], { contextId, messageId: 'n' }))
  t.match(JSON.parse(next.artifacts[0].parts[0].text), { event: { data: action } }, 'a single event')
  t.equal(next.history.at(-2).parts[0].metadata.mimeType, newer, 'the media type of the client')
  const byMediaType = { data: [action], mediaType: newer }
  const { task: last } = await result('SendMessage', message([byMediaType]))
  t.match(JSON.parse(last.artifacts[0].parts[0].text), { event: { data: [action] } }, 'a part of version 1.0')
})

t.test('an event of the user answers a task that waits', async t => {
  const waiting = await result('message/send', message([text('ask')]))
  t.equal(waiting.status.state, 'input-required')
  t.match(await refused('message/send', message([event([action])], { taskId: waiting.id }), {}), { code: -32602 })
  const answered = await result('message/send', message([event([action])], { taskId: waiting.id }))
  t.equal(answered.id, waiting.id)
  t.same(JSON.parse(answered.artifacts[0].parts[0].text), [action])
})

t.test('events that are wrong, or not expected, are refused', async t => {
  const { context, ...rest } = action.action
  for (const [title, params, headers, agent] of [
    ['the extension is not active', message([event([action])]), {}, form],
    ['another version of the extension', message([event([action])]), { 'a2a-extensions': `${EXTENSION}.1` }, form],
    ['the agent takes none', message([event([action])]), active, plain],
    ['no context', message([event([{ version: 'v0.9', action: rest }])]), active, form],
    ['another version', message([event([{ ...action, version: 'v0.8' }])]), active, form],
    ['no time', message([event([{ ...action, action: { ...action.action, timestamp: 'now' } }])]), active, form],
    ['two kinds', message([event([{ ...action, error: { code: 'x', surfaceId: 's', message: 'm' } }])]), active, form],
    ['a message of an agent', message([event(shown)]), active, form],
    ['a text', message([event('press')]), active, form],
    ['capabilities', message([text('hi')], { metadata: { a2uiClientCapabilities: { 'v0.9': {} } } }), active, form],
  ] as const)
    t.match(await refused('message/send', params, headers, agent), { code: -32602 }, title)
  const failed = { version: 'v0.9', error: { code: 'VALIDATION_FAILED', surfaceId: 's', path: '/x', message: 'm' } }
  t.match(await result('message/send', message([event([failed, action])])), { status: { state: 'completed' } })
})

t.test('results of the tools that the assistant names are interfaces', async t => {
  const renders = await made({ a2a: { a2ui: true, a2ui_tools: ['render'] } })
  const tool = message([text('tool')])
  const task = await result('message/send', tool, active, renders)
  t.same(task.artifacts[0].parts, [text('Rendered'), event([shown[0]])])
  const after = message([text('hi')], { contextId: task.contextId, messageId: 'n' })
  t.same((await result('message/send', after, active, renders)).artifacts[0].parts.length, 2, 'those of this answer')
  t.same((await result('message/send', tool, active, form)).artifacts[0].parts, [text('Rendered')], 'of no other agent')
  t.same(
    (await result('message/send', tool, {}, renders)).artifacts[0].parts,
    [text('Rendered')],
    'for no other client',
  )
})

t.test('an interface that is wrong is left out', async t => {
  t.same((await result('message/send', message([text('wrong')]))).artifacts[0].parts, [text('Here:')])
})

async function connect(alias: string, activation: (header: string) => object): Promise<Loose> {
  const { ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory } = load(`${alias}/client`) as Loose
  const fetchImpl = (input: string, init: RequestInit = {}) =>
    fetch(input, { ...init, headers: { ...(init.headers as object), ...alice } })
  const factory = new ClientFactory({
    transports: [new JsonRpcTransportFactory({ fetchImpl })],
    cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
  })
  const client = await factory.createFromUrl(`${url}/a2a/${form}/`)
  const { uri } = (await client.getAgentCard()).capabilities.extensions[0]
  return { client, options: activation(uri) }
}

t.test('the client of version 1.0', async t => {
  const { ServiceParameters, withA2AExtensions } = load('a2a1/client') as Loose
  const { client, options } = await connect('a2a1', uri => ({
    serviceParameters: ServiceParameters.create(withA2AExtensions(uri)),
  }))
  const part = (content: object, metadata?: object) => ({ content, metadata, filename: '', mediaType: '' })
  const ask = (parts: object[]) => ({
    tenant: '',
    message: { messageId: 'm', role: 1, parts, contextId: '', taskId: '', extensions: [], referenceTaskIds: [] },
  })
  const events: Loose[] = []
  const asked = ask([part({ $case: 'text', value: 'hi' })])
  for await (const one of client.sendMessageStream(asked, options)) events.push(one.payload)
  const artifacts = events.filter(({ $case }) => $case === 'artifactUpdate').map(({ value }) => value.artifact)
  t.equal(artifacts.length, 1)
  t.match(artifacts[0].parts[1], {
    content: { $case: 'data', value: shown },
    metadata: { mimeType: TYPE },
    mediaType: TYPE,
  })
  const spoken = events
    .filter(({ $case }) => $case === 'statusUpdate')
    .flatMap(({ value }) => value.status.message?.parts ?? [])
  t.ok(
    spoken.every(({ content }) => content.$case === 'text'),
    'an interface comes once',
  )
  const pressed = ask([part({ $case: 'data', value: [action] }, { mimeType: TYPE })])
  const { payload = {}, ...task } = await client.sendMessage(pressed, options)
  const answer = (payload.value ?? task).artifacts[0].parts[0].content.value
  t.match(JSON.parse(answer), { event: { data: [action] } })
})

t.test('the client of version 0.3', async t => {
  const { ServiceParameters, withA2AExtensions } = load('a2a0/client') as Loose
  const { client, options } = await connect('a2a0', uri => ({
    serviceParameters: ServiceParameters.create(withA2AExtensions(uri)),
  }))
  const { artifacts } = await client.sendMessage(message([text('hi')]), options)
  t.same(artifacts[0].parts[1], { kind: 'data', data: shown, metadata })
  const pressed = await client.sendMessage(message([event([action])]), options)
  t.match(JSON.parse(pressed.artifacts[0].parts[0].text), { event: { data: [action] } })
})
