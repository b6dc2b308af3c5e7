/** Built-in keys: made by the command, verified by the edge, with their scopes and limits, until they are revoked. */
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { root } from '../../../cli/root.js'
import { startCluster } from '../../helpers/cluster.js'
import { sender } from '../../helpers/http.js'
import { until } from '../../helpers/until.js'

t.setTimeout(120_000)
const run = promisify(execFile)
const require = createRequire(join(root, 'package.json'))
const { WebSocket } = require('ws') as {
  WebSocket: new (
    url: string,
    options?: object,
  ) => import('node:events').EventEmitter & { close(): void; send(text: string): void }
}
const { Client } = createRequire(join(root, 'test', 'sdk', 'package.json'))('sdk2') as {
  Client: new (options: { apiUrl: string; apiKey: string }) => import('@langchain/langgraph-sdk').Client
}

const CONTROL = 'a-control-key-for-tests'
// Bound to all addresses: a server that authenticates its callers needs no --insecure.
const cluster = await startCluster({
  app: 'test/apps/basic',
  env: { WEFT_REQUIRE_KEYS: '1', WEFT_CONTROL_KEY: CONTROL, WEFT_CRON_SECONDS: '1' },
  flags: ['--host', '0.0.0.0'],
})
t.teardown(() => cluster.stop())
const send = sender(cluster.url)

/** `weft keys …`, on the data folder of the cluster unless the arguments name one. */
const weft = async (...args: string[]) => {
  const env = { ...process.env, WEFT_REQUIRE_KEYS: '1', NODE_OPTIONS: '' }
  const data = args.includes('--data') || args.includes('--url') ? [] : ['--data', cluster.data]
  return run(process.execPath, [join(root, 'dist/cli/weft.js'), 'keys', ...args, ...data], { env })
}
const create = async (name: string, ...flags: string[]) => {
  const { stdout, stderr } = await weft('create', name, ...flags)
  return { key: stdout.trim(), id: /Key ([0-9a-f]{16})/.exec(stderr)![1]! }
}
const by = (key: string, method: string, path: string, body?: unknown) => send(method, path, body, { 'x-api-key': key })

t.test('the command refuses what it cannot carry out in one sentence', async t => {
  for (const [args, sentence] of [
    [['create', 'x'], /--scope must be one of read, run, write/],
    [['create', 'x', '--scope', 'all'], /not "all"/],
    [['create', 'x', '--scope', 'run', '--expires', 'soon'], /--expires must be as 12h, 30d or 2030-01-01/],
    [['create', 'x', '--scope', 'run', '--expires', '2001-01-01'], /expected a time in the future/],
    [['create', 'x', '--scope', 'run', '--running-runs', '0'], /--running-runs must be a number above 0/],
    [['revoke', '0123456789abcdef'], /Key ID 0123456789abcdef not found/],
    [['revoke'], /missing required argument 'id'/],
    [['frobnicate', 'x'], /unknown command 'frobnicate'/],
    [['list', '--data', '/nowhere'], /no server runs on the data folder \/nowhere: start it with `weft start`/],
  ] as const)
    t.match(
      await weft(...args).then(
        () => '',
        error => error.stderr,
      ),
      sentence,
      args.join(' '),
    )
})

t.test('the start says that requests need a key', async t => {
  t.match(cluster.output(), /Requests need a key: weft keys create NAME --scope run/)
  t.match(cluster.output(), /curl -N \S+ -H 'x-api-key: KEY'/)
})

