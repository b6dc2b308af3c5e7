/** `http.app`: routes and middleware of the application (docs/spec/application.md#routes). */
import { request } from 'node:http'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { root } from '../../../cli/root.js'
import type { WebhookDeliveries } from '../../../schemas/webhooks.js'
import { venvOf, withoutPython } from '../../../scripts/checks/venv.js'
import { type Roles, startCluster, startRoles } from '../../helpers/cluster.js'
import { sender } from '../../helpers/http.js'
import { lines } from '../../helpers/sdk.js'
import { until } from '../../helpers/until.js'

t.setTimeout(180_000)

const app = (name: string) => `test/apps/${name}.json`
const skip = withoutPython() ?? false
const python: { [name: string]: string } =
  skip === false ? { WEFT_PYTHON: await venvOf(join(root, 'test/host-python/requirements.txt')) } : {}

/** The server of the applications that are not built in, started by the first of them. */
let others: Promise<Roles> | null = null
t.teardown(async () => (await others)?.stop())

/** Served as the built-in application, and as one whose graph workers are its only home. */
const SERVERS: readonly [where: string, start: (t: Test, name: string) => Promise<string>][] = [
  [
    'built-in',
    async (t, name) => {
      const cluster = await startCluster({ app: app(name), env: python })
      t.teardown(() => cluster.stop())
      return cluster.url
    },
  ],
  [
    'beside the built-in one',
    async (_, name) => {
      others ??= startRoles({ app: 'test/apps/basic', env: python })
      const { urls, add } = await others
      const id = name.replace('/', '-')
      await add('graphs', ['--app', app(name), '--app-id', id])
      return `${urls[0]}/deployments/${id}`
    },
  ],
]

const [BUILT_IN, BESIDE] = SERVERS as [(typeof SERVERS)[number], (typeof SERVERS)[number]]

