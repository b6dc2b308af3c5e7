/** MCP (docs/spec/protocols.md#mcp): assistants as tools, by the official client and by plain requests. */
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import t, { type Test } from 'tap'
import { startCluster } from '../../helpers/cluster.js'
import { sender } from '../../helpers/http.js'
import { until } from '../../helpers/until.js'

t.setTimeout(120_000)
const cluster = await startCluster({ app: 'test/apps/auth', flags: ['--host', '127.0.0.1'] })
t.teardown(() => cluster.stop())
const { url } = cluster
const send = sender(url)
const as = (user: string) => ({ authorization: `Bearer ${user}` })
const ACCEPT = { accept: 'application/json, text/event-stream' }

async function connect(t: Test, user: string): Promise<Client> {
  const client = new Client({ name: 'test', version: '1' })
  await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit: { headers: as(user) } }))
  t.teardown(() => client.close())
  return client
}

const post = (body: unknown, headers: { [name: string]: string } = {}, path = '/mcp') =>
  send('POST', path, body, { ...ACCEPT, ...as('alice'), ...headers })
const made = async (user: string, name: string, more: object = {}) =>
  (await send('POST', '/assistants', { graph_id: 'echo', name, ...more }, as(user))).body as { assistant_id: string }

t.test('the assistants that the caller sees are tools', async t => {
  await made('alice', 'My agent (new)!', { description: 'says it again' })
  await made('alice', 'My agent (new)!')
  await made('bob', 'of bob')
  const alice = await connect(t, 'alice')
  t.match(alice.getServerVersion(), { name: 'weft' })
  t.same(alice.getServerCapabilities(), { tools: { listChanged: false } })
  const { tools } = await alice.listTools()
  t.same(
    tools.map(({ name, description }) => [name, description]),
    [
      ['My_agent_new_', 'says it again'],
      ['My_agent_new__2', 'The assistant My agent (new)!'],
    ],
  )
  t.match(tools[0]?.inputSchema, { type: 'object', properties: {} })
  t.same(
    (await (await connect(t, 'bob')).listTools()).tools.map(({ name }) => name),
    ['of_bob'],
  )
})

t.test('a call runs the assistant and waits', async t => {
  const alice = await connect(t, 'alice')
  const called = await alice.callTool({ name: 'My_agent_new_', arguments: { text: 'hello' } })
  t.notOk(called.isError)
  t.match(called.structuredContent, { text: 'hello' })
  t.match(called.content, [{ type: 'text', text: /"text":"hello"/ }])
  await t.rejects(alice.callTool({ name: 'of_bob', arguments: {} }), { code: -32602, message: /Unknown tool: of_bob/ })
  await t.rejects(alice.callTool({ name: 'none' }), { code: -32602 })
  const denied = new Client({ name: 'test', version: '1' })
  const headers = { ...as('alice'), 'x-wish': 'deny threads:create_run' }
  await denied.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit: { headers } }))
  await t.rejects(denied.callTool({ name: 'My_agent_new_', arguments: {} }), { code: -32603 }, 'as the run itself')
  await denied.close()
})

t.test('the context of a call is that of its run', async t => {
  await made('alice', 'seen', { graph_id: 'seen_config' })
  const call = { jsonrpc: '2.0', id: 1, method: 'tools/call' }
  const { body } = await post({ ...call, params: { name: 'seen', arguments: {}, context: { colour: 'blue' } } })
  t.match(JSON.stringify(body), /blue/)
})

t.test('a client that leaves cancels its run', async t => {
  await made('alice', 'slow', { graph_id: 'slow' })
  const gone = new AbortController()
  const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'slow', arguments: { ms: 60_000 } } }
  const running = async () => {
    const text = await (await fetch(`${url}/metrics`)).text()
    return Number(/^weft_pool_running\{.*} (\d+)$/m.exec(text)?.[1])
  }
  const answer = fetch(`${url}/mcp`, {
    method: 'POST',
    headers: { ...ACCEPT, ...as('alice'), 'content-type': 'application/json' },
    body: JSON.stringify(call),
    signal: gone.signal,
  })
  answer.catch(() => {})
  await until(async () => (await running()) === 1)
  gone.abort()
  t.ok(await until(async () => (await running()) === 0))
})

t.test('pages of tools', async t => {
  for (let i = 0; i < 105; i++) await made('carol', `tool ${i}`)
  const carol = await connect(t, 'carol')
  const first = await carol.listTools()
  t.equal(first.tools.length, 100)
  const second = await carol.listTools({ cursor: first.nextCursor! })
  t.same(
    second.tools.map(({ name }) => name),
    ['tool_100', 'tool_101', 'tool_102', 'tool_103', 'tool_104'],
  )
  t.equal(second.nextCursor, undefined)
  await t.rejects(carol.listTools({ cursor: 'x' }), { code: -32602, message: /cursor/ })
  t.match((await carol.callTool({ name: 'tool_104', arguments: { text: 'x' } })).structuredContent, { text: 'x' })
})