t.test('only a key opens the server, and only for its scopes', async t => {
  for (const path of ['/ok', '/info']) t.equal((await send('GET', path)).status, 200, path)
  const none = await send('POST', '/threads', {})
  t.match(none, { status: 401, body: { detail: /needs a key in X-Api-Key/ } })
  t.equal(none.headers.get('www-authenticate'), 'Bearer')
  const { key } = await create('reader', '--scope', 'read')
  for (const wrong of [
    'x',
    CONTROL,
    `${key.slice(0, -1)}${key.endsWith('A') ? 'B' : 'A'}`,
    key.replace(/_[0-9a-f]{16}_/, '_0000000000000000_'),
  ])
    t.match(await by(wrong, 'POST', '/threads/search', {}), {
      status: 401,
      body: { detail: /not a key of this server/ },
    })
  t.equal((await by(key, 'POST', '/threads/search', {})).status, 200)
  const bearer = { authorization: `Bearer ${key}` }
  t.equal((await send('POST', '/assistants/search', {}, bearer)).status, 200)
  t.match(await by(key, 'POST', '/threads', {}), { status: 403, body: { detail: 'The key lacks the scope run' } })
  t.match(await by(key, 'PUT', '/store/items', {}), { status: 403, body: { detail: /scope write/ } })
  t.match(await by(key, 'GET', '/v2/deployments'), { status: 403, body: { detail: /lacks the scope deployments/ } })
  t.equal((await by(CONTROL, 'GET', '/v2/deployments')).status, 200)
  const deployer = await create('deployer', '--scope', 'deployments')
  t.equal((await by(deployer.key, 'GET', '/v2/deployments')).status, 200)
  t.equal((await by(deployer.key, 'POST', '/threads/search', {})).status, 403)
  const page = await send('POST', '/threads/search', {}, { 'x-api-key': key, origin: 'https://page.example' })
  t.equal(page.status, 403, 'no page of another origin')
})

t.test('an SDK with a key works, and its graph sees who called', async t => {
  const { key, id } = await create('application', '--scope', 'run')
  const client = new Client({ apiUrl: cluster.url, apiKey: key })
  const thread = await client.threads.create()
  const values = (await client.runs.wait(thread.thread_id, 'seen_config', { input: {} })) as {
    seen_config: { configurable: object }
  }
  t.match(values.seen_config.configurable, {
    langgraph_auth_user: { identity: id, display_name: 'application' },
    langgraph_auth_user_id: id,
    langgraph_auth_permissions: ['run'],
  })
  t.notOk(JSON.stringify(await client.runs.list(thread.thread_id)).includes(key))
})

t.test('who may only read a run cannot cancel it by leaving', async t => {
  const [reader, runner] = await Promise.all(['read', 'run'].map(scope => create(scope, '--scope', scope)))
  const slow = { assistant_id: 'slow', input: { ms: 20_000 } }
  const { run_id, thread_id } = (await by(runner!.key, 'POST', '/runs', slow)).body as {
    run_id: string
    thread_id: string
  }
  for (const path of [`/runs/${run_id}`, `/threads/${thread_id}/runs/${run_id}`])
    for (const join of ['stream', 'join'])
      t.match(await by(reader!.key, 'GET', `${path}/${join}?cancel_on_disconnect=true`), {
        status: 403,
        body: { detail: 'The key lacks the scope run' },
      })
  for (const { key } of [reader!, runner!]) {
    const query = key === runner!.key ? '?cancel_on_disconnect=true' : ''
    const joined = await fetch(`${cluster.url}/runs/${run_id}/stream${query}`, { headers: { 'x-api-key': key } })
    t.equal(joined.status, 200)
    await joined.body!.cancel()
  }
  t.match(await by(reader!.key, 'GET', `/runs/${run_id}/join`), { status: 200 }, 'it ends, because the last one left')
})

t.test('the key is not stored', async t => {
  const { key } = await create('secret', '--scope', 'read')
  await by(key, 'POST', '/threads/search', {})
  const secret = key.slice(-43)
  for (const name of readdirSync(cluster.data, { recursive: true, encoding: 'utf8' })) {
    const path = join(cluster.data, name)
    if (statSync(path).isFile()) t.notOk(readFileSync(path).includes(secret), name)
  }
  t.notOk(cluster.output().includes(secret), 'nor is it in the log')
})

