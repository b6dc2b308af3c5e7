/** Limits of one client: connections, streams, WebSocket memory, guesses of the control key. */
import t from 'tap'
import { openClients } from '../../edge/http/clients.js'
import { openPenalty } from '../../edge/http/penalty.js'
import { ROUTES } from '../../edge/routes.js'
import { openRaw, type Raw, request } from '../helpers/raw.js'
import { openStage, THREAD } from './stage.js'

const upgrade =
  `GET /threads/${THREAD}/stream/events HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n` +
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n'
const statusOf = (raw: Raw) => raw.until(/HTTP\/1\.1 \d+/).then(text => Number(/HTTP\/1\.1 (\d+)/.exec(text)![1]))

t.test('streams, waits and WebSockets of one address have a limit', async t => {
  const stage = await openStage({ streams_per_address: 4 })
  t.teardown(() => stage.close())
  const run = stage.add()
  const join = request('GET', `/threads/${THREAD}/runs/${run.head.run_id}/stream`)
  const open = [
    openRaw(stage.port, request('POST', '/runs/stream', '', '{}')),
    openRaw(stage.port, request('POST', '/runs/wait', '', '{}')),
    openRaw(stage.port, join),
    openRaw(stage.port, upgrade),
  ]
  t.same(await Promise.all(open.map(statusOf)), [200, 200, 200, 101])
  const more = [openRaw(stage.port, join), openRaw(stage.port, upgrade)]
  for (const raw of more) {
    t.equal(await statusOf(raw), 429)
    t.match(raw.text(), /Retry-After: 1[\s\S]*WEFT_STREAMS_PER_ADDRESS/)
    raw.socket.destroy()
  }
  t.equal((await fetch(`http://127.0.0.1:${stage.port}/threads`, { method: 'POST', body: '{}' })).status, 200, 'a call')
  for (const raw of open) raw.socket.destroy()
  let free: Raw[] = []
  for (let i = 0; i < 50 && free.length < 4; i++) {
    const raw = openRaw(stage.port, join)
    if ((await statusOf(raw)) === 200) free.push(raw)
    else raw.socket.destroy()
  }
  t.equal(free.length, 4, 'the places come back')
  for (const raw of free) raw.socket.destroy()
  free = []
})

t.test('streams of each address are counted from the moment when one could have too many', async t => {
  const reads: string[] = []
  const from = (address: string) => ({
    get remoteAddress() {
      reads.push(address)
      return address
    },
  })
  const { openStream } = openClients(3)
  const [first, second] = [openStream(from('a')), openStream(from('a'))]
  const third = openStream(from('b'))
  t.same(reads, [], 'three streams: no address can have more than three')
  const fourth = openStream(from('a'))
  t.ok(fourth, 'its third')
  t.equal(openStream(from('a')), null, 'its fourth')
  t.ok(openStream(from('b')))
  second!()
  second!()
  t.ok(openStream(from('a')), 'a place came back')
  t.equal(openStream(from('a')), null, 'one place only')
  for (const release of [first, third, fourth]) release!()
  t.ok(openStream(from('a')), 'places of streams that were counted later come back too')
})

t.test('open connections have a limit', async t => {
  const stage = await openStage({ max_connections: 3 })
  t.teardown(() => stage.close())
  const open = [1, 2, 3].map(() => openRaw(stage.port, request('POST', '/runs/wait', '', '{}')))
  t.same(await Promise.all(open.map(statusOf)), [200, 200, 200])
  const one = openRaw(stage.port, request('GET', '/info'))
  await one.closed
  t.match(one.text(), /^HTTP\/1\.1 503[\s\S]*Retry-After: 1[\s\S]*WEFT_MAX_CONNECTIONS/)
  for (const raw of open) raw.socket.destroy()
})

t.test('a WebSocket message beyond the limit ends its connection before it is received', async t => {
  const stage = await openStage({ socket_bytes: 64 * 1024 })
  t.teardown(() => stage.close())
  const raw = openRaw(stage.port, upgrade)
  t.equal(await statusOf(raw), 101)
  // A masked binary frame that announces 1 MB.
  const head = Buffer.alloc(14)
  head.set([0x82, 0xff])
  head.writeBigUInt64BE(1024n * 1024n, 2)
  raw.socket.write(head)
  raw.socket.write(Buffer.alloc(1024))
  await raw.closed
  t.pass('closed')
})

/** Routes whose bodies are values of graphs. */
const LARGE = [
  'POST /a2a/:assistant_id',
  'POST /runs',
  'POST /runs/batch',
  'POST /runs/stream',
  'POST /runs/wait',
  'POST /threads',
  'POST /threads/:thread_id/commands',
  'POST /threads/:thread_id/runs',
  'POST /threads/:thread_id/runs/stream',
  'POST /threads/:thread_id/runs/wait',
  'POST /threads/:thread_id/state',
  'PUT /store/items',
  // An upload has a limit of its own, here the same one.
  'PUT /v2/deployments/:deployment_id/uploads/:upload_id',
]

