import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { bytesHandler } from '../../bus/serve.js'
import { fail } from '../../schemas/errors.js'
import { BUILT_IN_APP } from '../../schemas/ids.js'
import { ambiguousRequests } from '../helpers/ambiguous-requests.js'
import { openRaw, request } from '../helpers/raw.js'
import { until } from '../helpers/until.js'
import { openStage, THREAD } from './stage.js'

const LIMIT = 1024 * 1024
const stage = await openStage({ body_limit: LIMIT, bodies_in_flight: 3 * LIMIT })
t.teardown(() => stage.close())
const { port } = stage
const url = `http://127.0.0.1:${port}`
/** Ambiguous requests that are executed, once, before their connection is closed. */
const EXECUTED = 2
const statuses = (text: string) => [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, code]) => Number(code))

/** Sends and waits until the connection is closed, or until this time after the end of the answer. */
async function answered(text: string | Buffer, ms = 60): Promise<{ text: string; closed: boolean }> {
  const raw = openRaw(port, text)
  let closed = false
  void raw.closed.then(() => (closed = true))
  await Promise.race([raw.closed, raw.until(/\r\n\r\n[\s\S]*}$/).then(() => sleep(ms))])
  raw.socket.destroy()
  return { text: raw.text(), closed }
}

const smuggled = request('POST', '/threads', 'X-Request-Id: smuggled\r\n', '{}')
const post = (headers: string, body = '', host = 'Host: localhost\r\n') =>
  `POST /threads HTTP/1.1\r\n${host}${headers}\r\n${body}`

t.test('ambiguous framing is refused, and the bytes behind it are never answered', async t => {
  for (const { name, text, statuses, unfinished } of ambiguousRequests(smuggled)) {
    if (unfinished) continue
    const { text: answer, closed } = await answered(text, 2_000)
    const got = [...answer.matchAll(/HTTP\/1\.[01] (\d+)/g)].map(([, code]) => Number(code))
    t.ok(got.length <= 1 && got.every(status => statuses.includes(status)), `${name}: ${got}`)
    t.ok(closed, `${name}: closed`)
  }
  // Calls keep their order: behind this one there is none of those above.
  await answered(request('POST', '/threads', 'X-Request-Id: last\r\n', '{}'))
  const others = stage.calls.filter(({ head }) => head.request_id !== 'last')
  t.ok(others.length <= EXECUTED, `${others.length} calls`)
  t.notOk(others.some(({ head }) => head.request_id === 'smuggled'))
})

t.test('a head that the library takes for incomplete is never answered, nor are the bytes behind it', async t => {
  for (const { name, text } of ambiguousRequests(smuggled).filter(({ unfinished }) => unfinished)) {
    const raw = openRaw(port, text + request('GET', '/ok'))
    await Promise.race([raw.closed, sleep(100)])
    t.equal(raw.text(), '', name)
    raw.socket.destroy()
  }
})

t.test('ambiguous framing without further bytes gets a reason', async t => {
  const { text } = await answered(post('Content-Length: 2\r\nContent-Length: 2\r\n', '{}'))
  t.match(text, '{"detail":"More than one Content-Length header"}')
})

t.test('a valid chunked body reaches the worker', async t => {
  const raw = openRaw(port, post('Transfer-Encoding: chunked\r\n', '2\r\n{"\r\n5\r\na":1}\r\n0\r\n\r\n'))
  await raw.until(/bytes/)
  t.match(raw.text(), '"bytes":7')
  raw.socket.destroy()
})

t.test('pipelined requests that are answered at once are answered in order', async t => {
  const raw = openRaw(port, request('GET', '/ok') + request('GET', '/info') + request('GET', '/nothing'))
  await raw.until(/Not found/)
  t.same(statuses(raw.text()), [200, 200, 404])
  t.ok(raw.text().indexOf('"ok"') < raw.text().indexOf('langgraph_js_version'))
  raw.socket.destroy()
})

t.test('a request before the answer to a call ends the connection and never mixes answers', async t => {
  const raw = openRaw(port, request('GET', `/threads/${THREAD}`) + request('GET', '/ok'))
  await raw.closed
  t.notMatch(raw.text(), '"ok"')
})

