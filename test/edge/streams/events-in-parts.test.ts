import t from 'tap'
import { openCors } from '../../../edge/http/cors.js'
import { hostGuard, isStrictJson } from '../../../edge/http/guards.js'
import { readCursor } from '../../../edge/streams/cursor.js'
import { openFilter, readModes } from '../../../edge/streams/filter.js'
import { readConfig } from '../../../schemas/config.js'
import { isLoopback } from '../../../schemas/loopback.js'
import { isTrue } from '../../../schemas/query.js'
import { frame } from '../stage.js'

const query = (text: string) => new URLSearchParams(text)

t.test('cors: a wildcard never allows credentials', t => {
  const cors = openCors('*')
  t.same(cors.answer(''), [])
  const answer = cors.answer('http://a.example').join('|')
  t.match(answer, 'Access-Control-Allow-Origin|*')
  for (const name of ['Content-Location', 'Location', 'X-Pagination-Total', 'X-Pagination-Next']) t.match(answer, name)
  const preflight = cors.preflight('http://a.example', 'x-api-key, authorization').join('|')
  t.match(preflight, 'Access-Control-Allow-Headers|x-api-key, authorization')
  t.match(preflight, 'Access-Control-Max-Age|600')
  t.notMatch(answer + preflight, 'Credentials')
  t.notMatch(cors.preflight('http://a.example', 'x\r\ny: z').join('|'), 'y: z')
  t.end()
})

t.test('cors: a list allows its origins only', t => {
  const cors = openCors('http://a.example, http://b.example')
  t.match(cors.answer('http://b.example').join('|'), 'Access-Control-Allow-Origin|http://b.example')
  t.match(cors.answer('http://b.example').join('|'), 'Access-Control-Allow-Credentials|true')
  t.same(cors.answer('http://c.example'), ['Vary', 'Origin'])
  t.same(cors.preflight('http://c.example', 'x'), [])
  t.end()
})

t.test('cursors: every form is accepted without an error', t => {
  t.equal(readCursor('-1', query('')), 'start')
  t.equal(readCursor('-', query('')), 'start')
  t.equal(readCursor('0', query('')), 0)
  t.equal(readCursor(' 57 ', query('')), 57)
  t.equal(readCursor('', query('last_event_id=9')), 9)
  t.equal(readCursor('8', query('last_event_id=9')), 8, 'the header wins')
  for (const foreign of ['', 'abc', '1718000000000-0', '-2', '1e3', '99999999999999999999', '0x1', 'é']) {
    t.equal(readCursor(foreign, query('')), null, foreign)
  }
  t.ok(isTrue('1') && isTrue('true') && isTrue('Yes'))
  t.notOk(isTrue('0') || isTrue(null) || isTrue('') || isTrue('false'))
  t.end()
})

t.test('stream modes: every form of the SDKs', t => {
  t.same(readModes(query('')), [])
  t.same(readModes(query('stream_mode=')), [])
  t.same(readModes(query('stream_mode=values')), ['values'])
  t.same(readModes(query('stream_mode=values&stream_mode=updates')), ['values', 'updates'])
  t.same(readModes(query(`stream_mode=${encodeURIComponent('["values","updates"]')}`)), ['values', 'updates'])
  t.same(readModes(query('stream_mode=[oops')), [])
  t.end()
})

t.test('the filter selects events by name in the bytes', t => {
  const names = ['metadata', 'values', 'values|n:1', 'messages', 'messages|n:1', 'messages/partial', 'updates', 'error']
  const bytes = Buffer.concat(names.map((name, i) => frame(i, 0, name)))
  const kept = (...modes: string[]) =>
    [
      ...Buffer.from(openFilter(modes, ['values', 'updates', 'messages', 'messages-tuple'])!(bytes))
        .toString()
        .matchAll(/event: (.*)\n/g),
    ].map(one => one[1])
  t.same(kept('values'), ['metadata', 'values', 'values|n:1', 'error'])
  t.same(kept('messages-tuple'), ['metadata', 'messages', 'messages|n:1', 'error'])
  t.same(kept('messages'), ['metadata', 'messages/partial', 'error'])
  t.same(kept('updates', 'values'), ['metadata', 'values', 'values|n:1', 'updates', 'error'])
  t.equal(openFilter([], ['values']), null, 'no filter asked for')
  t.equal(openFilter(['values', 'custom'], ['values']), null, 'nothing to leave out')
  const of = (...namespaces: string[]) => Buffer.from(openFilter([], [], new Set(namespaces))!(bytes)).toString()
  const namesOf = (text: string) => [...text.matchAll(/event: (.*)\n/g)].map(one => one[1])
  t.same(namesOf(of('')), ['metadata', 'values', 'messages', 'messages/partial', 'updates', 'error'], 'the root graph')
  t.same(namesOf(of('n:1')), ['metadata', 'values|n:1', 'messages|n:1', 'error'], 'a graph')
  t.same(namesOf(of('n')), ['metadata', 'error'], 'not by a part of its namespace')
  const both = Buffer.from(openFilter(['values'], ['values', 'messages'], new Set(['n:1']))!(bytes)).toString()
  t.same(namesOf(both), ['metadata', 'values|n:1', 'error'], 'with modes')
  const whole = frame(0, 0, 'values')
  t.equal(openFilter(['values'], ['values', 'updates'])!(whole), whole, 'the same bytes when all of them pass')
  t.equal(openFilter(['custom'], ['values'])!(frame(1, 0, 'values')).length, 0)
  const plain = Buffer.from('event: values\ndata: 1\n\nevent: updates\ndata: "\\nevent: values"\n\n')
  t.equal(Buffer.from(openFilter(['values'], ['values', 'updates'])!(plain)).toString(), 'event: values\ndata: 1\n\n')
  t.end()
})