t.test('limits of a key', async t => {
  const fast = await create('fast', '--scope', 'read', '--requests-per-second', '2')
  const answers = await Promise.all(Array.from({ length: 6 }, () => by(fast.key, 'POST', '/threads/search', {})))
  const refused = answers.filter(({ status }) => status === 429)
  t.ok(refused.length >= 3, `${refused.length} of 6 refused`)
  t.equal(refused[0]?.headers.get('retry-after'), '1')

  const busy = await create('busy', '--scope', 'run', '--running-runs', '2', '--open-streams', '1')
  const slow = { assistant_id: 'slow', input: { ms: 20_000 } }
  const creates = await Promise.all(Array.from({ length: 4 }, () => by(busy.key, 'POST', '/runs', slow)))
  t.same(creates.map(({ status }) => status).sort(), [200, 200, 429, 429])
  const over = creates.find(({ status }) => status === 429)!
  t.match(over.body, { detail: /has 2 runs that have not ended; its limit is 2/ })
  t.ok(over.headers.get('retry-after'))
  t.equal((await by(busy.key, 'POST', '/runs/batch', [slow])).status, 429)
  const [one] = creates
    .filter(({ status }) => status === 200)
    .map(({ body }) => body as { run_id: string; thread_id: string })
  const path = `/runs/${one!.run_id}/stream`
  const first = await fetch(`${cluster.url}${path}`, { headers: { 'x-api-key': busy.key } })
  t.equal(first.status, 200)
  t.match(await by(busy.key, 'GET', path), { status: 429, body: { detail: 'Too many open streams of this key' } })
  await first.body!.cancel()
  t.equal((await by(busy.key, 'POST', '/runs/cancel?wait=1', { status: 'all' })).status, 204)
  let status = 429
  while (status === 429) ({ status } = await by(busy.key, 'POST', '/runs/wait', { assistant_id: 'echo', input: {} }))
  t.equal(status, 200, 'ended runs do not count')
})

t.test('every way to create a run counts for the limit of the key', async t => {
  const { key } = await create('every way', '--scope', 'write', '--running-runs', '1')
  const { thread_id } = (await by(key, 'POST', '/threads', {})).body as { thread_id: string }
  const slow = { assistant_id: 'slow', input: { ms: 60_000 } }
  const { body: open } = await by(key, 'POST', `/threads/${thread_id}/runs`, slow)
  const says = /has 1 runs that have not ended; its limit is 1/
  const refused = { status: 429, body: { detail: says } }
  for (const thread of ['', `/threads/${thread_id}`])
    for (const way of ['/runs', '/runs/stream', '/runs/wait'])
      t.match(await by(key, 'POST', thread + way, slow), refused, thread + way)
  t.match(await by(key, 'POST', '/runs/batch', [slow]), refused)
  t.match(await by(key, 'POST', `/threads/${thread_id}/runs`, { ...slow, after_seconds: 60 }), refused, 'delayed')
  const command = { id: 1, method: 'run.start', params: { assistant_id: 'slow', input: { ms: 1 } } }
  t.match((await by(key, 'POST', `/threads/${thread_id}/commands`, command)).body, { type: 'error', message: says })
  const { assistant_id } = (await by(key, 'GET', '/assistants/slow')).body as { assistant_id: string }
  const message = { role: 'user', messageId: 'm', parts: [{ kind: 'data', data: { ms: 1 } }] }
  const rpc = (method: string, params: object) => ({ jsonrpc: '2.0', id: 1, method, params })
  const headers = { 'x-api-key': key, accept: 'application/json, text/event-stream' }
  const a2a = await send('POST', `/a2a/${assistant_id}`, rpc('message/send', { message }), headers)
  t.match([a2a.status, JSON.stringify(a2a.body)], [429, says])
  const mcp = await send('POST', '/mcp', rpc('tools/call', { name: 'slow', arguments: { ms: 1 } }), headers)
  t.match(JSON.stringify([mcp.status, mcp.body]), says)
  const runs = (await by(key, 'GET', `/threads/${thread_id}/runs`)).body as object[]
  t.same(
    runs.map(run => (run as { run_id: string }).run_id),
    [(open as { run_id: string }).run_id],
  )
  const cancel = `/threads/${thread_id}/runs/${(open as { run_id: string }).run_id}/cancel?wait=1`
  t.equal((await by(key, 'POST', cancel)).status, 204)
})

