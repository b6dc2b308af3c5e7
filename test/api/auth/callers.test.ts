/** Authentication of requests, what graphs see of their caller, and what handlers can do to a request. */
import { randomUUID } from 'node:crypto'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import t from 'tap'
import { root } from '../../../scripts/root.js'
import { startCluster, startRoles } from '../../helpers/cluster.js'
import { sender } from '../../helpers/http.js'

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
const bearer = (name: string, wish?: string) => ({
  authorization: `Bearer ${name}`,
  ...(wish === undefined ? {} : { 'x-wish': wish }),
})

const cluster = await startCluster({ app: 'test/apps/auth', env: { WEFT_CRON_SECONDS: '1' } })
t.teardown(() => cluster.stop())
const send = sender(cluster.url)
const as = (name: string, method: string, path: string, body?: unknown, wish?: string) =>
  send(method, path, body, bearer(name, wish))
const threadOf = async (name: string) =>
  ((await as(name, 'POST', '/threads', {})).body as { thread_id: string }).thread_id

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

t.test('whatever goes wrong in a handler, the request does not pass', async t => {
  const thread_id = await threadOf('alice')
  const wishes = ['throw', 'nothing', 'nonsense', 'number']
  for (const wish of [...wishes, ...['throw', 'number', 'list', 'operator', 'undefined'].map(one => `handler:${one}`)])
    for (const [method, path, body] of [
      ['GET', `/threads/${thread_id}`, undefined],
      ['POST', '/threads/search', {}],
      ['POST', '/threads', {}],
      ['POST', '/runs/stream', { assistant_id: 'echo' }],
      ['PUT', '/store/items', { namespace: ['alice'], key: 'k', value: {} }],
      ['GET', '/store/items?namespace=alice&key=k', undefined],
    ] as const) {
      const answer = await as('alice', method, path, body, wish)
      t.equal(answer.status, 500, `${wish}: ${method} ${path}`)
      t.notOk(JSON.stringify(answer.body).includes('secret'), 'the message stays inside')
    }
  t.equal((await as('alice', 'GET', `/threads/${thread_id}`, undefined, 'handler:false')).status, 403)
  const [slow, slower] = await Promise.all(
    ['hang', 'handler:hang'].map(wish => as('alice', 'GET', `/threads/${thread_id}`, undefined, wish)),
  )
  t.match([slow!.status, slower!.status], [500, 500])
})

t.test('the graph sees its caller, whatever the client sends', async t => {
  const forged = {
    langgraph_auth_user: { identity: 'mallory' },
    langgraph_auth_user_id: 'mallory',
    langgraph_auth_permissions: ['root'],
  }
  const assistant = (
    await as('alice', 'POST', '/assistants', {
      graph_id: 'seen_config',
      config: { configurable: forged },
      metadata: forged,
      context: {},
    })
  ).body as { assistant_id: string }
  const body = {
    assistant_id: assistant.assistant_id,
    input: {},
    config: { configurable: forged, metadata: forged },
    metadata: forged,
  }
  const headers = { ...bearer('alice'), 'x-weft-identity': 'mallory', langgraph_auth_user_id: 'mallory' }
  const ran = (await send('POST', '/runs/wait', body, headers)).body as { seen_config: { configurable: object } }
  const { configurable } = ran.seen_config
  t.match(configurable, {
    langgraph_auth_user: { identity: 'alice', permissions: ['alice:all'], display_name: 'alice' },
    langgraph_auth_user_id: 'alice',
    langgraph_auth_permissions: ['alice:all'],
    user_id: 'alice',
  })
  t.notOk(JSON.stringify(ran).includes('mallory'))

  const thread_id = await threadOf('alice')
  await as('alice', 'POST', `/threads/${thread_id}/runs/wait`, body)
  const runs = await as('alice', 'GET', `/threads/${thread_id}/runs`)
  t.notOk(/langgraph_auth/.test(JSON.stringify(runs.body)), 'a run does not show it')
  const history = await as('alice', 'GET', `/threads/${thread_id}/history`)
  const metadata = (history.body as { metadata: object }[]).map(state => state.metadata)
  t.notOk(/langgraph_auth/.test(JSON.stringify(metadata)), 'nor does a checkpoint')
})

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

