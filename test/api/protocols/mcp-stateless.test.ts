/** MCP of version 2026-07-28 (docs/spec/protocols.md#mcp), which has no `initialize`: by the official client and by plain requests. */
import t, { type Test } from 'tap'
import { startCluster } from '../../helpers/cluster.js'
import { sender } from '../../helpers/http.js'
import { load } from '../../helpers/sdk.js'
import { until } from '../../helpers/until.js'

t.setTimeout(120_000)
const cluster = await startCluster({ app: 'test/apps/a2a', flags: ['--host', '127.0.0.1'] })
t.teardown(() => cluster.stop())
const { url } = cluster
const send = sender(url)
const as = (user: string) => ({ authorization: `Bearer ${user}` })
const VERSION = '2026-07-28'

/** The part of the client that the test uses. */
interface Client {
  connect(transport: unknown): Promise<void>
  close(): Promise<void>
  getProtocolEra(): string | undefined
  getNegotiatedProtocolVersion(): string | undefined
  getServerVersion(): unknown
  getServerCapabilities(): unknown
  listTools(params?: {
    cursor: string
  }): Promise<{ tools: { name: string; inputSchema: object }[]; nextCursor?: string }>
  callTool(
    params: object,
    options?: { signal: AbortSignal },
  ): Promise<{ isError?: boolean; content?: unknown; structuredContent?: unknown }>
}
const sdk = load('@modelcontextprotocol/client') as {
  Client: new (info: object, options: object) => Client
  StreamableHTTPClientTransport: new (url: URL, options: object) => unknown
}

/** `sent`: method of HTTP and method of the message of each request. */
async function connect(t: Test, user: string, mode: unknown): Promise<{ client: Client; sent: string[] }> {
  const client = new sdk.Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } })
  const sent: string[] = []
  const follow = (at: string, init: RequestInit) => {
    sent.push(`${init.method} ${typeof init.body === 'string' ? JSON.parse(init.body).method : ''}`)
    return fetch(at, init)
  }
  const options = { requestInit: { headers: as(user) }, fetch: follow }
  await client.connect(new sdk.StreamableHTTPClientTransport(new URL(`${url}/mcp`), options))
  t.teardown(() => client.close())
  return { client, sent }
}

const made = (user: string, name: string, graph_id = 'echo') =>
  send('POST', '/assistants', { graph_id, name, description: `Says ${name}` }, as(user))
const of = (version: string) => ({
  'io.modelcontextprotocol/protocolVersion': version,
  'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {},
})
const request = (method: string, params: object = {}, version = VERSION) => ({
  jsonrpc: '2.0',
  id: 7,
  method,
  params: { ...params, _meta: of(version) },
})
const post = (message: unknown, headers: { [name: string]: string } = {}) =>
  send('POST', '/mcp', message, {
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': VERSION,
    ...as('alice'),
    ...headers,
  })
const asked = (method: string, params: object = {}, name?: string) =>
  post(request(method, params), { 'mcp-method': method, ...(name === undefined ? {} : { 'mcp-name': name }) })
const call = (name: string, more: object = {}) => asked('tools/call', { name, ...more }, name)

await made('alice', 'first')
await made('alice', 'second')
await made('bob', 'hidden')

for (const [title, mode] of Object.entries({
  'a client of this version only': { pin: VERSION },
  'a client that asks first': 'auto',
}))
  t.test(title, async t => {
    const { client, sent } = await connect(t, 'alice', mode)
    t.equal(client.getProtocolEra(), 'modern')
    t.equal(client.getNegotiatedProtocolVersion(), VERSION)
    t.match(client.getServerVersion(), { name: 'weft' })
    t.same(client.getServerCapabilities(), { tools: { listChanged: false } })
    const { tools } = await client.listTools()
    t.match(tools, [
      { name: 'first', inputSchema: { type: 'object' } },
      { name: 'second', inputSchema: { type: 'object' } },
    ])
    t.match(await client.callTool({ name: 'second', arguments: { text: 'hello' } }), {
      isError: false,
      structuredContent: { text: 'hello' },
    })
    await t.rejects(client.callTool({ name: 'hidden' }), { code: -32602, message: /Unknown tool: hidden/ })
    t.same(
      sent.filter(one => !/^POST (server\/discover|tools\/(list|call))$/.test(one)),
      [],
      'there is no handshake and no session',
    )
  })

