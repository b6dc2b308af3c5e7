import t from 'tap'
import { decodeParams, type Match, openRouter } from '../../edge/http/router.js'
import { ROUTES } from '../../edge/routes.js'

const router = openRouter(ROUTES)
const ID = '0198aaaa-0000-7000-8000-000000000001'
const found = (method: string, path: string) => router.find(method, path) as Match

t.test('every row is found by its path', t => {
  for (const route of ROUTES) {
    const path = route.path.replace(/:\w+/g, ID)
    t.equal(found(route.method, path).route, route, `${route.method} ${route.path}`)
    t.same(
      Object.keys(decodeParams(found(route.method, path))),
      [...route.path.matchAll(/:(\w+)/g)].map(one => one[1]),
    )
  }
  t.end()
})

t.test('a literal segment takes precedence over a parameter', t => {
  t.equal(found('GET', `/runs/${ID}/join`).route.answer, 'join-wait')
  t.equal(found('POST', '/runs/stream').route.mode, 'stream')
  t.end()
})

t.test('unknown paths are null, known paths list their methods', t => {
  for (const path of ['/nothing', '/threads/', '/threads//state', '/threads/a/b', '/runs/stream/', '//', '/ok/x']) {
    t.equal(router.find('GET', path), null, path)
  }
  t.equal(router.find('DELETE', '/threads'), 'POST, OPTIONS')
  t.equal(router.find('POST', '/ok'), 'GET, HEAD, OPTIONS')
  t.equal(router.find('HEAD', `/runs/${ID}/stream`), 'GET, OPTIONS')
  t.equal(found('HEAD', '/ok').route.answer, 'ok')
  t.end()
})

t.test('parameters are decoded once, after routing', t => {
  const of = (path: string) => decodeParams(found('GET', path))
  t.same(of('/assistants/a%2Fb'), { assistant_id: 'a/b' })
  t.same(of('/assistants/a%252Fb'), { assistant_id: 'a%2Fb' })
  t.throws(() => of('/threads/nope'), { code: 'invalid' })
  const bare = ID.replaceAll('-', '').toUpperCase()
  for (const spelled of [bare, `%7B${ID}%7D`, `urn:uuid:${ID}`]) t.same(of(`/threads/${spelled}`), { thread_id: ID })
  for (const wrong of [`${ID}0`, bare.slice(1), `uuid:${ID}`, `x${ID}`])
    t.throws(() => of(`/threads/${wrong}`), { code: 'invalid' }, wrong)
  t.throws(() => of(`/threads/${ID}/runs/1`), { code: 'invalid' })
  t.end()
})

t.test('two rows for the same method and path are refused', t => {
  t.throws(() => openRouter([ROUTES[0]!, ROUTES[0]!]), /two routes/)
  t.end()
})
