/** Limits of one client: connections, streams, WebSocket memory, guesses of the control key. */
import t from 'tap'
import { openClientAddress } from '../../edge/http/client-address.js'
import { openClients } from '../../edge/http/clients.js'
import { openPenalty } from '../../edge/http/penalty.js'
import { ROUTES } from '../../edge/routes.js'
import { openRaw, type Raw, request } from '../helpers/raw.js'
import { eventually, keyOf, openStage, THREAD } from './stage.js'

const CONTROL_KEY = 'the-control-key-of-tests'
const JSON_TYPE = { 'content-type': 'application/json' }

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
    t.match(raw.text(), /Retry-After: 1[\s\S]*Too many open streams of this address/)
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

t.test('after ten wrong keys the answers to further ones of an address wait, and right keys do not', async t => {
  const many: object[] = []
  const penalty = openPenalty({ onMany: client => many.push(client) })
  const from = (remoteAddress: string) => ({ remoteAddress, requestId: 'r' })
  for (let i = 0; i < 10; i++) t.equal(await penalty.check(from('a'), null), null)
  t.same(many, [{ remote_address: 'a', request_id: 'r' }], 'the tenth is reported')
  const order: string[] = []
  const wrong = (address: string, name: string) => penalty.check(from(address), null).then(() => order.push(name))
  const slow = ['a1', 'a2', 'a3'].map(name => wrong('a', name))
  await wrong('b', 'b')
  order.push((await penalty.check(from('a'), Promise.resolve('right')))!)
  await wrong('', 'a socket of the server')
  await Promise.all(slow)
  t.same(order, ['b', 'right', 'a socket of the server', 'a1', 'a2', 'a3'])
  const line = Array.from({ length: 100 }, () => penalty.check(from('a'), null))
  await t.rejects(penalty.check(from('a'), null), { code: 'too_many' }, 'the line has an end')
  t.equal(await penalty.check(from('a'), 'right'), 'right')
  await Promise.all(line)
  t.equal(many.length, 1)
})

t.test('a penalty ends', async t => {
  let time = 0
  const penalty = openPenalty({ onMany: () => {}, now: () => time })
  const client = { remoteAddress: 'a', requestId: 'r' }
  for (let i = 0; i < 10; i++) await penalty.check(client, null)
  time += 61_000
  let done = false
  void penalty.check(client, null).then(() => (done = true))
  await new Promise(setImmediate)
  t.ok(done)
})

t.test('wrong keys of one address leave right keys of it alone, on both planes', async t => {
  const stage = await openStage({ require_keys: true, control_key: CONTROL_KEY })
  t.teardown(() => stage.close())
  const key = keyOf(stage, 1, ['admin'])
  const ask = (path: string, key: string) =>
    fetch(`http://127.0.0.1:${stage.port}${path}`, {
      method: 'POST',
      body: '{}',
      headers: { ...JSON_TYPE, 'x-api-key': key },
    })
  const [run, control] = ['/threads', '/v2/deployments'] as const
  const statuses: number[] = []
  let done = false
  // The line of a plane takes so many at once, without an end.
  const wrong = Array.from({ length: 120 }, async (_, i) => {
    const unknown = `weft_${`${i}`.padStart(16, '0')}_${'x'.repeat(43)}`
    while (!done) statuses.push((await ask(i % 2 ? run : control, unknown)).status)
  })
  await eventually(t, () => statuses.length >= 20, 'the free ones are answered')
  const right: number[] = []
  for (let i = 0; i < 14; i++)
    for (const [path, own] of [
      [run, key],
      [control, key],
      [control, CONTROL_KEY],
    ] as const)
      right.push((await ask(path, own)).status)
  done = true
  t.same(new Set(right), new Set([200]))
  const during = statuses.length
  await Promise.all(wrong)
  t.ok(statuses.length - during >= 100, 'the wrong ones waited meanwhile')
  t.same(new Set(statuses), new Set([401]))
})

t.test('behind a proxy that the operator trusts, each client has its own address', async t => {
  const of = openClientAddress('127.0.0.1, 10.0.0.0/8, fd00::/8')
  for (const [peer, forwarded, client] of [
    ['192.0.2.1', '', '192.0.2.1'],
    ['192.0.2.1', '203.0.113.9', '192.0.2.1'],
    ['127.0.0.1', '', '127.0.0.1'],
    ['127.0.0.1', '203.0.113.9', '203.0.113.9'],
    ['127.0.0.1', '198.51.100.7, 203.0.113.9', '203.0.113.9'],
    ['127.0.0.1', '198.51.100.7, 203.0.113.9, 10.1.2.3', '203.0.113.9'],
    ['127.0.0.1', '10.1.2.3', '10.1.2.3'],
    ['127.0.0.1', '198.51.100.7, garbage', '127.0.0.1'],
    ['127.0.0.1', '198.51.100.7, unknown, 10.1.2.3', '10.1.2.3'],
    ['127.0.0.1', '203.0.113.9:4711', '203.0.113.9'],
    ['127.0.0.1', '[2001:DB8::1]:4711', '2001:db8::1'],
    ['0000:0000:0000:0000:0000:ffff:7f00:0001', '203.0.113.9', '203.0.113.9'],
    ['fd00:0000:0000:0000:0000:0000:0000:0001', '203.0.113.9', '203.0.113.9'],
    ['', '203.0.113.9', ''],
  ])
    t.equal(of(peer!, forwarded!), client, `${peer} with "${forwarded}"`)
  t.equal(openClientAddress('')('127.0.0.1', '203.0.113.9'), '127.0.0.1', 'no proxy is trusted without the setting')
  for (const wrong of ['proxy.example', '10.0.0.0/', '10.0.0.0/33', '10.0.0.0/8/8', '::1/129', '/8'])
    t.throws(() => openClientAddress(wrong), /WEFT_TRUSTED_PROXIES: expected addresses or ranges/, wrong)

  const stage = await openStage({ streams_per_address: 1, trusted_proxies: '127.0.0.1' })
  t.teardown(() => stage.close())
  const run = stage.add()
  const join = (...forwarded: string[]) =>
    openRaw(
      stage.port,
      request(
        'GET',
        `/threads/${THREAD}/runs/${run.head.run_id}/stream`,
        forwarded.map(one => `X-Forwarded-For: ${one}\r\n`).join(''),
      ),
    )
  const open = [join('203.0.113.1'), join('203.0.113.2'), join('203.0.113.1', '203.0.113.3')]
  t.same(await Promise.all(open.map(statusOf)), [200, 200, 200])
  for (const raw of [join('203.0.113.2'), join('203.0.113.9, 203.0.113.2'), join('203.0.113.9', '203.0.113.2')]) {
    t.equal(await statusOf(raw), 429)
    raw.socket.destroy()
  }
  for (const raw of open) raw.socket.destroy()
  await t.rejects(openStage({ trusted_proxies: 'all' }), /WEFT_TRUSTED_PROXIES/, 'a start with a wrong setting ends')
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