for (const [kind, folder, [where, start], skipped] of [
  ['a Hono application', 'custom-routes', BUILT_IN, false],
  ['a Hono application', 'custom-routes', BESIDE, false],
  ['a FastAPI application', 'custom-routes-py', BESIDE, skip],
] as const)
  t.test(`${kind}, ${where}`, { skip: skipped }, async t => {
    const url = await start(t, `${folder}/langgraph`)
    const send = sender(url)

    await t.test('its routes are served, and shadow built-in ones', async t => {
      const hello = await send('GET', '/custom/hello/ada%20b?q=1')
      t.match(hello, { status: 200, body: { hello: 'ada b', q: '1' } })
      t.equal(hello.headers.get('x-middleware'), 'yes')
      t.same((await send('GET', '/info')).body, { mine: true })
      // Cookies of a deployment are for its own paths.
      const ownPath = `${new URL(url).pathname}/custom`
      const moved = await fetch(`${url}/custom/cookies`, { redirect: 'manual' })
      t.match(
        [moved.status, moved.headers.get('location'), moved.headers.getSetCookie()],
        [
          302,
          '/elsewhere',
          ['a=1', 'b=2'].map(cookie => (where === 'built-in' ? cookie : `${cookie}; Path=${ownPath}`)),
        ],
      )
      t.equal((await fetch(`${url}/custom/hello/x`, { method: 'HEAD' })).status, 200)
    })

    await t.test(
      'its middleware wraps built-in routes: it adds headers, answers instead, changes the body',
      async t => {
        const made = await send('POST', '/threads', {})
        t.match(made, { status: 200, body: { status: 'idle' } })
        t.equal(made.headers.get('x-middleware'), 'yes')
        t.equal(made.headers.get('uwebsockets'), '20', 'the edge writes its headers once')
        t.notMatch(made.headers.get('date'), /GMT, /)
        const stopped = await fetch(`${url}/threads`, { method: 'POST', headers: { 'x-stop': '1' } })
        t.match([stopped.status, await stopped.text()], [418, 'stopped'])
        const run = await send('POST', '/runs/wait', { assistant_id: 'agent', input: { said: 'hi' } })
        t.match(run.body, { said: 'hi, changed' })
        for (const form of folder === 'custom-routes' ? ['text', 'request'] : [])
          t.match(
            await send('POST', '/runs/wait', { assistant_id: 'agent', input: { said: 'hi' } }, { 'x-form': form }),
            { body: { said: `hi, changed as ${form}` } },
          )
        t.match(await send('GET', '/threads/nonsense'), { status: 422 }, 'an error of a built-in route')
      },
    )

    await t.test('MCP behind its middleware serves its own graphs', async t => {
      const accept = { accept: 'application/json, text/event-stream' }
      const listed = await send('POST', '/mcp', { jsonrpc: '2.0', id: 1, method: 'tools/list' }, accept)
      const { tools } = (listed.body as { result: { tools: { name: string }[] } }).result
      t.same([listed.headers.get('x-middleware'), tools.map(({ name }) => name)], ['yes', ['agent']])
    })

    await t.test('what neither serves is 404 of the server, not of the application', async t => {
      t.match(await send('GET', '/nowhere'), { status: 404, body: { detail: /^Not found/ } })
      t.match(await send('DELETE', '/threads'), { status: 405 })
    })

    await t.test('bodies stream both ways', async t => {
      const large = Buffer.alloc(5_000_000, 'abc')
      const echo = await fetch(`${url}/custom/echo`, { method: 'POST', body: large })
      t.ok(Buffer.from(await echo.arrayBuffer()).equals(large))
      const ticks = await fetch(`${url}/custom/ticks`)
      const reader = ticks.body!.getReader()
      const read = async () => Buffer.from((await reader.read()).value ?? []).toString()
      t.equal(await read(), 'data: 0\n\n', 'it leaves at once')
      t.equal((await send('GET', '/custom/go-on')).status, 204)
      let rest = ''
      for (let part = await read(); part !== ''; part = await read()) rest += part
      t.equal(rest, 'data: 1\n\ndata: 2\n\n')
      t.equal(await chunkedEcho(url), 'one,two')
    })

    for (const { name, connect } of lines)
      await t.test(`${name}: a stream passes the middleware, and a client that leaves cancels its run`, async t => {
        const { threads, runs } = connect(url)
        const { thread_id } = await threads.create()
        const events: string[] = []
        for await (const { event } of runs.stream(thread_id, 'agent', {
          input: { said: 'x' },
          streamMode: ['custom', 'values'],
        }))
          events.push(event)
        t.ok(events.includes('custom') && events.includes('values'))
        const gone = new AbortController()
        const body = {
          assistant_id: 'agent',
          input: { said: 'x', wait: 60_000 },
          stream_mode: 'custom',
          on_disconnect: 'cancel',
        }
        const stream = await fetch(`${url}/threads/${thread_id}/runs/stream`, {
          method: 'POST',
          body: JSON.stringify(body),
          headers: { 'content-type': 'application/json' },
          signal: gone.signal,
        })
        await stream.body!.getReader().read()
        gone.abort()
        await until(async () => (await runs.list(thread_id))[0]?.status === 'interrupted')
      })

    await t.test('a webhook may name one of its routes', async t => {
      const body = { assistant_id: 'agent', input: { said: 'x' }, webhook: '/custom/hook?from=weft' }
      const { thread_id } = (await send('POST', '/threads', {})).body as { thread_id: string }
      const run = await send('POST', `/threads/${thread_id}/runs`, body)
      const { run_id } = run.body as { run_id: string }
      const hooks = async () => (await send('GET', '/custom/hooks')).body as { run_id: string }[]
      const hook = await until(async () => (await hooks()).find(one => one.run_id === run_id))
      t.match(hook, { status: 'success', query: 'weft', signed: true })
      // An answer arrives although the application has not read the body.
      for (let i = 0; i < 5; i++) {
        const missing = { ...body, webhook: '/nowhere' }
        const { run_id } = (await send('POST', `/threads/${thread_id}/runs`, missing)).body as { run_id: string }
        const first = await until(async () => {
          const { attempts } = (await send('GET', `/runs/${run_id}/webhook`)).body as WebhookDeliveries
          return attempts.find(({ ended_at }) => ended_at !== null)
        })
        t.match(first, { status: 404, error: null })
      }
    })

    await t.test('its WebSockets are served', async t => {
      const socket = await connectTo(url, '/custom/socket', { 'x-user': 'ada' })
      t.same(await socket.next(), ['hello ada', false])
      socket.ws.send('text')
      t.same(await socket.next(), ['text', false])
      socket.ws.send(Buffer.from('bytes'))
      t.same(await socket.next(), ['bytes', true])
      socket.ws.send('many')
      for (let i = 0; i < 200; i++) if (!(await socket.next())[0].startsWith(`${i} `)) t.fail(`message ${i}`)
      socket.ws.send('close')
      t.same(await socket.closed, [4000, 'as you wish'])
      const other = await connectTo(url, '/custom/socket')
      other.ws.close(4001, 'enough')
      await until(async () => ((await send('GET', '/custom/closed')).body as { code: number }).code === 4001)
      // A request for a WebSocket is no request for a route of ASGI.
      const plain = folder === 'custom-routes' ? 200 : 404
      t.equal(await refusalOf(url, '/custom/hello/x'), plain, 'a route without a WebSocket answers by itself')
      t.equal(await refusalOf(url, '/custom/socket', { 'x-stop': '1' }), 418, 'its middleware may refuse')
      t.equal(await refusalOf(url, '/nowhere'), 404)
      for (const names of ['a,a', 'a b', 'a,', '@'])
        t.equal(await refusalOf(url, '/custom/socket', { 'sec-websocket-protocol': names }), 400, names)
      // After an asynchronous check, one in about a thousand would be closed at once.
      for (let i = 0; i < 300; i++) {
        const one = await connectTo(url, '/custom/socket', { 'x-user': 'ada' })
        if ((await one.next())[0] !== 'hello ada') t.fail(`socket ${i}`)
        one.ws.close()
      }
      const cut = await connectTo(url, '/custom/socket')
      cut.ws.send('exit')
      t.same((await cut.closed)[0], 1011, 'its process ended')
      await until(async () => (await send('GET', '/custom/hello/x')).status === 200)
    })

    await t.test('its code calls the API without an address', async t => {
      t.match((await send('GET', '/custom/api')).body, { said: 'from a route' })
    })

    await t.test('an HTTPException keeps its answer; another error says nothing of itself', async t => {
      const refused = await fetch(`${url}/custom/refuse`)
      t.match([refused.status, await refused.text()], [409, 'my own refusal'])
      const thrown = await fetch(`${url}/custom/throw`)
      t.equal(thrown.status, 500)
      t.notMatch(await thrown.text(), /secret/)
    })

    await t.test('CORS: pages may read its answers as those of built-in routes', async t => {
      const headers = { origin: 'http://page.example' }
      for (const path of ['/custom/hello/x', '/ok']) {
        const answer = await fetch(url + path, { headers })
        t.equal(answer.headers.get('access-control-allow-origin'), '*', path)
      }
    })

    await t.test(
      'while it is started again, its requests and those that it wraps are 503; the control plane is not its',
      async t => {
        t.equal((await send('GET', '/custom/exit')).status, 503)
        await until(async () => (await send('GET', '/custom/hello/x')).status === 200)
        t.match((await send('GET', '/v2/deployments')).status, where === 'built-in' ? 401 : 404)
        t.notOk((await send('GET', '/v2/deployments')).headers.get('x-middleware'))
      },
    )
  })