t.test('a thread that a run makes belongs to its caller', async t => {
  const thread_id = randomUUID()
  const create = { assistant_id: 'echo', input: { text: 'x' }, if_not_exists: 'create' }
  t.equal((await as('alice', 'POST', `/threads/${thread_id}/runs/wait`, create)).status, 200)
  t.match((await as('alice', 'GET', `/threads/${thread_id}`)).body, { metadata: { owner: 'alice' } })
  t.equal((await as('bob', 'GET', `/threads/${thread_id}`)).status, 404)
  t.equal((await as('bob', 'POST', `/threads/${thread_id}/runs`, create)).status, 404, 'not even with if_not_exists')
  const run = (await as('alice', 'POST', '/runs', { assistant_id: 'slow', input: { ms: 3_000 } })).body as {
    run_id: string
  }
  for (const path of ['join', 'stream'])
    t.equal((await as('bob', 'GET', `/runs/${run.run_id}/${path}`)).status, 404, `a stateless run by its id: ${path}`)
  t.match((await as('bob', 'POST', '/runs/cancel', { status: 'all' })).status, 404, 'none of his')
  t.match((await as('alice', 'GET', `/runs/${run.run_id}/join`)).body, { done: true })
})

t.test('a run needs both of its events', async t => {
  const body = { assistant_id: 'echo', input: {} }
  for (const event of ['threads:create_run', 'assistants:read'])
    t.equal((await as('alice', 'POST', '/runs/wait', body, `deny ${event}`)).status, 403, event)
  t.equal((await as('alice', 'POST', '/runs/wait', body, 'deny threads:create')).status, 200)
})

t.test('namespaces are rewritten in all operations of the store', async t => {
  const item = { namespace: ['notes'], key: 'k', value: { mine: true } }
  t.equal((await as('carol', 'PUT', '/store/items', item)).status, 204)
  const namespace = ['of-carol', 'notes']
  t.match((await as('carol', 'GET', '/store/items?namespace=notes&key=k')).body, { namespace, value: { mine: true } })
  t.match((await as('carol', 'POST', '/store/items/search', { namespace_prefix: ['notes'] })).body, {
    items: [{ namespace }],
  })
  t.match((await as('carol', 'POST', '/store/items/search', {})).body, { items: [{ namespace }] })
  t.same((await as('carol', 'POST', '/store/namespaces', {})).body, { namespaces: [namespace] })
  t.same((await as('bob', 'GET', '/store/items?namespace=of-carol.notes&key=k')).status, 404)
  t.same((await as('bob', 'POST', '/store/items/search', {})).body, { items: [] })
  t.equal((await as('bob', 'PUT', '/store/items', { ...item, namespace: ['of-carol', 'notes'] })).status, 404)
  t.equal((await as('bob', 'PUT', '/store/items', { ...item, namespace: ['free'] })).status, 403)
  t.equal((await as('bob', 'PUT', '/store/items', { ...item, namespace: ['bob'] })).status, 204)
  t.equal((await as('bob', 'DELETE', '/store/items', { namespace: ['free'], key: 'k' })).status, 403)
  t.equal((await as('carol', 'DELETE', '/store/items', { namespace: ['notes'], key: 'k' })).status, 204)
  t.equal((await as('carol', 'GET', '/store/items?namespace=notes&key=k')).body, null)
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
  const open = await startCluster({ app: 'test/apps/auth', flags: ['--host', '0.0.0.0'] })
  t.teardown(() => open.stop())
  const ask = sender(open.url)
  t.equal((await ask('POST', '/threads', {}, bearer('alice'))).status, 200)
  for (const headers of [bearer('alice'), undefined])
    t.match(await ask('POST', '/deployments/other/threads', {}, headers), { status: 401, body: { detail: /key/ } })
  t.match(await ask('POST', '/threads', {}, { 'x-deployment-id': 'other' }), { status: 401, body: { detail: /key/ } })
  t.match(await send('POST', '/deployments/other/threads', {}), { status: 404 }, 'on loopback as without auth')
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
