/** The check of request targets, by rows. */
import t from 'tap'
import { plainQuery, targetFault } from '../../edge/http/target.js'

const PASS = [
  '/',
  '/ok',
  '/assistants/a%2Fb',
  '/assistants/a%252Fb',
  '/assistants/a%252e%252e',
  '/a%20b+c:d@e',
  '/%E4%BD%A0%E5%A5%BD/%C3%A4',
  '/.well-known/agent-card.json',
  '/a/..b',
  '/a/b..',
  '/a/...',
  '/a/.b/c.',
  '/v1.2/x',
  '/a%2e/b',
  '/a;v=1/b;w=..;x',
  '/a/..;x=1/b',
  '/a//b',
  '/proxy/http://a.example/x',
  '/a/',
  `/a!$&'()*,=~_-|^"<>{}[]\``,
  '/100%25',
  '/a%3Fb%23c',
]

const REFUSED: readonly [path: string, why: RegExp][] = [
  ['/docs/..\\admin', /backslash/],
  ['/docs/%2e%2e\\admin', /backslash/],
  ['/docs/..%5cadmin', /backslash/],
  ['/docs/%5C', /backslash/],
  ['/a\x7f', /control/],
  ['/a\x01', /control/],
  ['/a%00', /control/],
  ['/a%0d%0a', /control/],
  ['/a%7F', /control/],
  ['/a\t', /control/],
  ['/..', /segment/],
  ['/.', /segment/],
  ['/a/./b', /segment/],
  ['/a/../b', /segment/],
  ['/a/%2e%2e/b', /segment/],
  ['/a/.%2E/b', /segment/],
  ['/a/%2E./b', /segment/],
  ['/a/%2e/b', /segment/],
  ['/a/..%2fb', /segment/],
  ['/a%2F..%2Fb', /segment/],
  ['/a%2f%2e', /segment/],
  ['//a', /two slashes/],
  ['/%2Fa', /two slashes/],
  ['//', /two slashes/],
  ['/a#b', /"#"/],
  ['/ä', /ASCII/],
  ['/a\ufffd', /ASCII/],
  ['/a b', /ASCII/],
  ['/%zz', /percent-encoded/],
  ['/%', /percent-encoded/],
  ['/a%2', /percent-encoded/],
  ['/%ff', /percent-encoded/],
  ['/%c0%ae%c0%ae/a', /percent-encoded/],
  ['/%ed%a0%80', /percent-encoded/],
]

t.test('paths that mean the same to everybody pass', async t => {
  for (const path of PASS) {
    t.equal(targetFault(path), null, path)
    // A target passes as a parser of WHATWG makes it, but for characters that it encodes.
    t.equal(decodeURIComponent(new URL(`http://localhost${path}`).pathname), decodeURIComponent(path), `${path} parsed`)
  }
})

t.test('other paths are refused with one sentence', async t => {
  for (const [path, why] of REFUSED) t.match(targetFault(path), why, path)
})

t.test('a path that passes is one and the same path to a parser of WHATWG, whatever it is made of', async t => {
  const parts = [
    '/',
    '.',
    '%2e',
    '%2E',
    '\\',
    '%5c',
    '%2f',
    'a',
    '#',
    '?',
    '%',
    '%00',
    '\x7f',
    ';',
    ':',
    '@',
    'ä',
    '%C3%A4',
  ]
  let passed = 0
  const look = (path: string, depth: number): void => {
    if (!path.includes('?') && targetFault(path) === null) {
      passed++
      const { pathname, hash, host } = new URL(`http://localhost${path}`)
      if (pathname !== path || hash !== '' || host !== 'localhost') t.fail(`${path} is ${pathname}`)
    }
    if (depth > 0) for (const part of parts) look(path + part, depth - 1)
  }
  look('/', 4)
  t.ok(passed > 1_000, `${passed} paths`)
})

t.test('odd characters of a query are encoded, and mean the same', async t => {
  for (const [query, plain] of [
    ['a=1&b=%20+..%5C\\&c=/../x?y', 'a=1&b=%20+..%5C\\&c=/../x?y'],
    ['q=ä€😀', 'q=%C3%A4%E2%82%AC%F0%9F%98%80'],
    ['a=x#y&b=1', 'a=x%23y&b=1'],
    ['a=\x7f', 'a=%7F'],
    ['', ''],
  ] as const) {
    t.equal(plainQuery(query), plain)
    t.same([...new URLSearchParams(plain)], [...new URLSearchParams(query)])
  }
})