for (const [folder, [where, start], skipped] of [
  ['custom-routes', BUILT_IN, false],
  ['custom-routes', BESIDE, false],
  ['custom-routes-py', BUILT_IN, skip],
] as const)
  t.test(`${folder} with auth: routes on request, and no way around it, ${where}`, { skip: skipped }, async t => {
    const url = await start(t, `${folder}/guarded`)
    const send = sender(url)
    const user = { 'x-user': 'ada' }
    t.match(await send('GET', '/custom/hello/x'), { status: 401, body: { detail: 'Who are you?' } })
    t.equal((await send('GET', '/custom/hello/x', undefined, user)).status, 200)
    t.equal((await send('POST', '/threads', {})).status, 401)
    t.equal((await send('POST', '/threads', {}, user)).status, 200)
    for (const header of ['x-weft-loopback', 'X-Weft-Loopback'])
      t.equal((await send('POST', '/threads', {}, { [header]: '1' })).status, 401, 'the network has no loopback')
    t.equal((await send('GET', '/ok')).status, 200, 'a public route stays public')
    t.match((await send('GET', '/custom/api', undefined, user)).body, { said: 'from a route' })
    t.equal(await refusalOf(url, '/custom/socket'), 401)
    const socket = await connectTo(url, '/custom/socket', user)
    t.same(await socket.next(), ['hello ada', false])
    socket.ws.close()
  })

