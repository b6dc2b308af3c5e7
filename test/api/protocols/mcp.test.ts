/** MCP (API: assistants-crons-store 8): assistants as tools, by the official client and by plain requests. */
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
