/** Access to the control plane: its key, its content types, and the origins that may read its answers. */
import { readFileSync, rmSync, statSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import t from 'tap'
import { ROUTES } from '../../../edge/routes.js'
import { startCluster, startRoles } from '../../helpers/cluster.js'
import { github, KEY, openControl } from '../../helpers/control.js'
import { isShared } from '../../helpers/stores/store.js'
import { until } from '../../helpers/until.js'

t.setTimeout(180_000)

const LIST = '/v2/deployments'
const UUID = '00000000-0000-4000-8000-000000000000'
const controlRoutes = ROUTES.filter(({ control }) => control)

t.test('a generated key', async t => {
  const cluster = await startCluster()
  t.teardown(() => cluster.stop())
  const file = join(cluster.data, 'control.key')
  const key = readFileSync(file, 'utf8').trim()
  t.equal(statSync(file).mode & 0o777, 0o600)
  await until(() => cluster.output().includes(`stored in ${file}`))
  const status = async (headers: { [name: string]: string }, path = LIST) =>
    (await fetch(`${cluster.url}${path}`, { headers })).status

  await t.test('every route needs the key', async t => {
    t.ok(controlRoutes.length >= 20, `${controlRoutes.length} routes`)
    for (const { method, path, auth } of controlRoutes) {
      // A signature takes the place of the key (test/deploy/push.test.ts).
      if (auth === 'signed') continue
      const at = path.replace(/:\w+/g, UUID)
      const body = ['POST', 'PATCH'].includes(method) ? { body: '{}' } : {}
      const headers = { 'content-type': 'application/json' }
      for (const prefix of ['', '/api-host'])
        for (const more of [
          {} as { [name: string]: string },
          { 'x-api-key': 'wrong' },
          { 'x-api-key': '' },
          { authorization: `Basic ${key}` },
        ]) {
          const answer = await fetch(`${cluster.url}${prefix}${at}`, {
            method,
            headers: { ...headers, ...more },
            ...body,
          })
          t.equal(answer.status, 401, `${method} ${prefix}${path}`)
          t.equal(typeof ((await answer.json()) as { detail: unknown }).detail, 'string')
          t.equal(answer.headers.get('www-authenticate'), 'Bearer')
        }
    }
  })
  await t.test('the key in either header', async t => {
    t.equal(await status({ 'x-api-key': key }), 200)
    t.equal(await status({ authorization: `Bearer ${key}` }), 200)
    t.equal(await status({ authorization: `bearer ${key}`, 'x-tenant-id': UUID }), 200)
    t.equal(await status({ 'x-api-key': 'wrong', authorization: `Bearer ${key}` }), 401)
    t.equal(await status({ 'x-api-key': key.slice(0, -1) }), 401)
    t.equal(await status({ 'x-api-key': key }, '/api-host/v2/deployments'), 200)
    t.equal(await status({ 'x-api-key': key }, '/api-host/threads'), 404, 'nothing else is served below the prefix')
    t.equal(
      await status({ 'x-api-key': key }, '/deployments/some/v2/deployments'),
      404,
      'a deployment has no separate one',
    )
    t.equal(await status({ 'x-api-key': key, 'x-deployment-id': UUID }), 200)
  })
  await t.test('the run plane needs no key', async t => {
    t.equal(await status({}, '/ok'), 200)
  })
  await t.test('JSON only', async t => {
    const call = openControl(cluster.url, key)
    for (const type of [
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      'application/jsonp',
      'text/json',
    ])
      t.match(await call('POST', LIST, github('typed'), { 'content-type': type }), { status: 415 }, type)
    t.match(await call('POST', LIST, github('typed'), { 'content-type': 'Application/JSON; charset=utf-8' }), {
      status: 201,
    })
    t.match(
      await call('POST', LIST, '{"name": canary'),
      { status: 400, body: { detail: 'The body is not valid JSON' } },
      'the text is not quoted',
    )
    t.equal(await announced(cluster.url, key, 5 * 1024 * 1024), 413, 'no large bodies')
  })
  await t.test('a page of another origin cannot read an answer', async t => {
    const origin = 'https://evil.example'
    const answer = await fetch(`${cluster.url}${LIST}`, { headers: { 'x-api-key': key, origin } })
    t.equal(answer.headers.get('access-control-allow-origin'), null)
    for (const path of [LIST, `/api-host${LIST}`]) {
      const headers = {
        origin,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'x-api-key,content-type',
      }
      const preflight = await fetch(`${cluster.url}${path}`, { method: 'OPTIONS', headers })
      t.same(
        [...preflight.headers.keys()].filter(name => name.startsWith('access-control')),
        [],
      )
    }
    const open = await fetch(`${cluster.url}/ok`, { headers: { origin } })
    t.equal(open.headers.get('access-control-allow-origin'), '*', 'the run plane is open by default')
  })
  t.notOk(cluster.output().includes(key), 'the key is printed on a terminal only')
})

t.test('a configured key, and an edge that asks for the digest of a generated key', async t => {
  const page = 'https://console.example'
  const roles = await startRoles({ graphs: 0, env: { WEFT_CONTROL_KEY: KEY, CORS_ALLOW_ORIGINS: page } })
  t.teardown(() => roles.stop())
  const call = openControl(roles.urls[0]!)
  t.equal((await call('GET', LIST)).status, 200)
  t.equal((await openControl(roles.urls[0]!, 'another')('GET', LIST)).status, 401)
  t.throws(() => statSync(join(roles.nats.data, 'control.key')), 'no file is made')
  const allowed = await call('GET', LIST, undefined, { origin: page })
  t.equal(allowed.headers.get('access-control-allow-origin'), page, 'an origin that is named may read')

  const other = await startRoles({ graphs: 0, edges: 2 })
  t.teardown(() => other.stop())
  const made = readFileSync(join(other.nats.data, 'control.key'), 'utf8').trim()
  for (const url of other.urls) {
    t.equal((await openControl(url, 'wrong-key-that-is-long')('GET', LIST)).status, 401)
    t.equal((await openControl(url, made)('GET', LIST)).status, 200)
  }
  for (const { output } of [...other.edges, ...other.resources]) t.notMatch(output(), made)

  const [resources] = other.resources
  await resources!.stop()
  rmSync(join(other.nats.data, 'control.key'))
  await other.add('resources')
  if (isShared) {
    // The store keeps the digest for workers with other folders: the key continues to work.
    t.throws(() => statSync(join(other.nats.data, 'control.key')), 'no second key is made')
    const { port } = await other.add('edge')
    t.equal((await openControl(`http://127.0.0.1:${port}`, made)('GET', LIST)).status, 200)
    t.equal((await openControl(`http://127.0.0.1:${port}`, 'wrong-key-that-is-long')('GET', LIST)).status, 401)
    return
  }
  const fresh = readFileSync(join(other.nats.data, 'control.key'), 'utf8').trim()
  t.not(fresh, made)
  const call2 = openControl(other.urls[0]!, fresh)
  await until(async () => (await call2('GET', LIST)).status === 200)
  t.equal((await openControl(other.urls[0]!, made)('GET', LIST)).status, 401, 'a key that was replaced')
})

/** The status for an announced body of this size of which nothing is sent. */
const announced = (url: string, key: string, bytes: number): Promise<number> =>
  new Promise((resolve, reject) => {
    const headers = { 'x-api-key': key, 'content-type': 'application/json', 'content-length': bytes }
    const req = request(`${url}${LIST}`, { method: 'POST', headers })
    req.on('error', reject)
    req.on('response', answer => {
      answer.resume()
      resolve(answer.statusCode!)
      req.destroy()
    })
    req.flushHeaders()
  })

t.test('two keys during a rotation', async t => {
  const other = `${KEY}-the-next-one`
  const roles = await startRoles({ graphs: 0, edges: 0, env: { WEFT_CONTROL_KEY: `${KEY}, ${other}` } })
  t.teardown(() => roles.stop())
  const edges = [await roles.add('edge'), await roles.add('edge', undefined, { WEFT_CONTROL_KEY: '' })]
  for (const { port } of edges)
    for (const [key, status] of [
      [KEY, 200],
      [other, 200],
      [`${KEY}, ${other}`, 401],
      [`${KEY}x`, 401],
    ] as const) {
      const answer = await fetch(`http://127.0.0.1:${port}${LIST}`, { headers: { 'x-api-key': key } })
      t.equal(answer.status, status, key)
    }
})