t.test('limits: by length before the body, by count without a length', async t => {
  const early = openRaw(port, post(`Content-Length: ${LIMIT + 1}\r\n`))
  await early.closed
  t.same(statuses(early.text()), [413])
  const late = openRaw(port, post('Transfer-Encoding: chunked\r\n'))
  const piece = `10000\r\n${'x'.repeat(0x10000)}\r\n`
  for (let i = 0; i < 17; i++) late.socket.write(piece)
  await late.closed
  t.same(statuses(late.text()), [413])
  const exact = await fetch(`${url}/threads`, { method: 'POST', body: 'x'.repeat(LIMIT) })
  t.equal(exact.status, 200)
})

t.test('bodies in flight have a budget that is released', async t => {
  const held = Array.from({ length: 3 }, () =>
    openRaw(port, post(`Content-Length: ${LIMIT}\r\n`, 'x'.repeat(LIMIT - 10))),
  )
  const ask = () => fetch(`${url}/threads`, { method: 'POST', body: 'x'.repeat(1000) })
  // A head without its body takes no memory, so it takes no place of the bodies that still arrive.
  await until(async () => {
    const probe = openRaw(port, post('Content-Length: 1000\r\n'))
    const refused = probe.closed.then(() => true)
    const isFull = await Promise.race([refused, new Promise<false>(done => setTimeout(done, 100, false))])
    probe.socket.destroy()
    return isFull
  })
  const answer = await ask()
  t.equal(answer.status, 429)
  t.equal(answer.headers.get('retry-after'), '1')
  for (const one of held) one.socket.destroy()
  await until(async () => (await ask()).status === 200)
  t.pass('the budget is free again')
})

t.test('paths and methods', async t => {
  const of = async (path: string, method = 'GET') => {
    const raw = openRaw(port, request(method, path, 'Connection: close\r\n'))
    const text = await raw.closed
    return { status: statuses(text)[0], text }
  }
  t.equal((await of('/assistants/a%zz')).status, 400)
  t.equal((await of('/assistants/a%00')).status, 400)
  t.equal((await of('/threads/%00')).status, 400)
  t.equal((await of('/threads/nope')).status, 422)
  t.match((await of('/threads/nope')).text, '{"detail":"thread_id must be a UUID"}')
  t.equal((await of('/nothing')).status, 404)
  const wrong = await of('/threads', 'DELETE')
  t.equal(wrong.status, 405)
  t.match(wrong.text, 'Allow: POST, OPTIONS')
  t.equal((await of('/threads', 'FOO')).status, 405)
  const head = await of('/ok', 'HEAD')
  t.equal(head.status, 200)
  t.ok(head.text.endsWith('\r\n\r\n'), 'no body')
  const options = await of('/threads', 'OPTIONS')
  t.equal(options.status, 204)
  t.match(options.text, 'Allow: POST, OPTIONS')
  t.equal((await of('/nothing', 'OPTIONS')).status, 404)
})

t.test('a request with another host name is not served', async t => {
  const raw = openRaw(port, 'GET /ok HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n')
  t.same(statuses(await raw.closed), [403])
})

