/**
 * uWebSockets.js parses chunk extensions as digits and trailers as the next request. A proxy that forwards them parses
 * the same bytes differently, so bytes behind a chunked request must never be answered.
 */
import t from 'tap'
import { openRaw } from '../helpers/raw.js'
import { eventually, openStage } from './stage.js'

const stage = await openStage()
t.teardown(() => stage.close())
const { port } = stage

/** All answers until the connection is closed. */
async function statuses(...segments: string[]): Promise<number[]> {
  const raw = openRaw(port)
  for (const segment of segments) {
    raw.socket.write(segment)
    if (segments.length > 1) await new Promise(done => setTimeout(done, 30))
  }
  const text = await raw.closed
  return [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, code]) => Number(code))
}

const HEAD = 'HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n'
const SMUGGLED = 'POST /threads HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}'

t.test('a chunk extension cannot hide a request', async t => {
  // A proxy reads GET /ok, then POST /ok with a body of 258 bytes, which hides POST /threads.
  const inner = `${'x'.repeat(186 - 68)}\r\n0\r\n\r\n${SMUGGLED}`
  const text = `GET /ok ${HEAD}\r\n0;a\r\nPOST /ok HTTP/1.1\r\nHost: localhost\r\nContent-Length: 258\r\n\r\n${inner}`
  const before = stage.calls.length
  t.same((await statuses(text)).slice(1), [], 'at most one answer')
  t.equal(stage.calls.length, before, 'the hidden request reached no worker')
})

t.test('a trailer is not parsed as the next request', async t => {
  const text = `POST /nope ${HEAD}\r\n0\r\nXXGET: /info HTTP/1.1\r\nHost: localhost\r\n\r\n`
  t.ok((await statuses(text)).length <= 1)
})

t.test('the two bytes after a chunk are not parsed as the end of the body', async t => {
  const next = 'GET /info HTTP/1.1\r\nHost: localhost\r\n\r\n'
  t.ok((await statuses(`POST /nope ${HEAD}\r\n2\r\n{}XX0\r\nYY${next}`)).length <= 1)
  t.ok((await statuses(`POST /threads ${HEAD}\r\n2\r\n{}XX0\r\nYY${next}`)).length <= 1)
  await eventually(t, () => stage.calls.length === 1, 'the call of the first request')
})

t.test('every early answer to a chunked request is the last on its connection', async t => {
  const next = 'GET /ok HTTP/1.1\r\nHost: localhost\r\n\r\n'
  const cases: [string, string, number][] = [
    ['an unknown path', `POST /nope ${HEAD}`, 404],
    ['another method', `PUT /threads ${HEAD}`, 405],
    ['another type', `POST /v2/deployments ${HEAD}Content-Type: text/html\r\nX-Api-Key: key\r\n`, 415],
    ['no key', `POST /v2/deployments ${HEAD}Content-Type: application/json\r\n`, 401],
    ['a bad id', `POST /threads/nope/runs ${HEAD}`, 422],
    ['a foreign host', `POST /threads HTTP/1.1\r\nHost: evil.example\r\nTransfer-Encoding: chunked\r\n`, 403],
    ['GET', `GET /ok ${HEAD}`, 400],
    ['HEAD', `HEAD /ok ${HEAD}`, 400],
    ['OPTIONS', `OPTIONS /threads ${HEAD}`, 400],
    ['DELETE', `DELETE /threads/0198aaaa-0000-7000-8000-000000000001 ${HEAD}`, 400],
    [
      'an upgrade',
      `GET /threads/0198aaaa-0000-7000-8000-000000000001/stream/events ${HEAD}Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n`,
      400,
    ],
  ]
  for (const [name, head, status] of cases) {
    const before = stage.calls.length
    t.same(await statuses(`${head}\r\n0\r\n\r\n`), [status], `${name}: alone`)
    const together = await statuses(`${head}\r\n0\r\n\r\n${next}`)
    t.ok(together.length <= 1, `${name}: in one segment with the next, ${together}`)
    const apart = await statuses(`${head}\r\n0\r\n\r\n`, next)
    t.ok(apart.length <= 1, `${name}: before the next, ${apart}`)
    t.equal(stage.calls.length, before, `${name}: no call`)
  }
})

t.test('the connection of an executed chunked request is closed after its answer', async t => {
  const next = 'GET /ok HTTP/1.1\r\nHost: localhost\r\n\r\n'
  t.same(await statuses(`POST /threads ${HEAD}\r\n2\r\n{}\r\n0\r\n\r\n`), [200])
  // Before its answer, uWebSockets.js would close the connection without one.
  const raw = openRaw(port, `POST /threads ${HEAD}\r\n2\r\n{}\r\n0\r\n\r\n`)
  await raw.until(/HTTP\/1\.1 200/)
  raw.socket.write(next)
  t.equal((await raw.closed).match(/HTTP\/1\.1/g)?.length, 1)
})

t.test('a streamed answer ends as valid HTTP, and nothing behind it is read', async t => {
  const raw = openRaw(port, `POST /runs/stream ${HEAD}Content-Type: application/json\r\n\r\n2\r\n{}\r\n0\r\n\r\n`)
  const run = await stage.created()
  await raw.until(/200 OK/)
  stage.publish(run, 0, 2)
  stage.finish(run)
  await raw.until(/\r\n0\r\n\r\n$/)
  const [head, ...rest] = raw.text().split('\r\n\r\n')
  t.match(head, /Connection: close/)
  t.notMatch(rest.join(''), /Connection/)
  const before = stage.calls.length
  raw.socket.write(SMUGGLED)
  const text = await raw.closed
  t.equal(text.match(/HTTP\/1\.1/g)?.length, 1, 'the connection closes without another answer')
  t.equal(stage.calls.length, before, 'the hidden request reached no worker')
})
