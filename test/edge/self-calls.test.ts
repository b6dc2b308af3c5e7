/** The requests that the edge makes to itself for MCP and A2A: workers get the same head as for a direct request. */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { bytesHandler } from '../../bus/serve.js'
import type { CallHead } from '../../schemas/calls.js'
import { openRaw, type Raw, request } from '../helpers/raw.js'
import { openStage } from './stage.js'

t.test('a call for a client of MCP has the members of a direct one', async t => {
  const stage = await openStage({ configurable_headers: 'x-user' })
  t.teardown(() => stage.close())
  stage.handlers['system.info'] = bytesHandler(() => ({
    body: JSON.stringify({ app: 'some', pool: 'some', app_host: null, libraries: null }),
  }))
  stage.handlers['assistants.search'] = bytesHandler(() => ({ body: '[]' }))
  const common = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'x-api-key': 'key-of-the-client',
    'x-user': 'ada',
    'x-encryption-context': Buffer.from('{"tenant":"one"}').toString('base64'),
    'x-request-id': 'one',
    traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  }
  const ask = async (path: string, headers: object, body: unknown): Promise<CallHead> => {
    stage.calls.length = 0
    const answer = await fetch(`http://127.0.0.1:${stage.port}${path}`, {
      method: 'POST',
      headers: { ...common, ...headers },
      body: JSON.stringify(body),
    })
    t.equal(answer.status, 200, path)
    await answer.text()
    return stage.calls.find(({ verb }) => verb === 'assistants.search')!.head
  }
  for (const [prefix, headers, deployment] of [
    ['', {}, undefined],
    ['/deployments/some', {}, { slug: 'some' }],
    ['', { 'x-deployment-id': 'some' }, { id: 'some' }],
  ] as const) {
    const direct = await ask(`${prefix}/assistants/search`, headers, {})
    t.match(direct, { encryption: common['x-encryption-context'], traceparent: common.traceparent })
    t.same(direct.deployment, deployment)
    t.same(await ask(`${prefix}/mcp`, headers, { jsonrpc: '2.0', id: 1, method: 'tools/list' }), direct)
  }
})

t.test('a connection that the edge closes for lack of requests is not used again', async t => {
  const stage = await openStage()
  t.teardown(() => stage.close())
  stage.handlers['assistants.search'] = bytesHandler(() => ({ body: '[]' }))
  const headers = 'Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n'
  const text = request('POST', '/mcp', headers, JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }))
  const open = () => Array.from({ length: 10 }, () => openRaw(stage.port))
  const ask = async (clients: Raw[], busy_ms: number) => {
    for (const { socket } of clients) socket.write(text)
    const until = performance.now() + busy_ms
    while (performance.now() < until);
    const answers = await Promise.all(clients.map(raw => raw.until(/\r\n\r\n{.*}$/)))
    for (const { socket } of clients) socket.destroy()
    return answers
  }
  for (const seen of await ask(open(), 0)) t.match(seen, '"tools":[]')
  // The HTTP library closes it after 8 to 12 s. The requests arrive while the process is busy, so that the end of the
  // connection and the request that would use it are there at once.
  await sleep(7_000)
  const clients = open()
  await sleep(200)
  for (const seen of await ask(clients, 5_500)) t.match(seen, '"tools":[]')
})