t.test('a call carries body, params, query, request id and trace, and no other part of the request', async t => {
  stage.calls.length = 0
  const traceparent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`
  const answer = await fetch(`${url}/threads/${THREAD}/state?subgraphs=true&x=%zz`, {
    headers: { 'x-request-id': 'mine-1', traceparent, 'x-weft-identity': 'root', origin: 'http://page.example' },
  })
  t.equal(answer.headers.get('x-request-id'), 'mine-1')
  t.equal(answer.headers.get('access-control-allow-origin'), '*')
  t.equal(answer.headers.get('content-type'), 'application/json')
  t.same(stage.calls[0]!.head, {
    request_id: 'mine-1',
    params: { thread_id: THREAD },
    query: 'subgraphs=true&x=%zz',
    traceparent,
  })
  const other = await fetch(`${url}/threads`, {
    method: 'POST',
    body: '{"a":1}',
    headers: { 'x-request-id': 'b d\u00e9' },
  })
  t.match(other.headers.get('x-request-id'), /^[0-9a-f-]{36}$/)
  t.equal(stage.calls.at(-1)!.body.toString(), '{"a":1}')
})

t.test('an Idempotency-Key that is too long is refused, not cut', async t => {
  const post = (key: string) =>
    fetch(`${url}/threads`, { method: 'POST', body: '{}', headers: { 'idempotency-key': key } })
  t.equal((await post('k'.repeat(256))).status, 200)
  t.equal(stage.calls.at(-1)!.head.idempotency_key, 'k'.repeat(256))
  const long = await post(`${'k'.repeat(256)}a`)
  t.equal(long.status, 422)
  t.same(await long.json(), { detail: 'Idempotency-Key: expected at most 256 characters, got 257' })
})

t.test('a browser does not guess the type of an answer', async t => {
  for (const path of ['/ok', '/nothing', '/threads/nope'])
    t.equal((await fetch(url + path)).headers.get('x-content-type-options'), 'nosniff', path)
})

t.test('content types and empty bodies', async t => {
  const of = async (type: string, body: string) => {
    const raw = openRaw(port, request('POST', '/threads', `${type}Connection: close\r\n`, body))
    return statuses(await raw.closed)[0]
  }
  t.equal(await of('', ''), 200)
  t.equal(await of('', '{}'), 200)
  t.equal(await of('Content-Type: text/plain\r\n', '{}'), 200)
  // `curl -d` sends it so.
  t.equal(await of('Content-Type: application/x-www-form-urlencoded\r\n', '{}'), 200)
  t.equal(await of('Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 0\r\n', ''), 200)
  for (const type of ['application/octet-stream', 'text/html', 'application/vnd.api+json'])
    t.equal(await of(`Content-Type: ${type}\r\n`, '{}'), 200, type)
})

t.test('a path with a slash too many leads to the one without it', async t => {
  const to = async (method: string, path: string) => {
    const { status, headers } = await fetch(url + path, { method, redirect: 'manual' })
    const location = headers.get('location')
    return [status, location === null ? null : new URL(location, url + path).href.slice(url.length)]
  }
  const id = '0198aaaa-0000-7000-8000-000000000001'
  t.same(await to('GET', `/threads/${id}/`), [307, `/threads/${id}`])
  t.same(await to('GET', `/threads/${id}/state/?subgraphs=true`), [307, `/threads/${id}/state?subgraphs=true`])
  t.same(await to('POST', '/threads/search/'), [307, '/threads/search'])
  t.same(await to('POST', '/assistants/a%2Fb/versions/'), [307, '/assistants/a%2Fb/versions'])
  for (const path of ['/nothing/', `/threads/${id}//`, '/threads//search']) t.same(await to('GET', path), [404, null])
})

t.test('a GET is answered without waiting for its body', async t => {
  const raw = openRaw(port, request('GET', '/ok', 'Content-Length: 100\r\nContent-Type: application/json\r\n'))
  await raw.until(/"ok":true/)
  t.same(statuses(raw.text()), [200])
  raw.socket.destroy()
})

t.test('errors, headers and statuses of workers are passed on', async t => {
  stage.handlers['threads.create'] = bytesHandler(() => {
    throw fail('conflict', 'Thread exists')
  })
  const refused = await fetch(`${url}/threads`, { method: 'POST', body: '{}' })
  t.equal(refused.status, 409)
  t.same(await refused.json(), { detail: 'Thread exists' })
  stage.handlers['threads.create'] = bytesHandler(() => {
    throw new Error('secret')
  })
  const broken = await fetch(`${url}/threads`, { method: 'POST', body: '{}' })
  t.equal(broken.status, 500)
  t.same(await broken.json(), { detail: 'Internal server error' })
  stage.handlers['threads.create'] = bytesHandler(() => ({
    head: { status: 204, headers: { 'X-Pagination-Total': '7' } },
  }))
  const empty = await fetch(`${url}/threads`, { method: 'POST', body: '{}' })
  t.equal(empty.status, 204)
  t.equal(empty.headers.get('x-pagination-total'), '7')
  delete stage.handlers['threads.create']
})