t.test('the command works over HTTP, with a key that has the scope admin', async t => {
  const admin = await create('admin of --url', '--scope', 'admin')
  const at = (key: string) => ['--url', cluster.url, '--key', key]
  const made = await create('by --url', '--scope', 'read', ...at(admin.key))
  t.equal((await by(made.key, 'POST', '/threads/search', {})).status, 200)
  t.match((await weft('list', ...at(admin.key))).stdout, new RegExp(`^${made.id} +by --url +read`, 'm'))
  t.match((await weft('revoke', made.id, ...at(admin.key))).stdout, `revoked ${made.id}`)
  t.equal((await by(made.key, 'POST', '/threads/search', {})).status, 401)
  for (const [key, sentence] of [
    [CONTROL, /The key of the control plane creates no keys where requests need one/],
    ['wrong', /not the key of the control plane, nor a key/],
  ] as const)
    await t.rejects(weft('create', 'x', '--scope', 'read', ...at(key)), { code: 1, stderr: sentence })
})

t.test('the command asks at the broker as an edge, too, and not as a user who gets no answer', async t => {
  const passwords = JSON.parse(readFileSync(join(cluster.data, 'nats-users.json'), 'utf8'))
  const { port } = JSON.parse(readFileSync(join(cluster.data, 'nats-server.json'), 'utf8')) as { port: number }
  const createAs = (user: string) =>
    run(process.execPath, [join(root, 'dist/cli/weft.js'), 'keys', 'create', `by ${user}`, '--scope', 'read'], {
      env: { ...process.env, NODE_OPTIONS: '', NATS_URL: `nats://${user}:${passwords[user]}@127.0.0.1:${port}` },
    })
  t.match((await createAs('edge')).stdout, /^weft_/)
  for (const user of ['graphs', 'deployer'])
    await t.rejects(createAs(user), {
      code: 2,
      stderr: `weft: the user "${user}" in NATS_URL may not manage keys: use "resources" or "edge", or call the server with --url and --key\n`,
    })
  const all = (await weft('list')).stdout
  t.match(all, 'by edge')
  t.notMatch(all, /by (graphs|deployer)/, 'nothing was created')
})

