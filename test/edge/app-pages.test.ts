/** Headers of answers of applications, by the place where its pages are. test/browser/app-pages.test.ts has the pages. */
import t from 'tap'
import { openPages } from '../../edge/app/pages.js'
import type { Exchange } from '../../edge/http/exchange.js'
import { readConfig } from '../../schemas/config.js'

const pages = openPages(readConfig({ WEFT_CONSOLE_URL: 'https://console.example.com' }))
const at = (mount: object | null, path: string, host = 'localhost') => ({ mount, path, received: { host } }) as Exchange
const cookiesOf = (exchange: Exchange, ...cookies: string[]) =>
  pages.answerHeaders(
    exchange,
    cookies.map(cookie => ['Set-Cookie', cookie]),
  )
const SANDBOX = /^sandbox (?!.*same-origin).*allow-scripts/

t.test('a cookie of a deployment is for its paths', async t => {
  const one = { slug: 'one' }
  for (const [path, cookie, expected] of [
    ['/a/b', 'x=1', 'x=1; Path=/deployments/one/a'],
    ['/a', 'x=1', 'x=1; Path=/deployments/one'],
    ['/', 'x=1', 'x=1; Path=/deployments/one'],
    ['/a/b', 'x=1; Path=/', 'x=1; Path=/deployments/one'],
    ['/a/b', 'x=1; Path=/c', 'x=1; Path=/deployments/one/c'],
    ['/a/b', 'x=1; path=c', 'x=1; Path=/deployments/one/a'],
    ['/a/b', 'x=1; Path', 'x=1; Path=/deployments/one/a'],
    ['/a/b', 'x=1; Path=/c; PATH=/d', 'x=1; Path=/deployments/one/d'],
    ['/a/b', 'x=1; Path=/deployments/one/c', 'x=1; Path=/deployments/one/c'],
    ['/a/b', 'x=1; Path=/deployments/oneself', 'x=1; Path=/deployments/one/deployments/oneself'],
    ['/a/b', 'x=1; Path=/deployments/two', 'x=1; Path=/deployments/one/deployments/two'],
    ['/a/b', 'x=1; Domain=example.com; HttpOnly; Secure', 'x=1; HttpOnly; Secure; Path=/deployments/one/a'],
    ['/a/b', 'x=1; domain', 'x=1; Path=/deployments/one/a'],
  ] as const) {
    const [header, ...more] = cookiesOf(at(one, path), cookie)
    t.same(header, ['Set-Cookie', expected])
    t.match(more, [['Content-Security-Policy', SANDBOX]])
  }
  // Browsers ignore what they send no name for, so that these would be the cookie of a flow.
  for (const cookie of ['weft_oauth_0123456789abcdef=1', '__Host-weft_oauth_0123456789abcdef=1', ' = weft_oauth_01=1'])
    for (const mount of [one, null]) t.notMatch(cookiesOf(at(mount, '/a'), cookie), [['Set-Cookie', /./]], cookie)
  t.match(
    cookiesOf(at({ id: 'one' }, '/a'), 'x=1'),
    [['Content-Security-Policy', SANDBOX]],
    'without a path of its own',
  )
})

t.test('the built-in application has the root of the server, but nothing on the origin of the console', async t => {
  t.same(cookiesOf(at(null, '/a/b'), 'x=1; Path=/', 'y=2'), [
    ['Set-Cookie', 'x=1; Path=/'],
    ['Set-Cookie', 'y=2'],
  ])
  for (const mount of [null, { slug: 'one' }])
    t.match(cookiesOf(at(mount, '/a/b', 'console.example.com'), 'x=1'), [['Content-Security-Policy', SANDBOX]])
})

t.test('a service worker of the built-in application cannot control the root', async t => {
  for (const [exchange, may] of [
    [at(null, '/sw.js'), false],
    [at(null, '/a%2fsw.js'), false],
    [at(null, '/a/sw.js'), true],
    [at(null, '/a/sw.js', 'console.example.com'), false],
    [at({ slug: 'one' }, '/a/sw.js'), false],
  ] as const)
    t.equal(pages.mayServeWorker(exchange), may, exchange.path)
})

t.test('what the process of an application writes into a refusal is checked', async t => {
  const given = {
    'x-own': 'yes',
    'x-split': 'a\r\nset-cookie: b=1',
    'x:y': '1',
    '': '1',
    'x-wide': '\u{1f600}',
    'Content-Length': '3',
    'content-encoding': 'gzip',
  }
  t.same(pages.refusalHeaders(at(null, '/a'), given), { 'x-own': 'yes' })
})

t.test('an origin of the console that is no other one is refused at the start', async t => {
  for (const env of [
    { WEFT_CONSOLE_URL: 'console.example.com' },
    { WEFT_CONSOLE_URL: 'ftp://console.example.com' },
    { WEFT_CONSOLE_URL: 'https://console.example.com/weft' },
    { WEFT_CONSOLE_URL: 'https://user@console.example.com' },
    { WEFT_CONSOLE_URL: 'https://weft.example.com', WEFT_PUBLIC_URL: 'https://weft.example.com/base' },
  ])
    t.throws(() => readConfig(env), /WEFT_CONSOLE_URL must/, JSON.stringify(env))
  t.equal(readConfig({ WEFT_CONSOLE_URL: 'https://console.example.com/' }).console_url, 'https://console.example.com')
})
