/** `enable_custom_route_auth` against requests that two parsers read differently, as bytes. */
import { join } from 'node:path'
import t from 'tap'
import { root } from '../../../cli/root.js'
import { venvOf, withoutPython } from '../../../scripts/checks/venv.js'
import { startCluster, startRoles } from '../../helpers/cluster.js'
import { openRaw, request } from '../../helpers/raw.js'

t.setTimeout(180_000)

const skip = withoutPython() ?? false
const python: { [name: string]: string } =
  skip === false ? { WEFT_PYTHON: await venvOf(join(root, 'test/host-python/requirements.txt')) } : {}
const ADA = 'X-User: ada\r\n'
const UPGRADE =
  'Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n'

/** Sends one request; its status, and the body or what there is of it. */
async function answerOf(port: number, text: string): Promise<{ status: number; body: string }> {
  const raw = openRaw(port, Buffer.from(text, 'latin1'))
  const all = await raw.until(/\r\n\r\n[\s\S]*[}>]|^HTTP\/1\.1 (101|204|505)/)
  raw.socket.destroy()
  return { status: Number(/^HTTP\/1\.1 (\d+)/.exec(all)?.[1] ?? 0), body: all.slice(all.indexOf('\r\n\r\n')) }
}

const TARGETS = [
  '/docs/..\\custom\\hello\\x',
  '/docs/%2e%2e\\custom\\hello\\x',
  '/docs/.%2E\\custom\\hello\\x',
  '/docs/..%5ccustom%5Chello%5cx',
  '/console/..\\custom\\hello\\x',
  '/ui/x/..\\..\\custom\\hello\\x',
  '/ui/x/%2e%2e%2f%2e%2e%2fcustom%2fhello%2fx',
  '/docs/../custom/hello/x',
  '/docs/%2E%2e/custom/hello/x',
  '/./custom/hello/x',
  '/custom/%2e/hello/x',
  '//custom/hello/x',
  '/%2fcustom/hello/x',
  '/custom/hello/x#y',
  '/custom/hello/\xe4',
  '/custom/hello/%ff',
  '/custom/hello/%00',
  '/custom/hello/\x7f',
]
const HOSTS = [
  'x/custom/hello/x?.localhost',
  'x\\custom\\hello\\x?.localhost',
  'x#.localhost',
  'x@localhost',
  'localhost:99999',
  'localhost:80:80',
  'a,b.localhost',
  'a b.localhost',
  '[::1',
  'b\xfccher.localhost',
]
/** Paths that applications may have, and the parameter that they find in it. */
const NAMES: readonly [raw: string, name: string][] = [
  ['%C3%A4%20%E2%82%AC', 'ä €'],
  ['a+b:c@d,e=f', 'a+b:c@d,e=f'],
  ['x;v=1;w=2', 'x;v=1;w=2'],
  ['..b', '..b'],
  ['v1.2', 'v1.2'],
  ['.well-known', '.well-known'],
  ['...', '...'],
  ['100%25', '100%'],
]