t.test('only routes that take values of graphs accept large bodies', async t => {
  const MB = 1024 * 1024
  const stage = await openStage({ body_limit: 5 * MB, upload_mb: 5 })
  t.teardown(() => stage.close())
  const statusFor = async (method: string, path: string, length: number, body = '') => {
    const head = `X-Api-Key: k\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n`
    const raw = openRaw(stage.port, `${request(method, path.replace(/:\w+/g, THREAD), head)}${body}`)
    const status = await statusOf(raw)
    raw.socket.destroy()
    return status
  }
  for (const { method, path, test } of ROUTES) {
    if (method === 'GET' || test) continue
    const name = `${method} ${path}`
    t.equal(await statusFor(method, path, (LARGE.includes(name) ? 5 : 4) * MB + 1), 413, name)
  }
  for (const name of LARGE) {
    const [method, path] = name.split(' ') as [string, string]
    t.not(await statusFor(method, path, 4 * MB + 1, '{}'.padEnd(4 * MB + 1)), 413, name)
  }
})

t.test('requests with wrong keys of one address are checked slowly after ten', async t => {
  const penalty = openPenalty()
  for (let i = 0; i < 9; i++) {
    t.ok(await penalty.admit('a'))
    t.notOk(penalty.refused('a'))
  }
  t.ok(penalty.refused('a'), 'the tenth is reported')
  const order: string[] = []
  const slow = [1, 2, 3].map(n => penalty.admit('a').then(() => order.push(`a${n}`)))
  await penalty.admit('b').then(() => order.push('b'))
  await Promise.all(slow)
  t.same(order, ['b', 'a1', 'a2', 'a3'], 'another address does not wait')
  const many = Array.from({ length: 101 }, () => penalty.admit('a'))
  t.equal(await many[100], false, 'the line has an end')
})

t.test('a penalty ends', async t => {
  let now = 0
  const penalty = openPenalty(() => now)
  for (let i = 0; i < 20; i++) penalty.refused('a')
  now += 61_000
  let done = false
  void penalty.admit('a').then(() => (done = true))
  await new Promise(setImmediate)
  t.ok(done)
})

t.test('calls carry the configured request headers but no credentials', async t => {
  const stage = await openStage({ configurable_headers: 'x-*,user-agent' })
  t.teardown(() => stage.close())
  const headers = {
    'x-user-id': 'ann',
    'user-agent': 'test',
    'x-api-key': 'secret',
    authorization: 'Bearer secret',
    cookie: 'secret',
    'x-tenant-id': 'secret',
    'x-weft-identity': 'root',
    'accept-language': 'de',
  }
  const post = async (path: string) => {
    const answer = await fetch(`http://127.0.0.1:${stage.port}${path}`, { method: 'POST', body: '{}', headers })
    await answer.body?.cancel()
    return stage.calls.at(-1)!.head.headers
  }
  t.same(await post('/runs'), { 'x-user-id': 'ann', 'user-agent': 'test' })
  t.same(await post(`/threads/${THREAD}/runs`), { 'x-user-id': 'ann', 'user-agent': 'test' })
  t.same(await post('/threads'), { 'x-user-id': 'ann', 'user-agent': 'test' }, 'as every call')
  const plain = await openStage()
  t.teardown(() => plain.close())
  await fetch(`http://127.0.0.1:${plain.port}/runs`, { method: 'POST', body: '{}', headers })
  t.equal(plain.calls.at(-1)!.head.headers, undefined, 'none without the setting')
  const strict = await openStage({ configurable_headers: 'Accept-*, X-Api-Key' })
  t.teardown(() => strict.close())
  await fetch(`http://127.0.0.1:${strict.port}/runs`, { method: 'POST', body: '{}', headers })
  const given = strict.calls.at(-1)!.head.headers!
  t.equal(given['accept-language'], 'de')
  t.notOk(Object.keys(given).some(name => name.startsWith('x-')))
})

t.test('bodies that the edge itself parses have smaller limits', async t => {
  const stage = await openStage()
  t.teardown(() => stage.close())
  const KB = 1024
  for (const [path, limit] of [
    ['/ui/agent', 128 * KB],
    ['/mcp', 4 * KB * KB],
    ['/a2a/agent', 16 * KB * KB],
  ] as const)
    for (const [length, isRefused] of [
      [limit, false],
      [limit + 1, true],
    ] as const) {
      // No JSON: read whole, and refused by the route.
      const raw = openRaw(stage.port, request('POST', path, 'Connection: close\r\n', 'x'.repeat(length)))
      t.equal((await statusOf(raw)) === 413, isRefused, `${path} with ${length} bytes`)
      raw.socket.destroy()
    }
})
