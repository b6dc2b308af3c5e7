/** The changes by `http` of langgraph.json at the edge (docs/spec/application.md#keys-of-http). */
import { isDeepStrictEqual as isDeepEqual } from 'node:util'
import t, { type Test } from 'tap'
import { bytesHandler } from '../../bus/serve.js'
import { openCors } from '../../edge/http/cors.js'
import { openPolicy } from '../../edge/http/policy.js'
import { type AppConfig, readAppConfig } from '../../schemas/application.js'
import { readConfig } from '../../schemas/config.js'
import { openStage, type Stage } from './stage.js'

const applicationWith = (http: object): AppConfig =>
  readAppConfig({
    path: '/app/langgraph.json',
    env: {},
    read: () => JSON.stringify({ graphs: { a: './a.js:a' }, http }),
  })

async function stageWith(t: Test, http: object): Promise<Stage> {
  const stage = await openStage({}, applicationWith(http))
  t.teardown(() => stage.close())
  return stage
}

const fields = (flat: readonly string[]) =>
  Object.fromEntries(flat.flatMap((name, i) => (i % 2 ? [] : [[name, flat[i + 1]]])))

t.test('a disabled group answers 404 to every method; the others are served', async t => {
  const ID = '0198aaaa-0000-7000-8000-000000000001'
  const groups: { [group: string]: [method: string, path: string][] } = {
    assistants: [
      ['POST', '/assistants/search'],
      ['GET', `/assistants/${ID}`],
      ['GET', `/assistants/${ID}/graph`],
    ],
    threads: [
      ['POST', '/threads'],
      ['GET', `/threads/${ID}`],
      ['GET', `/threads/${ID}/history`],
    ],
    runs: [
      ['POST', '/runs/wait'],
      ['GET', `/threads/${ID}/runs`],
      ['GET', `/threads/${ID}/stream`],
      ['POST', `/threads/${ID}/commands`],
    ],
    crons: [
      ['POST', '/runs/crons'],
      ['POST', `/threads/${ID}/runs/crons`],
      ['GET', `/runs/crons/${ID}`],
    ],
    store: [
      ['PUT', '/store/items'],
      ['POST', '/store/namespaces'],
    ],
    meta: [
      ['GET', '/'],
      ['GET', '/info'],
    ],
  }
  const isServed = async ({ port }: Stage, method: string, path: string) => {
    const body = method === 'GET' ? null : '{}'
    const controller = new AbortController()
    const { status } = await fetch(`http://127.0.0.1:${port}${path}`, { method, body, signal: controller.signal })
    controller.abort()
    return status !== 404
  }
  // No worker serves these nouns here: a route that is served is refused by a worker that is missing, not by the table.
  for (const off of ['threads', 'crons', 'meta']) {
    const stage = await stageWith(t, { [`disable_${off}`]: true })
    for (const [method, path] of groups[off]!) t.equal(await isServed(stage, method, path), false, `${off}: ${path}`)
    t.ok(await isServed(stage, 'GET', '/ok'), '/ok stays')
    t.equal((await fetch(`http://127.0.0.1:${stage.port}/ok?check_db=1`)).status, 200)
    if (off !== 'threads') t.ok(await isServed(stage, 'POST', '/threads'))
  }
  const { serves } = openPolicy(readConfig({}), applicationWith({ disable_runs: true }).http)
  t.notOk(serves(['runs', 'crons']), 'crons are runs')
  t.ok(serves(['threads']))
  t.ok(serves([]))
})

t.test('the flags of /info say what is served', async t => {
  const flagsOf = async (http: object) => {
    const { port } = await stageWith(t, http)
    return ((await (await fetch(`http://127.0.0.1:${port}/info`)).json()) as { flags: object }).flags
  }
  const sdk = { strict_resume: true, stream_namespaces: true, langsmith_tracing_replicas: true }
  t.same(await flagsOf({}), { ...sdk, assistants: true, crons: true, langsmith: false })
  t.same(await flagsOf({ disable_runs: true }), { ...sdk, assistants: true, crons: false, langsmith: false })
  t.same(await flagsOf({ disable_assistants: true }), { ...sdk, assistants: false, crons: true, langsmith: false })
})