for (const [kind, folder, where, skipped] of [
  ['a Hono application', 'custom-routes', 'built-in', false],
  ['a Hono application', 'custom-routes', 'beside the built-in one', false],
  ['a FastAPI application', 'custom-routes-py', 'built-in', skip],
] as const)
  t.test(`${kind} with auth, ${where}`, { skip: skipped }, async t => {
    const app = `test/apps/${folder}/guarded.json`
    let prefix = ''
    let url: string
    if (where === 'built-in') {
      const cluster = await startCluster({ app, env: python })
      t.teardown(() => cluster.stop())
      url = cluster.url
    } else {
      const roles = await startRoles({ app: 'test/apps/basic', env: python })
      t.teardown(() => roles.stop())
      await roles.add('graphs', ['--app', app, '--app-id', 'guarded'])
      url = roles.urls[0]!
      prefix = '/deployments/guarded'
    }
    const port = Number(new URL(url).port)
    const get = (target: string, headers = '') => answerOf(port, request('GET', prefix + target, headers))

    t.match(await get('/custom/hello/x'), { status: 401 })
    t.match(await get('/custom/hello/x', ADA), { status: 200, body: /"hello":"x"/ })

    await t.test('a target with a second meaning is refused, as a request and as a WebSocket', async t => {
      for (const target of TARGETS) {
        t.match(await get(target), { status: 400, body: /"detail":"The path / }, target)
        t.match(await get(target, ADA), { status: 400 }, `${target}, with a user`)
        t.match(await get(target, UPGRADE), { status: 400 }, `${target} as a WebSocket`)
      }
    })

    await t.test('a Host that is more than a name and a port is refused', async t => {
      for (const host of HOSTS)
        for (const more of ['', ADA, UPGRADE]) {
          const text = `GET ${prefix}/ok HTTP/1.1\r\nHost: ${host}\r\n${more}\r\n`
          t.match(await answerOf(port, text), { status: 400, body: /"detail":"Host: / }, `${host} ${more}`)
        }
    })

    await t.test('a target that is no path is not served', async t => {
      for (const target of ['http://localhost/custom/hello/x', 'localhost:80', '*', 'custom/hello/x'])
        t.equal((await answerOf(port, request('GET', target))).status, 505, target)
    })

    await t.test('a header that decides something may come once', async t => {
      for (const header of [
        'Authorization: a',
        'X-Api-Key: a',
        'X-Deployment-Id: guarded',
        'Content-Type: text/plain',
      ]) {
        const twice = `${header}\r\n${header}\r\n`
        t.match(await get('/custom/hello/x', ADA + twice), { status: 400, body: /More than one / }, header)
      }
      t.match(await get('/custom/hello/x', 'X-User: ada\r\nX-User: eve\r\n'), { status: 200 }, 'another one is a list')
    })

    await t.test('a request that names another application is not for this one', async t => {
      for (const name of ['a/b', 'none', '%67uarded']) {
        const { status, body } = await answerOf(
          port,
          request('GET', '/custom/hello/x', `${ADA}X-Deployment-Id: ${name}\r\n`),
        )
        t.ok([401, 404].includes(status) && !body.includes('"hello"'), `${name}: ${status}`)
      }
    })

    await t.test('headers of one connection end at the edge, and bytes beyond ASCII do not', async t => {
      for (const header of ['Trailer: x', 'TE: trailers', 'Upgrade: h2c', 'Expect: x', 'X-User: J\xc3\xb6\xe6\x97\xa5'])
        t.match(
          await get('/custom/hello/x', `${header.startsWith('X-User') ? '' : ADA}${header}\r\n`),
          { status: 200 },
          header,
        )
    })

    await t.test('a method that would become another one is refused', async t => {
      for (const method of ['get', 'Get', 'CONNECT', 'TRACE'])
        t.match(await answerOf(port, request(method, `${prefix}/custom/hello/x`, ADA)), { status: 400 }, method)
      // Paths for which each kind of application has no route.
      const { status } = await answerOf(port, request('PROPFIND', `${prefix}/custom/hello/x`, ADA))
      t.ok([404, 405].includes(status), `another one is passed on: ${status}`)
    })

    await t.test('the application gets paths and queries of all kinds as they were sent', async t => {
      for (const [raw, name] of NAMES) {
        const { status, body } = await get(`/custom/hello/${raw}?q=%2e%2e/%5C..%00`, ADA)
        t.equal(status, 200, raw)
        t.match(body, JSON.stringify(name).slice(1, -1), raw)
        t.match(body, JSON.stringify('../\\..\0').slice(1, -1), raw)
      }
      const { body } = await get(`/custom/hello/x?q=${Buffer.from('ä€#y').toString('latin1')}`, ADA)
      t.match(body, 'ä€#y')
      const slash = await get('/custom/hello/a%2Fb', ADA)
      // Starlette looks for a route of the decoded path.
      t.match(slash, folder === 'custom-routes' ? { status: 200, body: /"hello":"a\/b"/ } : { status: 404 })
    })

    await t.test('a route of the application in the place of a built-in one needs a user, too', async t => {
      t.match(await get('/threads/mine'), { status: 401 })
      t.match(await get('/threads/mine', ADA), { status: 200, body: /"mine":true/ })
      for (const path of ['/info', '/docs/page', '/ok', '/docs'])
        for (const user of ['', ADA]) {
          const { status, body } = await get(path, user)
          t.ok(status !== 401 && !body.includes('mine'), `${path}: Weft answers its public routes`)
        }
    })
  })

t.test('with middleware_first, too, an application gets no request without a user', async t => {
  const cluster = await startCluster({ app: 'test/apps/custom-routes/late.json' })
  t.teardown(() => cluster.stop())
  const port = Number(new URL(cluster.url).port)
  for (const path of ['/threads/mine', '/custom/hello/x', '/nowhere'])
    t.match(await answerOf(port, request('GET', path)), { status: 401 }, path)
  t.match(await answerOf(port, request('GET', '/threads/mine', ADA)), { status: 200, body: /"mine":true/ })
  t.match(await answerOf(port, request('GET', '/ok')), { status: 200 })
  t.match(await answerOf(port, request('GET', '/mcp/', ADA)), { status: 405 }, 'the other spelling of /mcp')
})
