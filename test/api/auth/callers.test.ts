/** Authentication of requests, what graphs see of their caller, and what handlers can do to a request. */
import { randomUUID } from 'node:crypto'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import t from 'tap'
import { root } from '../../../cli/root.js'
import { startCluster, startRoles } from '../../helpers/cluster.js'
import { sender } from '../../helpers/http.js'
import { bearer, callerOf, callerRows } from './caller-rows.js'

t.setTimeout(120_000)
const { WebSocket } = createRequire(join(root, 'package.json'))('ws') as {
  WebSocket: new (
    url: string,
    options?: object,
  ) => import('node:events').EventEmitter & {
    send(text: string): void
    close(): void
  }
}
const CONTROL = 'a-control-key-for-tests'
const cluster = await startCluster({
  app: 'test/apps/auth',
  env: { WEFT_CRON_SECONDS: '1', WEFT_CONTROL_KEY: CONTROL },
})
t.teardown(() => cluster.stop())
const { send, as, threadOf } = callerOf(cluster.url)

t.test('health and version need no caller, preflights are answered before authentication', async t => {
  for (const path of ['/ok', '/ready', '/info']) t.equal((await send('GET', path)).status, 200, path)
  const { status, headers } = await send('OPTIONS', '/threads', undefined, {
    origin: 'https://page.example',
    'access-control-request-method': 'POST',
  })
  t.equal(status, 204)
  t.equal(headers.get('access-control-allow-origin'), null, 'no page of another origin by default')
})

t.test('a refusal keeps its status and sentence', async t => {
  t.match(await send('POST', '/threads', {}), { status: 401, body: { detail: 'Who are you?' } })
  t.match(await send('POST', '/threads', {}, bearer('mallory')), { status: 401 })
})

t.test('users of the application create no keys of the server, which its operator does', async t => {
  const given = { name: 'x', scopes: ['deployments'] }
  t.match(await as('alice', 'POST', '/v2/keys', given), { status: 401, body: { detail: /key of the control plane/ } })
  const operator = { 'x-api-key': CONTROL }
  const { status, body } = await send('POST', '/v2/keys', given, operator)
  t.match([status, body], [201, { created_by: 'control' }], 'it asks for no keys, so the control key may')
  const { id, key } = body as { id: string; key: string }
  t.equal((await send('GET', '/v2/deployments', undefined, { 'x-api-key': key })).status, 200)
  t.match(await send('GET', '/v2/keys', undefined, { 'x-api-key': key }), { status: 403 })
  t.equal((await send('POST', '/threads', {}, { 'x-api-key': key })).status, 401, 'the auth of the application decides')
  t.equal((await send('DELETE', `/v2/keys/${id}`, undefined, operator)).status, 200)
  t.equal((await send('GET', '/v2/deployments', undefined, { 'x-api-key': key })).status, 401)
})

t.test('handlers decide, and graphs see the caller', t => callerRows(t, cluster.url))

t.test('a context does not make a caller', async t => {
  const open = await startCluster({ app: 'test/apps/basic' })
  t.teardown(() => open.stop())
  const context = { langgraph_auth_user: { identity: 'mallory' }, langgraph_auth_user_id: 'mallory', mine: 1 }
  const body = { assistant_id: 'seen_config', input: {}, context }
  const seen = (answer: { body: unknown }) =>
    (answer.body as { seen_config: { configurable: object } }).seen_config.configurable
  const unknown = seen(await sender(open.url)('POST', '/runs/wait', body))
  t.match(unknown, { mine: 1 })
  t.notOk(JSON.stringify(unknown).includes('langgraph_auth'), 'nobody called')
  t.match(seen(await as('alice', 'POST', '/runs/wait', body)), {
    mine: 1,
    langgraph_auth_user_id: 'alice',
    langgraph_auth_user: { identity: 'alice' },
  })
})

/** The answer to each command, by its id. */
async function socketOf(name: string, thread_id: string) {
  const socket = new WebSocket(`${cluster.url.replace('http', 'ws')}/threads/${thread_id}/stream/events`, {
    headers: bearer(name),
  })
  const answers = new Map<number, (answer: object) => void>()
  const events: string[] = []
  const closed = new Promise<never>((_, reject) =>
    socket.once('close', (code, why) => reject(new Error(`the WebSocket was closed: ${code} ${why}`))),
  )
  closed.catch(() => {})
  socket.on('message', (data: Buffer) => {
    const message = JSON.parse(data.toString()) as { id?: number }
    if (typeof message.id === 'number' && answers.has(message.id)) answers.get(message.id)!(message)
    else events.push(data.toString())
  })
  await new Promise((resolve, reject) => {
    socket.once('open', resolve)
    socket.once('error', reject)
    socket.once('unexpected-response', (_, { statusCode }) => reject(new Error(`${statusCode}`)))
  })
  let last = 0
  const command = (method: string, params: object) =>
    Promise.race([
      closed,
      new Promise<object>(resolve => {
        answers.set(++last, resolve)
        socket.send(JSON.stringify({ id: last, method, params }))
      }),
    ])
  return { command, events, closed, close: () => socket.close() }
}

