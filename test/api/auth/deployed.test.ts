/** An `auth` beside the built-in application, on a server that asks everybody else for a key. */
import { createRequire } from 'node:module'
import { join } from 'node:path'
import t from 'tap'
import { root } from '../../../cli/root.js'
import { startRoles } from '../../helpers/cluster.js'
import { sender } from '../../helpers/http.js'

const { WebSocket } = createRequire(join(root, 'package.json'))('ws') as {
  WebSocket: new (url: string, options?: object) => import('node:events').EventEmitter & { close(): void }
}

t.setTimeout(120_000)
t.test('an application that graph workers serve under a name brings its own auth', async t => {
  const roles = await startRoles({ app: 'test/apps/basic', env: { WEFT_REQUIRE_KEYS: '1' } })
  t.teardown(() => roles.stop())
  const worker = await roles.add('graphs', ['--app', 'test/apps/auth', '--app-id', 'guarded'])
  await roles.add('graphs', ['--app', 'test/apps/other', '--app-id', 'open'])
  const send = sender(roles.urls[0]!)
  const as = (user: string, method: string, path: string, body?: unknown) =>
    send(method, `/deployments/guarded${path}`, body, { authorization: `Bearer ${user}` })

  await t.test('it decides alone; what has none needs a key, and who has none learns nothing', async t => {
    t.match(await send('POST', '/deployments/guarded/threads', {}), { status: 401, body: { detail: 'Who are you?' } })
    t.equal((await as('alice', 'POST', '/threads', {})).status, 200)
    const refused = await Promise.all(
      ['', '/deployments/open', '/deployments/unknown'].map(prefix => send('POST', `${prefix}/threads`, {})),
    )
    for (const { status, body } of refused) t.match([status, body], [401, { detail: /needs a key/ }])
    t.equal((await send('POST', '/deployments/open/threads', {}, { authorization: 'Bearer alice' })).status, 401)
  })

  await t.test('a handler that fails lets nothing pass', async t => {
    for (const wish of ['throw', 'nothing', 'nonsense', 'handler:throw', 'handler:number', 'handler:operator'])
      t.equal(
        (
          await send(
            'POST',
            '/deployments/guarded/threads/search',
            {},
            {
              authorization: 'Bearer alice',
              'x-wish': wish,
            },
          )
        ).status,
        500,
        wish,
      )
  })

  await t.test('commands on a WebSocket are authorized one by one', async t => {
    const { thread_id } = (await as('alice', 'POST', '/threads', { metadata: {} })).body as { thread_id: string }
    const open = (headers: object) =>
      new WebSocket(`${roles.urls[0]!.replace('http', 'ws')}/deployments/guarded/threads/${thread_id}/stream/events`, {
        headers,
      })
    const refused = open({})
    const [, answer] = await new Promise<[unknown, { statusCode: number }]>((done, fail) => {
      refused.on('unexpected-response', (...all) => done(all as never))
      refused.on('error', fail)
    })
    t.equal(answer.statusCode, 401)
    const socket = open({ authorization: 'Bearer alice' })
    const said = new Promise<string>((done, fail) => {
      socket.on('message', bytes => done(`${bytes}`))
      socket.on('close', (code, reason) => fail(new Error(`closed: ${code} ${reason}: ${worker.output()}`)))
    })
    await new Promise((done, fail) => {
      socket.on('open', done)
      socket.on('error', fail)
    })
    const command = { id: 1, method: 'run.start', params: { assistant_id: 'echo', input: { text: 'x' } } }
    ;(socket as unknown as { send(text: string): void }).send(JSON.stringify(command))
    t.match(JSON.parse(await said), { id: 1, type: 'success' })
    socket.close()
  })

  await t.test('without its graph worker nobody passes', async t => {
    await worker.stop()
    const answer = await as('alice', 'POST', '/threads', {})
    t.match([answer.status, answer.headers.get('retry-after')], [503, /^\d+$/])
    t.equal((await as('nobody', 'POST', '/threads', {})).status, 503)
  })
})
