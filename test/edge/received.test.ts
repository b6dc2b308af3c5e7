/** Headers that come more than once: each has one meaning for all who read it. */
import type { HttpRequest } from 'uWebSockets.js'
import t from 'tap'
import { openPolicy } from '../../edge/http/policy.js'
import { readHeaders, SINGLE } from '../../edge/http/received.js'
import { readConfig } from '../../schemas/config.js'
import { openRaw, request } from '../helpers/raw.js'
import { openStage } from './stage.js'

const policy = {
  ...openPolicy(readConfig({}, { configurable_headers: 'x-*' }), null, { keepsHeaders: true }),
  isLogged: (name: string) => name === 'x-b',
}
const read = (...headers: [name: string, value: string][]) => {
  const request = {
    forEach(see: (name: string, value: string) => void) {
      for (const one of headers) see(...one)
    },
  }
  return readHeaders(request as HttpRequest, policy, '')
}

t.test('a request with two of a header that decides something is refused, and nobody is called', async t => {
  const stage = await openStage()
  t.teardown(() => stage.close())
  for (const name of SINGLE) {
    const value = name === 'Host' ? 'localhost' : name === 'Content-Length' ? '2' : 'a'
    const lines = [`${name}: ${value}`, `${name.toLowerCase()}: ${value}`].slice(name === 'Host' ? 1 : 0)
    const body = name === 'Content-Length' ? '{}' : ''
    const raw = openRaw(stage.port, `${request('POST', '/threads', `${lines.join('\r\n')}\r\n`)}${body}`)
    const answer = await raw.closed
    t.match(answer, /^HTTP\/1\.1 400 /, name)
    // The library itself refuses a second Transfer-Encoding.
    if (name !== 'Transfer-Encoding') t.match(answer, `{"detail":"More than one ${name} header"}`)
  }
  t.same(stage.calls, [])
})

t.test('a header that comes once is no second one, whatever else the request has', async t => {
  t.equal(read(...SINGLE.map(name => [name.toLowerCase(), 'a'] as [string, string])).repeated, '')
})

t.test('other headers that come twice are one list', async t => {
  const { all, accept, cookie, configurable, logged, traceparent, acceptsGzip } = read(
    ['accept', 'application/json'],
    ['x-b', '1'],
    ['cookie', 'a=1'],
    ['accept', 'text/event-stream'],
    ['accept-encoding', 'gzip'],
    ['x-b', '2'],
    ['cookie', 'b=2'],
    ['accept-encoding', 'br'],
    ['traceparent', 'x'],
    ['traceparent', 'y'],
  )
  t.same(all, [
    ['accept', 'application/json, text/event-stream'],
    ['x-b', '1, 2'],
    ['cookie', 'a=1; b=2'],
    ['accept-encoding', 'gzip, br'],
    ['traceparent', 'x, y'],
  ])
  t.equal(accept, 'application/json, text/event-stream')
  t.equal(cookie, 'a=1; b=2')
  t.same(configurable, { 'x-b': '1, 2' })
  t.same(logged, { 'x-b': '1, 2' })
  t.equal(traceparent, 'x, y', 'which is none')
  t.ok(acceptsGzip)
})

t.test('a value is passed on as the bytes that it had', async t => {
  const { all, configurable } = read(['x-name', 'ä 日'], ['cookie', 'a=\ufffd'])
  t.same(
    all.map(([, value]) => Buffer.from(value, 'latin1').toString()),
    ['ä 日', 'a=\ufffd'],
  )
  t.same(configurable, { 'x-name': 'ä 日' }, 'graphs get text')
})

t.test('the key does not depend on the order of headers', async t => {
  const bearer: [string, string] = ['authorization', 'Bearer b']
  t.equal(read(['x-api-key', 'a'], bearer).key, 'a')
  t.equal(read(bearer, ['x-api-key', 'a']).key, 'a')
  t.equal(read(['x-api-key', ''], bearer).key, 'b')
  t.equal(read(bearer, ['x-api-key', '']).key, 'b')
})