t.test('a prefix is in front of every path of the application', async t => {
  const { port } = await stageWith(t, { mount_prefix: '/api/v1' })
  const status = async (path: string) => (await fetch(`http://127.0.0.1:${port}${path}`)).status
  t.equal(await status('/api/v1/info'), 200)
  t.equal(await status('/api/v1'), 200)
  t.equal(await status('/api/v1/ok'), 200)
  t.equal(await status('/ok'), 200, 'probes need no prefix')
  t.equal(await status('/info'), 404)
  t.equal(await status('/api/v1x/info'), 404)
  t.equal(await status('/v2/deployments'), 401, 'the control plane is not of the application')
  const made = await fetch(`http://127.0.0.1:${port}/api/v1/threads`, { method: 'POST', body: '{}' })
  t.equal(made.status, 200)
})

t.test('CORS of the application', async t => {
  const cors = (config: object, list = '*') => openCors(list, { config: applicationWith({ cors: config }).http.cors })
  const listed = cors({ allow_origins: ['https://a.example'], expose_headers: ['X-Own', 'location'], max_age: 5 })
  t.ok(listed.allows('https://a.example'))
  t.notOk(listed.allows('https://b.example'), 'the list of the application replaces that of the server')
  const answer = fields(listed.answer('https://a.example'))
  t.equal(answer['Access-Control-Allow-Origin'], 'https://a.example')
  t.equal(answer['Access-Control-Allow-Credentials'], undefined, 'not without allow_credentials')
  for (const name of ['Content-Location', 'Location', 'X-Pagination-Total', 'X-Pagination-Next', 'X-Own'])
    t.match(answer['Access-Control-Expose-Headers'], name)
  t.same(answer['Access-Control-Expose-Headers']!.match(/location/gi)!.length, 2, 'Location is not listed twice')
  t.equal(fields(listed.preflight('https://a.example', 'x'))['Access-Control-Max-Age'], '5')
  t.same(listed.preflight('https://b.example', 'x'), [])

  const trusted = cors({ allow_origins: ['https://a.example'], allow_credentials: true })
  t.equal(fields(trusted.answer('https://a.example'))['Access-Control-Allow-Credentials'], 'true')
  const wildcard = cors({ allow_origins: ['*'], allow_credentials: true })
  t.equal(fields(wildcard.answer('https://a.example'))['Access-Control-Allow-Credentials'], undefined, 'never with *')
  t.equal(fields(wildcard.answer('https://a.example'))['Access-Control-Allow-Origin'], '*')

  const regex = cors({ allow_origins: ['https://a.example'], allow_origin_regex: 'https://.*\\.b\\.example' })
  t.ok(regex.allows('https://x.b.example'))
  t.ok(regex.allows('https://a.example'), 'a listed one')
  t.notOk(regex.allows('https://c.example'))
  const only = cors({ allow_origin_regex: 'https://.*\\.b\\.example' }, '*')
  t.notOk(only.allows('https://c.example'), 'the default for everybody is not meant')
  t.ok(cors({ allow_origins: ['*'], allow_origin_regex: 'https://b' }).allows('https://c.example'))
  t.notOk(regex.allows('https://x.b.example.evil'), 'it matches the whole origin')

  const asked = fields(wildcard.preflight('https://a.example', '', true))
  t.equal(asked['Access-Control-Allow-Private-Network'], 'true', 'LangGraph Studio asks for it')
  t.notOk('Access-Control-Allow-Private-Network' in fields(wildcard.preflight('https://a.example', '')))
  t.same(trusted.preflight('https://b.example', '', true), [], 'for pages that may call')

  const narrow = cors({ allow_origins: ['*'], allow_methods: ['GET'], allow_headers: ['x-a'] })
  const preflight = fields(narrow.preflight('https://a.example', 'x-b'))
  t.equal(preflight['Access-Control-Allow-Methods'], 'GET')
  t.match(preflight['Access-Control-Allow-Headers'], /x-a/)
  t.notMatch(preflight['Access-Control-Allow-Headers'], /x-b/)
  t.ok(
    cors({ max_age: 1 }, 'https://c.example').allows('https://c.example'),
    'the server lists origins when it lists none',
  )

  const { port } = await stageWith(t, { cors: { allow_origins: ['https://a.example'] } })
  const ask = (origin: string) =>
    fetch(`http://127.0.0.1:${port}/threads`, { method: 'POST', body: '{}', headers: { origin } })
  t.equal((await ask('https://a.example')).headers.get('access-control-allow-origin'), 'https://a.example')
  t.equal((await ask('https://b.example')).status, 403)
})