t.test('hosts: loopback names pass always, others by list, rebinding names never', t => {
  const guard = hostGuard(readConfig({}, { allowed_hosts: 'weft.example, other.example:8080' }))
  for (const host of [
    'localhost',
    'localhost:2024',
    '127.0.0.1:1',
    '127.1.2.3',
    '[::1]:9',
    'LOCALHOST',
    'app.localhost',
  ]) {
    t.equal(guard(host), null, host)
  }
  for (const host of ['weft.example', 'weft.example:99', 'other.example:8080']) t.equal(guard(host), null, host)
  for (const host of [
    'evil.example',
    'other.example',
    'localhost.evil.example',
    '127.0.0.1.evil.example',
    '10.0.0.1',
  ]) {
    t.match(guard(host), { status: 403 }, host)
  }
  const open = hostGuard(readConfig({}, { host: '0.0.0.0' }))
  t.equal(open('anything.example'), null, 'no list, no loopback: not checked')
  t.match(hostGuard(readConfig({}, { host: '0.0.0.0', allowed_hosts: 'a.example' }))('b.example'), { status: 403 })
  t.end()
})

t.test('a Host is a name or an address with a port, on every server', t => {
  const open = hostGuard(readConfig({}, { allowed_hosts: '*' }))
  const good = [
    'a.example.',
    'a_b-c.example',
    'xn--bcher-kva.example',
    '[2001:db8::1]',
    '[::ffff:1.2.3.4]:80',
    'a:65535',
  ]
  for (const host of good) t.equal(open(host), null, host)
  for (const host of [
    'x/admin?.localhost',
    'x?.localhost',
    'x#.localhost',
    'a@b.localhost',
    'a\\b.localhost',
    'a b.localhost',
    'a\tb',
    'a%2fb',
    'a,b',
    'a..b',
    '.a',
    'bücher.example',
    'a:',
    'a:b',
    'a:65536',
    'a:999999',
    'a:1:2',
    '::1',
    '[::1',
    '[::1]x',
    '[::g]',
    '[1::2::3]',
    '1.2.3.4.5',
    '999.1.1.1',
    'http://a',
  ]) {
    t.match(open(host), { status: 400, detail: /^Host: expected/ }, host)
  }
  t.end()
})

t.test('loopback is exact: what has more in it than a name or an address is none', t => {
  for (const host of [
    'localhost',
    'LOCALHOST',
    'a.localhost',
    'a_1.b-c.localhost',
    '127.0.0.1',
    '127.255.1.20',
    '::1',
    '[::1]',
  ])
    t.ok(isLoopback(host), host)
  for (const host of [
    '0.0.0.0',
    '::',
    'localhost.',
    '.localhost',
    'a..localhost',
    'x/y.localhost',
    'x?.localhost',
    'x@y.localhost',
    'a b.localhost',
    'a.localhost\n',
    '127.0.0.256',
    '127.0.0.01',
    '127.0.0',
    '127.0.0.1:80',
    '1127.0.0.1',
  ])
    t.notOk(isLoopback(host), host)
  t.end()
})

t.test('content types of the control plane', t => {
  for (const type of ['application/json', 'application/json; charset=utf-8', 'Application/JSON'])
    t.ok(isStrictJson(type), type)
  for (const type of [
    '',
    'text/plain;charset=UTF-8',
    'text/html',
    'application/x-www-form-urlencoded',
    'application/jsonp',
  ])
    t.notOk(isStrictJson(type), type)
  t.end()
})