t.test('every command of a WebSocket is authorized', async t => {
  const thread_id = await threadOf('alice')
  const mine = await socketOf('alice', thread_id)
  const other = await socketOf('bob', thread_id)
  t.teardown(() => [mine, other].forEach(socket => void socket.close()))
  const start = { assistant_id: 'echo', input: { text: 'hello' } }
  const subscribe = { channels: ['values'] }
  t.match(await other.command('subscription.subscribe', subscribe), { type: 'error' })
  t.match(await other.command('run.start', start), { type: 'error' })
  t.match(await other.command('state.get', { namespace: [] }), { type: 'error' })
  t.match(await other.command('agent.getTree', {}), { type: 'error' })
  t.match(await mine.command('subscription.subscribe', subscribe), { type: 'success' })
  t.match(await mine.command('run.start', start), { type: 'success' })
  await t.rejects(socketOf('mallory', thread_id), { message: '401' })

  // Bob waits on a thread that does not exist; Alice creates it later.
  const later = randomUUID()
  const early = await socketOf('bob', later)
  const owner = await socketOf('alice', later)
  t.teardown(() => [early, owner].forEach(socket => void socket.close()))
  t.match(await early.command('subscription.subscribe', subscribe), { type: 'success' })
  t.match(await owner.command('subscription.subscribe', subscribe), { type: 'success' })
  t.match(await owner.command('run.start', { ...start, input: { text: 'for alice' } }), { type: 'success' })
  while (!owner.events.some(event => event.includes('for alice')))
    await Promise.race([owner.closed, new Promise(done => setTimeout(done, 20))])
  t.match(await early.command('state.get', { namespace: [] }), { type: 'error' })
  t.same(early.events, [], 'nothing of it reaches Bob')
})

t.test('crons keep the identity of their creator', async t => {
  const cron = (
    await as('alice', 'POST', '/runs/crons', {
      assistant_id: 'seen_config',
      schedule: '* * * * * *',
      input: {},
      metadata: { from: 'cron' },
      on_run_completed: 'keep',
      config: { configurable: { langgraph_auth_user_id: 'mallory' } },
    })
  ).body as { cron_id: string; user_id: string }
  t.equal(cron.user_id, 'alice')
  t.notOk(/"user"/.test(JSON.stringify(cron)), 'the user object stays inside')
  t.same((await as('bob', 'POST', '/runs/crons/search', {})).body, [])
  const wanted = { metadata: { from: 'cron' }, status: 'idle' }
  let found: { values: { seen_config?: { configurable: object } } | null }[] = []
  while (!found[0]?.values?.seen_config) {
    await new Promise(done => setTimeout(done, 200))
    found = (await as('alice', 'POST', '/threads/search', wanted)).body as typeof found
  }
  t.match(found[0].values.seen_config.configurable, {
    langgraph_auth_user_id: 'alice',
    langgraph_auth_user: { identity: 'alice', permissions: ['alice:all'] },
    user_id: 'alice',
  })
  t.equal((await as('alice', 'DELETE', `/runs/crons/${cron.cron_id}`)).status, 204)
})

t.test('reachable from other machines, deployments beside a guarded application need a key', async t => {
  const env = { WEFT_CONTROL_KEY: CONTROL }
  const open = await startCluster({ app: 'test/apps/auth', flags: ['--host', '0.0.0.0'], env })
  t.teardown(() => open.stop())
  const ask = sender(open.url)
  t.equal((await ask('POST', '/threads', {}, bearer('alice'))).status, 200)
  for (const headers of [bearer('alice'), undefined])
    t.match(await ask('POST', '/deployments/other/threads', {}, headers), { status: 401, body: { detail: /key/ } })
  t.match(await ask('POST', '/threads', {}, { 'x-deployment-id': 'other' }), { status: 401, body: { detail: /key/ } })
  t.match(await send('POST', '/deployments/other/threads', {}), { status: 404 }, 'on loopback as without auth')
  const key = { 'x-api-key': CONTROL }
  t.equal((await sender(open.url)('GET', '/v2/keys', undefined, key)).status, 403, 'nor does the control key make one')
  t.equal((await sender(open.url)('GET', '/v2/deployments', undefined, key)).status, 200)
})

t.test('an edge that does not run the auth of the application serves none of it', async t => {
  const roles = await startRoles({ app: 'test/apps/auth' })
  t.teardown(() => roles.stop())
  const url = roles.urls[0]!
  for (const [method, path, body] of [
    ['POST', '/threads', {}],
    ['POST', '/threads/search', {}],
    ['POST', '/runs/wait', { assistant_id: 'echo', input: {} }],
    ['GET', '/assistants/echo', undefined],
    ['POST', '/store/items/search', {}],
  ] as const)
    t.match(await sender(url)(method, path, body, bearer('alice')), {
      status: 503,
      body: { detail: /does not run its "auth": start the edge with --app/ },
    })
})