t.test('headers for graphs and for the log', async t => {
  const http = { configurable_headers: { includes: ['x-*', 'User-Agent'], excludes: ['x-secret-*'] } }
  const own = openPolicy(readConfig({}), applicationWith(http).http)
  const matching = (names: string[], { isConfigurable }: { isConfigurable(name: string): boolean }) =>
    names.filter(isConfigurable)
  const names = ['x-a', 'user-agent', 'x-secret-a', 'x-api-key', 'authorization', 'cookie', 'accept']
  t.same(matching(names, own), ['x-a', 'user-agent'])
  const both = openPolicy(readConfig({ WEFT_CONFIGURABLE_HEADERS: 'accept,x-secret-a' }), applicationWith(http).http)
  t.same(matching(names, both), ['x-a', 'user-agent', 'accept'], 'excludes of the application win over the setting')
  t.same(matching(names, openPolicy(readConfig({}), null)), [])

  const stage = await stageWith(t, http)
  await fetch(`http://127.0.0.1:${stage.port}/threads`, {
    method: 'POST',
    body: '{}',
    headers: { 'x-a': '1', 'x-secret-b': '2' },
  })
  const { headers } = stage.calls.at(-1)!.head
  t.match(headers, { 'x-a': '1' })
  t.notOk(headers && 'x-secret-b' in headers)
})

t.test('below a deployment its own groups and headers apply', async t => {
  const stage = await openStage(
    {},
    applicationWith({ disable_threads: true, configurable_headers: { includes: ['x-own'] } }),
  )
  t.teardown(() => stage.close())
  const section = applicationWith({ disable_assistants: true, configurable_headers: { includes: ['x-theirs'] } }).http
  let asked = 0
  stage.handlers['system.info'] = bytesHandler((_, { head }) => {
    if (head.deployment !== undefined) asked++
    return { body: JSON.stringify({ app: 'one', pool: 'one', app_host: null, libraries: null, http: section }) }
  })
  const base = `http://127.0.0.1:${stage.port}`
  const headers = { 'x-own': '1', 'x-theirs': '2', 'x-api-key': 'k' }
  const post = (path: string) => fetch(base + path, { method: 'POST', body: '{}', headers })
  t.equal((await post('/threads')).status, 404)
  t.equal((await post('/deployments/one/threads')).status, 200)
  t.same(stage.calls.at(-1)!.head.headers, { 'x-theirs': '2' })
  t.equal((await post('/deployments/one/assistants')).status, 404)
  t.equal((await post('/assistants')).status, 200)
  t.same(stage.calls.at(-1)!.head.headers, { 'x-own': '1' })
  t.equal(asked, 1, 'the section is kept')
  stage.handlers['system.info'] = bytesHandler(() => ({
    head: { status: 404, code: 'not_found', detail: 'Deployment two not found' },
  }))
  const missing = await post('/deployments/two/threads')
  t.equal(missing.status, 404)
  t.match(await missing.text(), 'Deployment two not found')
})