t.test('keys are created, listed and revoked over HTTP, by a key with the scope admin', async t => {
  const admin = await create('admin', '--scope', 'admin', '--running-runs', '9')
  const given = { name: 'over HTTP', scopes: ['read'], limits: { running_runs: 9 }, unknown: 1 }
  const made = await by(admin.key, 'POST', '/v2/keys', given)
  t.match(made, {
    status: 201,
    body: { name: 'over HTTP', scopes: ['read'], created_by: admin.id, expires_at: null, last_used_at: null },
  })
  t.equal(made.headers.get('cache-control'), 'no-store')
  const { id, key } = made.body as { id: string; key: string }
  t.equal((await by(key, 'POST', '/threads/search', {})).status, 200, 'it works')

  const listed = (await by(admin.key, 'GET', '/v2/keys?limit=2')).body as {
    resources: { id: string }[]
    offset: number
  }
  t.match(listed, { resources: [{ id, limits: { running_runs: 9, open_streams: null } }, { id: admin.id }], offset: 2 })
  for (const secret of [key, admin.key]) t.notOk(JSON.stringify(listed).includes(secret.slice(-43)))
  t.notMatch(listed, { resources: [{ sha256: /./ }] })
  const newest = (await weft('list')).stdout.trim().split('\n').at(-1)!
  t.match(newest, new RegExp(`^${id}  over HTTP`), 'the command shows it, too')

  for (const [scope, status] of [
    ['deployments', 403],
    ['write', 403],
  ] as const) {
    const other = await create(scope, '--scope', scope)
    for (const [method, path, body] of [
      ['GET', '/v2/keys'],
      ['POST', '/v2/keys', given],
      ['DELETE', `/v2/keys/${id}`],
    ] as const)
      t.match(await by(other.key, method, path, body), { status, body: { detail: 'The key lacks the scope admin' } })
  }
  t.match(await by(CONTROL, 'POST', '/v2/keys', given), { status: 403, body: { detail: /weft keys create/ } })
  t.equal((await send('GET', '/v2/keys')).status, 401)
  t.match(await by(admin.key, 'POST', '/v2/keys', { ...given, limits: {} }), {
    status: 403,
    body: { detail: 'limits.running_runs: expected at most that of the creating key, 9' },
  })
  t.match(await by(admin.key, 'POST', '/v2/keys', { ...given, scopes: ['all'] }), {
    status: 422,
    body: { detail: [{ loc: ['body', 'scopes', 0] }] },
  })
  const past = { ...given, expires_at: '2001-01-01T00:00:00Z' }
  t.match(await by(admin.key, 'POST', '/v2/keys', past), { status: 422, body: { detail: /time in the future/ } })
  t.equal((await by(admin.key, 'GET', '/deployments/built-in/v2/keys')).status, 404, 'a deployment has none')

  t.match(await by(admin.key, 'DELETE', `/v2/keys/${id}`), { status: 200, body: { id, paused_crons: 0 } })
  t.equal((await by(key, 'POST', '/threads/search', {})).status, 401)
  t.match(await by(admin.key, 'DELETE', `/v2/keys/${id}`), { status: 404, body: { detail: `Key ID ${id} not found.` } })
  const slow = await create('slow', '--scope', 'admin', '--requests-per-second', '0.1')
  t.equal((await by(slow.key, 'GET', '/v2/keys')).status, 200)
  const second = await by(slow.key, 'GET', '/v2/keys')
  t.equal(second.status, 429)
  t.ok(Number(second.headers.get('retry-after')) > 1)
})

t.test('crons fire within the limit of their key, and only while it is valid', async t => {
  const busy = await create('busy crons', '--scope', 'write', '--running-runs', '1')
  const next = await create('next', '--scope', 'write')
  interface Found {
    cron_id: string
    paused_reason?: string
    run_id: string | null
    error: string | null
  }
  const made: Found[] = []
  for (let n = 0; n < 3; n++) {
    const cron = { assistant_id: 'slow', schedule: '* * * * * *', input: { ms: 60_000 } }
    made.push((await by(busy.key, 'POST', '/runs/crons', cron)).body as Found)
  }
  const firings = async () => {
    const lists = await Promise.all(
      made.map(({ cron_id }) => by(next.key, 'GET', `/runs/crons/${cron_id}/firings`).then(({ body }) => body)),
    )
    return lists as Found[][]
  }
  const all = await until(async () => {
    const found = await firings()
    return found.every(list => list.length >= 2) && found.flat()
  })
  t.equal(all.filter(({ run_id }) => run_id !== null).length, 1, 'one run is open at any time')
  t.match(
    all.find(({ error }) => error !== null),
    { error: `The key ${busy.id} has 1 runs that have not ended; its limit is 1` },
  )
  t.match((await weft('revoke', busy.id)).stdout, /^revoked \w+: .*\npaused 3 crons that fired with it/)
  const read = async ({ cron_id }: Found) => (await by(next.key, 'GET', `/runs/crons/${cron_id}`)).body
  const why = `Its key ${busy.id} was revoked`
  for (const cron of made) t.match(await read(cron), { enabled: false, paused_reason: why })
  const paused = (await by(next.key, 'POST', '/runs/crons/search', { enabled: false })).body as Found[]
  t.same(new Set(paused.map(({ paused_reason }) => paused_reason)), new Set([why]))

  const [one] = made as [Found]
  const patch = { enabled: true, input: {}, schedule: '* * * * * *' }
  t.match(await by(next.key, 'PATCH', `/runs/crons/${one.cron_id}`, patch), { status: 200, body: { user_id: next.id } })
  t.match((await weft('revoke', next.id, '--json')).stdout, `"paused_crons": 1`)
  const admin = await create('stop', '--scope', 'admin')
  t.equal((await by(admin.key, 'POST', '/runs/cancel', { status: 'all' })).status, 204)
})