t.test('the same client without the new version', async t => {
  const { client, sent } = await connect(t, 'alice', 'legacy')
  t.equal(client.getProtocolEra(), 'legacy')
  t.equal(client.getNegotiatedProtocolVersion(), '2025-11-25')
  t.equal(sent[0], 'POST initialize')
  t.match(await client.callTool({ name: 'first', arguments: { text: 'x' } }), { structuredContent: { text: 'x' } })
})

t.test('pages of tools', async t => {
  for (let i = 0; i < 102; i++) await made('carol', `tool ${i}`)
  t.match((await asked('tools/list')).body, { result: { tools: [{ name: 'first' }, { name: 'second' }] } })
  const first = await post(request('tools/list'), { ...as('carol'), 'mcp-method': 'tools/list' })
  const { result } = first.body as { result: { tools: unknown[]; nextCursor: string } }
  t.equal(result.tools.length, 100)
  const next = request('tools/list', { cursor: result.nextCursor })
  const second = await post(next, { ...as('carol'), 'mcp-method': 'tools/list' })
  t.match(second.body, { result: { tools: [{ name: 'tool_100' }, { name: 'tool_101' }] } })
  t.match(await asked('tools/list', { cursor: 'x' }), {
    status: 200,
    body: { error: { code: -32602, message: /cursor/ } },
  })
})

t.test('results say what they are, who made them, and that only their reader may keep them', async t => {
  const whose = { 'io.modelcontextprotocol/serverInfo': { name: 'weft', version: String } }
  t.match(await asked('server/discover'), {
    status: 200,
    body: {
      id: 7,
      result: {
        resultType: 'complete',
        supportedVersions: [VERSION],
        capabilities: { tools: {} },
        ttlMs: 0,
        cacheScope: 'private',
        _meta: whose,
      },
    },
  })
  const list = { resultType: 'complete', ttlMs: 0, cacheScope: 'private', _meta: whose }
  t.match((await asked('tools/list')).body, { result: list })
  const { body } = await call('first', { arguments: { text: 'x' } })
  t.match(body, { result: { resultType: 'complete', structuredContent: { text: 'x' }, _meta: whose } })
})

t.test('a version that is not served is refused with those that are', async t => {
  const later = request('tools/list', {}, '2031-01-01')
  t.match(await post(later, { 'mcp-method': 'tools/list', 'mcp-protocol-version': '2031-01-01' }), {
    status: 400,
    body: { id: 7, error: { code: -32022, data: { supported: [VERSION], requested: '2031-01-01' } } },
  })
})

t.test('headers that differ from the message are refused, and so are missing ones', async t => {
  const list = request('tools/list')
  const named = request('tools/call', { name: 'first' })
  const calls = { 'mcp-method': 'tools/call' }
  const mismatch = { status: 400, body: { id: 7, error: { code: -32020 } } }
  for (const [title, message, headers] of [
    ['another version', list, { 'mcp-method': 'tools/list', 'mcp-protocol-version': '2025-11-25' }],
    ['another method', list, { 'mcp-method': 'tools/call' }],
    ['no method', list, {}],
    ['another name', named, { ...calls, 'mcp-name': 'second' }],
    ['no name', named, calls],
    ['a name that is not ASCII', named, { ...calls, 'mcp-name': 'fürst' }],
  ] as const)
    t.match(await post(message, headers), mismatch, title)
  const encoded = `=?base64?${Buffer.from('first').toString('base64')}?=`
  t.match(await post(named, { ...calls, 'mcp-name': encoded }), { status: 200, body: { result: { isError: false } } })
  const unversioned = { accept: 'application/json, text/event-stream', ...as('alice'), 'mcp-method': 'tools/list' }
  t.match(await send('POST', '/mcp', list, unversioned), mismatch, 'no version')
  const twice = await fetch(`${url}/mcp`, {
    method: 'POST',
    headers: [
      ...Object.entries({
        ...unversioned,
        ...calls,
        'content-type': 'application/json',
        'mcp-protocol-version': VERSION,
      }),
      ['mcp-name', 'first'],
      ['mcp-name', 'second'],
    ],
    body: JSON.stringify(named),
  })
  t.equal(twice.status, 400, 'two names')
})