t.test('messages and refusals', async t => {
  const ping = { jsonrpc: '2.0', id: 'a', method: 'ping' }
  t.match(await post(ping), { status: 200, body: { jsonrpc: '2.0', id: 'a', result: {} } })
  t.match(await post(ping, {}, '/mcp/'), { status: 200 })
  t.match(await post({ jsonrpc: '2.0', method: 'notifications/initialized' }), { status: 202, body: undefined })
  t.match(await post({ ...ping, method: 'nope' }), { status: 200, body: { error: { code: -32601 } } })
  t.match(await post({ ...ping, method: 'tools/call' }), { status: 200, body: { error: { code: -32602 } } })
  const two = await post([ping, { ...ping, id: 'b' }])
  t.match(two, { status: 200, body: [{ id: 'a', result: {} }, { id: 'b' }] })
  t.match(await post(Array.from({ length: 21 }, () => ping)), { status: 400, body: { error: { code: -32600 } } })
  t.match(await post({ id: 1 }), { status: 400, body: { error: { code: -32600 }, id: null } })
  const broken = await fetch(`${url}/mcp`, {
    method: 'POST',
    headers: { ...ACCEPT, ...as('alice'), 'content-type': 'application/json' },
    body: '{',
  })
  t.equal(broken.status, 400)
  t.match(await post(ping, { accept: 'application/json' }), { status: 400, body: { detail: /text\/event-stream/ } })
  t.match(await post(ping, { 'mcp-protocol-version': 'of tomorrow' }), { status: 400 })
  t.match(await post(ping, as('nobody')), { status: 401, body: { detail: 'Who are you?' } })
  t.equal((await send('GET', '/mcp', undefined, { ...ACCEPT, ...as('alice') })).status, 405)
  t.equal((await send('DELETE', '/mcp', undefined, as('alice'))).status, 404)
  for (const header of ['x-weft-loopback', 'X-Weft-Loopback'])
    t.equal((await post(ping, { ...as('nobody'), [header]: '1' })).status, 401)
})

/** An object of so many members. */
const members = (n: number) => Object.fromEntries(Array.from({ length: n }, (_, i) => [`k${i}`, 0]))

t.test('calls of one request have each their own arguments and context', async t => {
  const call = (id: number, name: string, more: object) => ({
    jsonrpc: '2.0',
    id,
    method: 'tools/call',
    params: { name, ...more },
  })
  const { body } = await post([
    call(1, 'seen', { arguments: {}, context: { colour: 'red' } }),
    call(2, 'My_agent_new_', { arguments: { text: 'two', place: 0 } }),
    call(3, 'seen', { context: { colour: 'green' } }),
  ])
  const answers = body as { id: number; result: object }[]
  const of = (id: number) => JSON.stringify(answers.find(one => one.id === id)!.result)
  t.match(of(1), /red/)
  t.match(of(2), /two/)
  t.match(of(3), /green/)
})

t.test('arguments with many members are passed on, and not validated one by one', async t => {
  const params = { name: 'My_agent_new_', arguments: { text: 'many', ...members(50_000) } }
  const { status, body } = await post({ jsonrpc: '2.0', id: 1, method: 'tools/call', params })
  t.equal(status, 200)
  const { structuredContent } = (body as { result: { structuredContent: object } }).result
  t.match(structuredContent, { text: 'many' })
})

t.test('a body beyond the limits of JSON is refused before it is parsed', async t => {
  const call = { jsonrpc: '2.0', id: 1, method: 'tools/call' }
  const many = { name: 'My_agent_new_', arguments: members(300_000) }
  const list = { name: 'My_agent_new_', arguments: { list: Array.from({ length: 100_000 }, () => 0) } }
  let deep: unknown = 0
  for (let i = 0; i < 100; i++) deep = [deep]
  for (const [params, message] of [
    [many, /more than 100000 (keys|values)/],
    [list, /more than 100000 values/],
    [{ name: 'My_agent_new_', arguments: { deep } }, /deeper than 100/],
  ] as const) {
    const { status, body } = await post({ ...call, params })
    t.equal(status, 400)
    // By the process with the \`auth\`, or by the edge, whose limits are smaller.
    t.match(JSON.stringify(body), message)
  }
  t.match(await post({ ...call, params: list }), { body: { error: { code: -32700 } } })
})

t.test('members elsewhere have a limit of their own: the library walks them', async t => {
  const message = /more than 16384 characters beside the arguments/
  for (const [name, text] of Object.entries({
    'the message': { jsonrpc: '2.0', id: 1, method: 'ping', ...members(5_000) },
    'params of a method that nobody knows': { jsonrpc: '2.0', id: 1, method: 'x', params: members(5_000) },
    capabilities: {
      jsonrpc: '2.0',
      id: 1,
      method: 'initialize',
      params: { capabilities: { experimental: members(5_000) } },
    },
    _meta: { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'x', _meta: members(5_000) } },
    'arguments that are no object': {
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { arguments: Array(20_000).fill(0) },
    },
    'a result': { jsonrpc: '2.0', id: 1, result: members(5_000) },
    'a list': [{ jsonrpc: '2.0', id: 1, method: 'ping' }, members(5_000)],
  }))
    t.match(await post(text), { status: 400, body: { error: { code: -32600, message } } }, name)
})

t.test('an assistant whose graph fails is no tool, and the others are', async t => {
  await made('bob', 'first')
  await made('bob', 'broken', { graph_id: 'breaks' })
  await made('bob', 'last')
  const { tools } = await (await connect(t, 'bob')).listTools()
  t.same(
    tools.map(({ name }) => name),
    ['of_bob', 'first', 'last'],
  )
})