for (const [where, start] of SERVERS)
  t.test(`an object with fetch: what it answers with 404 is served by the server, ${where}`, async t => {
    const url = await start(t, 'custom-routes/plain')
    const send = sender(url)
    const plain = await fetch(`${url}/plain`)
    t.match([plain.status, plain.headers.get('x-plain'), await plain.text()], [200, '1', 'plain'])
    const run = await send('POST', '/runs/wait', { assistant_id: 'agent', input: { said: 'with a body' } })
    t.match(run, { status: 200, body: { said: 'with a body' } })
    t.match(await send('GET', '/nowhere'), { status: 404, body: { detail: /^Not found/ } })
  })

type Headers = { [name: string]: string }

/** An open WebSocket; `next` resolves to the next message, and whether it is binary. */
async function connectTo(url: string, path: string, headers: Headers = {}) {
  const ws = new WebSocket(url.replace('http', 'ws') + path, [], { headers })
  const messages: [text: string, isBinary: boolean][] = []
  let wake = () => {}
  ws.on('message', (bytes, isBinary) => {
    messages.push([bytes.toString(), isBinary])
    wake()
  })
  const closed = new Promise<[code: number, reason: string]>(done =>
    ws.on('close', (code, reason) => done([code, reason.toString()])),
  )
  await new Promise<void>((resolve, reject) => ws.on('open', resolve).on('error', reject))
  const next = async () => {
    while (messages.length === 0) {
      const end = await Promise.race([new Promise<null>(done => (wake = () => done(null))), closed])
      if (end !== null && messages.length === 0) throw new Error(`closed with ${end[0]} ${end[1]}`)
    }
    return messages.shift()!
  }
  return { ws, next, closed }
}

/** The status of an upgrade that is refused. */
const refusalOf = (url: string, path: string, headers: Headers = {}): Promise<number> =>
  new Promise((resolve, reject) => {
    const ws = new WebSocket(url.replace('http', 'ws') + path, [], { headers })
    ws.on('unexpected-response', (_, answer) => resolve(answer.statusCode ?? 0))
    ws.on('open', () => reject(new Error('it was not refused')))
    ws.on('error', reject)
  })

/** A body in two chunks, without a length. */
function chunkedEcho(url: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const outgoing = request(`${url}/custom/echo`, { method: 'POST' }, async incoming => {
      let text = ''
      for await (const part of incoming) text += part
      resolve(text)
    })
    outgoing.on('error', reject)
    outgoing.write('one,')
    setTimeout(() => outgoing.end('two'), 50)
  })
}