t.test('messages that are none of this version', async t => {
  const { _meta, ...rest } = request('tools/list').params
  const bare = { jsonrpc: '2.0', id: 7, method: 'tools/list', params: rest }
  t.match(await post(bare, { 'mcp-method': 'tools/list' }), { status: 400, body: { error: { code: -32602 } } })
  const { 'io.modelcontextprotocol/clientCapabilities': _, ...without } = _meta
  const partly = { ...bare, params: { _meta: without } }
  t.match(await post(partly, { 'mcp-method': 'tools/list' }), { status: 400, body: { error: { code: -32602 } } })
  for (const method of ['ping', 'logging/setLevel', 'resources/list', 'x/y'])
    t.match(await asked(method), { status: 404, body: { id: 7, error: { code: -32601 } } }, method)
  t.match(await asked('tools/call', { arguments: {} }, 'first'), { body: { error: { code: -32602 } } })
  t.match(await call('first', { arguments: [] }), { body: { error: { code: -32602 } } })
  t.match(await post([request('tools/list')], { 'mcp-method': 'tools/list' }), { status: 400 })
  const { id, ...notification } = request('notifications/cancelled', { requestId: 1 })
  t.match(await post(notification, { 'mcp-method': 'notifications/cancelled' }), { status: 202, body: undefined })
  t.match(await post(request('tools/list'), { 'mcp-method': 'tools/list', ...as('nobody') }), { status: 401 })
})

t.test('a subscription is acknowledged without notifications, and ends', async t => {
  const answer = await fetch(`${url}/mcp`, {
    method: 'POST',
    headers: {
      ...as('alice'),
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': VERSION,
      'mcp-method': 'subscriptions/listen',
    },
    body: JSON.stringify(request('subscriptions/listen', { notifications: { toolsListChanged: true } })),
  })
  t.match(answer.headers.get('content-type'), /text\/event-stream/)
  const messages = [...(await answer.text()).matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data!))
  t.match(messages, [
    { method: 'notifications/subscriptions/acknowledged', params: { notifications: {} } },
    { id: 7, result: { resultType: 'complete' } },
  ])
})

t.test('a client that leaves cancels its run', async t => {
  await made('alice', 'slow', 'slow')
  const { client } = await connect(t, 'alice', { pin: VERSION })
  const running = async () => {
    const text = await (await fetch(`${url}/metrics`)).text()
    return Number(/^weft_pool_running\{.*} (\d+)$/m.exec(text)?.[1])
  }
  const gone = new AbortController()
  const answer = client.callTool({ name: 'slow', arguments: { ms: 60_000 } }, { signal: gone.signal })
  answer.catch(() => {})
  t.ok(await until(async () => (await running()) === 1))
  gone.abort()
  t.ok(await until(async () => (await running()) === 0))
})

t.test('arguments with many members, and the context of the run', async t => {
  const many = Object.fromEntries(Array.from({ length: 50_000 }, (_, i) => [`k${i}`, 0]))
  t.match((await call('first', { arguments: { text: 'many', ...many } })).body, {
    result: { structuredContent: { text: 'many' } },
  })
  await made('alice', 'seen', 'seen_config')
  t.match(JSON.stringify((await call('seen', { context: { colour: 'blue' } })).body), /blue/)
})

t.test('an output that is no object', async t => {
  await made('alice', 'says', 'says')
  const texts = (text: string) => [{ type: 'text', text }]
  t.match((await call('says', { arguments: { text: 'x' } })).body, {
    result: { content: texts('"x"'), structuredContent: 'x' },
  })
  const before = await connect(t, 'alice', 'legacy')
  // The library would drop this member of an output that it validates.
  const odd = JSON.parse('{"__proto__": "x", "a": [1]}')
  for (const answer of [
    await call('says', { arguments: { text: odd } }),
    await send(
      'POST',
      '/mcp',
      { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'says', arguments: { text: odd } } },
      { ...as('alice'), accept: '*/*' },
    ),
  ])
    t.match(JSON.stringify(answer.body), /"structuredContent":{"__proto__":"x","a":\[1]}/, 'an output is not validated')
  const { content, structuredContent } = await before.client.callTool({ name: 'says', arguments: { text: 'x' } })
  t.same([content, structuredContent], [texts('"x"'), undefined], 'earlier versions have objects only')
})