t.test('an expired key opens nothing on its WebSocket, which ends later', async t => {
  const admin = await create('maker', '--scope', 'admin')
  const expires_at = new Date(Date.now() + 2_000).toISOString()
  const made = await by(admin.key, 'POST', '/v2/keys', { name: 'brief', scopes: ['run'], expires_at })
  const { key } = made.body as { key: string }
  const { thread_id } = (await by(key, 'POST', '/threads', {})).body as { thread_id: string }
  const path = `${cluster.url.replace('http', 'ws')}/threads/${thread_id}/stream/events`
  const socket = new WebSocket(path, { headers: { 'x-api-key': key } })
  t.teardown(() => socket.close())
  await new Promise(done => socket.once('open', done))
  const answers: { type: string; error?: string; message?: string }[] = []
  let closed = false
  socket.on('close', () => (closed = true))
  socket.on('message', (data: Buffer) => void answers.push(JSON.parse(data.toString())))
  for (let id = 1; answers.at(-1)?.type !== 'error' && !closed; id++) {
    socket.send(JSON.stringify({ id, method: 'state.get', params: { namespace: [] } }))
    await until(() => answers.length >= id || closed)
  }
  t.equal(answers[0]?.type, 'success')
  t.match(answers.at(-1), { error: 'permission_denied', message: /was revoked or has expired/ })
})

t.test('a revoked key opens nothing, and its streams end with a reason', async t => {
  const { key, id } = await create('short', '--scope', 'run')
  t.match((await weft('list')).stdout, new RegExp(`${id}  short +run +never`))
  const headers = { 'x-api-key': key, 'content-type': 'application/json' }
  const slow = JSON.stringify({ assistant_id: 'slow', input: { ms: 30_000 }, on_disconnect: 'cancel' })
  const post = (path: string) => fetch(`${cluster.url}${path}`, { method: 'POST', headers, body: slow })
  const { thread_id } = (await by(key, 'POST', '/threads', {})).body as { thread_id: string }
  const [streamed, waited, thread] = await Promise.all([
    post('/runs/stream'),
    post('/runs/wait'),
    fetch(`${cluster.url}/threads/${thread_id}/stream`, { headers }),
  ])
  const socket = new WebSocket(`${cluster.url.replace('http', 'ws')}/threads/${thread_id}/stream/events`, { headers })
  const closed = new Promise<[number, string]>(resolve =>
    socket.once('close', (code: number, reason: Buffer) => resolve([code, reason.toString()])),
  )
  await new Promise(done => socket.once('open', done))
  t.match((await weft('revoke', id)).stdout, /revoked/)
  const error = { error: 'Unauthorized', message: /was revoked or has expired/ }
  for (const response of [streamed, thread]) {
    const events = (await response.text()).split('\n\n').filter(Boolean)
    t.match(events.at(-1), /(^|\n)event: error\ndata: /)
    t.match(JSON.parse(events.at(-1)!.split('data: ')[1]!), error)
  }
  t.match(JSON.parse(await waited.text()), { __error__: error })
  t.match(await closed, [4401, /was revoked/])
  t.equal((await by(key, 'POST', '/threads/search', {})).status, 401)
  t.notMatch((await weft('list')).stdout, id)
})