t.test('below a deployment its own file decides which pages may call, and which headers the log shows', async t => {
  const stage = await openStage({ cors_origins: 'https://server.example' })
  t.teardown(() => stage.close())
  const section = applicationWith({
    cors: { allow_origins: ['https://one.example'], max_age: 7 },
    logging_headers: { includes: ['x-shown'] },
    disable_store: true,
  }).http
  stage.handlers['system.info'] = bytesHandler((_, { head }) =>
    isDeepEqual(head.deployment, { slug: 'one' })
      ? { body: JSON.stringify({ app: 'one', pool: 'one', app_host: null, libraries: null, http: section }) }
      : { head: { status: 404, code: 'not_found', detail: 'Deployment not found' } },
  )
  const lines: { headers?: object; path: string }[] = []
  stage.edge.log.info = ((line: { path: string }) => lines.push(line)) as never
  const send = async (path: string, origin: string, given: RequestInit = {}) => {
    const headers = { origin, 'x-shown': '1', 'x-hidden': '2', ...given.headers }
    return fetch(`http://127.0.0.1:${stage.port}${path}`, { method: 'POST', body: '{}', ...given, headers })
  }
  const allowed = (answer: Response) => answer.headers.get('access-control-allow-origin')

  const good = await send('/deployments/one/threads', 'https://one.example')
  t.equal(good.status, 200)
  t.equal(allowed(good), 'https://one.example')
  const calls = stage.calls.length
  const bad = await send('/deployments/one/threads', 'https://server.example')
  t.equal(bad.status, 403, 'the list of the server does not count there')
  t.equal(allowed(bad), null)
  t.equal(stage.calls.slice(calls).filter(({ verb }) => verb === 'threads.create').length, 0, 'it had no effect')
  t.equal((await send('/threads', 'https://one.example')).status, 403, 'nor that of the deployment here')
  t.equal(allowed(await send('/threads', 'https://server.example')), 'https://server.example')
  const asked = { 'access-control-request-method': 'POST', 'access-control-request-headers': 'x-a' }
  const preflight = (path: string, origin: string) =>
    send(path, origin, { method: 'OPTIONS', body: null, headers: asked })
  const ready = await preflight('/deployments/one/threads', 'https://one.example')
  t.equal(ready.status, 204)
  t.equal(allowed(ready), 'https://one.example')
  t.equal(ready.headers.get('access-control-max-age'), '7')
  t.equal(allowed(await preflight('/deployments/one/threads', 'https://server.example')), null)
  t.equal(allowed(await preflight('/deployments/two/threads', 'https://one.example')), null, 'of an unknown deployment')
  t.equal((await send('/deployments/two/threads', 'https://one.example')).status, 403)

  lines.length = 0
  t.equal((await send('/deployments/one/store/items/search', 'https://one.example')).status, 404)
  t.match(lines, [{ path: '/store/items/search', headers: { 'x-shown': '1' } }])
  t.notOk('x-hidden' in lines[0]!.headers!)
})

t.test('no pattern of an application takes long for what a client chooses', t => {
  const { allows } = openCors('', { config: { allow_origin_regex: '(a+)+(/|b)' } })
  t.equal(allows('aaab'), true)
  // Each would take longer than the test may.
  for (let n = 0; n < 100; n++) t.equal(allows(`${'a'.repeat(100 + n)}!`), false)
  t.equal(allows('aaab'), true, 'an origin that is known is not forgotten')
  t.equal(allows('ab'), false, 'the pattern was given up')
  const { isConfigurable } = openPolicy(readConfig({}), {
    ...applicationWith({}).http,
    configurable_headers: { includes: [`x-${'*a'.repeat(50)}*b`, 'y-*-z*', 'exact'], excludes: ['y-no-z*'] },
  })
  t.equal(isConfigurable(`x-${'a'.repeat(8_000)}`), false)
  t.equal(isConfigurable(`x-${'a'.repeat(50)}b`), true)
  for (const [name, is] of [
    ['y--z', true],
    ['y-1-z2', true],
    ['y-z', false],
    ['y-no-z', false],
    ['exact', true],
    ['exactly', false],
  ] as const)
    t.equal(isConfigurable(name), is, name)
  t.end()
})

t.test('methods that would end the header are left out', t => {
  const { preflight } = openCors('https://a.example', {
    config: { allow_origins: ['https://a.example'], allow_methods: ['GET', 'X\r\nSet-Cookie: a=b'] },
  })
  t.match(fields(preflight('https://a.example', '')), { 'Access-Control-Allow-Methods': /^GET$/ })
  t.end()
})