t.test('a body of 20 MB and its answer arrive', async t => {
  const big = await openStage({})
  t.teardown(() => big.close())
  const body = randomBytes(10_000_000).toString('hex')
  big.handlers['threads.create'] = bytesHandler(bytes => ({ body: bytes }))
  const started = performance.now()
  const answer = await fetch(`http://127.0.0.1:${big.port}/threads`, { method: 'POST', body })
  t.ok((await answer.text()) === body, 'equal')
  t.comment(`20 MB there and back in ${Math.round(performance.now() - started)} ms`)
})

t.test('a preflight is answered', async t => {
  const answer = await fetch(`${url}/runs/stream`, {
    method: 'OPTIONS',
    headers: {
      origin: 'http://page.example',
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'x-api-key',
    },
  })
  t.equal(answer.status, 204)
  t.equal(answer.headers.get('access-control-allow-headers'), 'x-api-key')
  const origin = { origin: 'https://page.example', 'access-control-request-method': 'POST' }
  const headers = { ...origin, 'access-control-request-private-network': 'true' }
  const local = await fetch(`${url}/threads`, { method: 'OPTIONS', headers })
  t.equal(local.headers.get('access-control-allow-private-network'), 'true')
})

t.test('system routes', async t => {
  const json = async (path: string): Promise<[number, { langgraph_js_version?: string }]> => {
    const answer = await fetch(url + path)
    return [answer.status, (await answer.json()) as object]
  }
  t.same(await json('/'), [200, { ok: true }])
  t.same(await json('/ok'), [200, { ok: true }])
  for (const value of ['1', '0', 'true', 'false']) t.same(await json(`/ok?check_db=${value}`), [200, { ok: true }])
  t.match(await json('/ok?check_db=x'), [422, { detail: /^check_db: expected/ }])
  const asBrowser = await fetch(url, { headers: { accept: 'text/html,*/*;q=0.8' }, redirect: 'manual' })
  t.match([asBrowser.status, asBrowser.headers.get('content-type')], [200, /^text\/html/])
  t.same(await json('/ready'), [200, { ok: true }])
  t.match(await json('/info'), [200, { context: 'js', version: /^\d/, langgraph_js_version: /^1\./, metadata: {} }])
  stage.worker.nc.publish(
    'event.graphs.announced',
    Buffer.from(
      JSON.stringify({ app: BUILT_IN_APP, pool: 'default', graphs: ['a'], libraries: { javascript: '0.3.12' } }),
    ),
  )
  while ((await json('/info'))[1].langgraph_js_version !== '0.3.12') await sleep(10)
  t.match(await json('/info'), [200, { langgraph_js_version: '0.3.12' }], 'as graph workers announce it')
  stage.worker.nc.publish(
    'event.graphs.announced',
    Buffer.from(JSON.stringify({ app: BUILT_IN_APP, pool: 'default', graphs: ['a'], libraries: { python: '1.2.24' } })),
  )
  while ((await json('/info'))[1].langgraph_js_version !== undefined) await sleep(10)
  const [, python] = await json('/info')
  t.match(python, { langgraph_py_version: '1.2.24', host: { kind: 'self-hosted' } }, 'of graphs in Python')
  t.notOk('context' in python)
  stage.handlers['system.check'] = stage.handlers['system.ready'] = bytesHandler(() => {
    throw fail('unavailable', 'The store does not answer')
  })
  t.same(await json('/ok?check_db=1'), [500, { detail: 'The store does not answer' }])
  t.same(await json('/ready'), [503, { detail: 'The store does not answer' }])
  t.same(await json('/ok'), [200, { ok: true }])
})

t.test('a bind to other than loopback needs --insecure', async t => {
  await t.rejects(openStage({ host: '0.0.0.0' }), /--insecure/)
})

t.test('a port in use is not shared silently', async t => {
  await t.rejects(openStage({ port }), /in use/)
})
