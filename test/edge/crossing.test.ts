/** Headers between clients and the code of an application: the table of edge/http/crossing.ts, row by row, and keys. */
import { hash } from 'node:crypto'
import { type IncomingHttpHeaders, request } from 'node:http'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { bytesHandler } from '../../bus/serve.js'
import { findApplication } from '../../cli/commands/application.js'
import { root } from '../../cli/root.js'
import { CROSSINGS, type Crossing } from '../../edge/http/crossing.js'
import type { Config } from '../../schemas/config.js'
import { keyOf, openStage } from './stage.js'

t.setTimeout(120_000)
const application = await findApplication(join(root, 'test/apps/crossing/langgraph.json'))
const CONTROL_KEY = 'a control key: any text'

type Headers = { [name: string]: string }

interface Answer {
  status: number
  headers: IncomingHttpHeaders
  text: string
}

/** A request as the code of the application got it. */
interface Got {
  url: string
  headers: Headers
}

async function openApplication(t: Test, config: Partial<Config>) {
  const stage = await openStage(config, application)
  t.teardown(() => stage.close())
  const send = (method: string, path: string, headers: Headers, body = ''): Promise<Answer> =>
    new Promise((resolve, reject) => {
      const outgoing = request({ port: stage.port, method, path, headers }, async incoming => {
        let text = ''
        for await (const part of incoming) text += part
        resolve({ status: incoming.statusCode!, headers: incoming.headers, text })
      })
      outgoing.on('error', reject)
      outgoing.end(body)
    })
  const gotOf = ({ url, headers }: { url: string; headers: [string, string][] }): Got => ({
    url,
    headers: Object.fromEntries(headers),
  })
  return {
    stage,
    send,
    /** By a route of `http.app`. */
    echoed: async (headers: Headers, query = '') =>
      gotOf(JSON.parse((await send('POST', `/echo${query}`, headers, '{}')).text)),
    /** By `auth`, for a built-in route, whose worker gets the headers for graphs. */
    async authenticated(headers: Headers, query = '') {
      await send('POST', `/threads${query}`, headers, '{}')
      const { identity, headers: ofGraph = {} } = stage.calls.findLast(({ verb }) => verb === 'threads.create')!.head
      return { got: gotOf(identity as never), ofGraph }
    },
    answered: (headers: Headers) =>
      send('GET', `/answer?headers=${encodeURIComponent(JSON.stringify(headers))}`, {}, ''),
  }
}

/** Values that a client or a server of HTTP takes; any text for the others. */
const VALUES: Headers = {
  connection: 'keep-alive',
  'keep-alive': 'timeout=7',
  'transfer-encoding': 'chunked',
  te: 'trailers',
  trailer: 'x-a',
  upgrade: 'h2c',
  'content-length': '2',
  date: 'Thu, 01 Jan 1970 00:00:00 GMT',
  authorization: 'Bearer token-of-the-application',
  cookie: 'a=1; b=2',
  'sec-websocket-protocol': 'a, b',
}
const sampleOf = ({ name }: Crossing): [name: string, value: string] => {
  const plain = name.replace('*', 'anything')
  return [plain, VALUES[plain] ?? `a value of ${plain}`]
}
const ROWS: readonly Crossing[] = [
  ...CROSSINGS,
  { name: 'x-other', app: 'passed', graph: 'passed', client: 'passed' },
  { name: 'x-encryption-context', app: 'passed', graph: 'passed', client: 'passed' },
]

t.test('each header has the fate that the table gives it', async t => {
  const { echoed, authenticated, answered } = await openApplication(t, {})
  for (const row of ROWS) {
    const [name, value] = sampleOf(row)
    // Only a body in chunks may announce a trailer.
    const given: Headers = { ...(name === 'trailer' ? { 'transfer-encoding': 'chunked' } : {}), [name]: value }
    const check = (seen: unknown, fate: string, where: string) =>
      fate === 'passed' || fate === 'cleaned'
        ? t.equal(seen, value, `${name} ${where}`)
        : t.not(seen, value, `${name} ${where}`)
    const { got, ofGraph } = await authenticated(given)
    check(got.headers[name], row.app, 'to auth')
    check(ofGraph[name], row.graph, 'to a graph')
    // The HTTP server of the app host makes a Request without headers of its connection, whatever it gets.
    if (!HOP.has(name)) check((await echoed(given)).headers[name], row.app, 'to http.app')
  }
  for (const row of ROWS) {
    const [name, value] = sampleOf(row)
    // The text that the edge writes may be the same.
    if (name === 'content-length' || name === 'transfer-encoding') continue
    const given: Headers = { ...(name === 'trailer' ? { 'transfer-encoding': 'chunked' } : {}), [name]: value }
    const found = (await answered(given)).headers[name]
    if (row.client === 'passed') t.equal(found, value, `${name} to the client`)
    else t.not(found, value, `${name} to the client`)
  }
})

const HOP = new Set(['connection', 'keep-alive', 'proxy-connection', 'te', 'trailer', 'transfer-encoding', 'upgrade'])

/** Where a client may put a key, and what of the header or the query remains. */
const PLACES = (key: string): readonly [headers: Headers, query?: string, rest?: object][] => [
  [{ 'x-api-key': key }],
  [{ authorization: `Bearer ${key}` }],
  [{ authorization: `bearer ${key}` }],
  [
    { 'x-api-key': key, authorization: 'Bearer of-the-application' },
    '',
    { authorization: 'Bearer of-the-application' },
  ],
  [{ 'x-api-key': 'of-the-application', authorization: `Bearer ${key}` }, '', { 'x-api-key': 'of-the-application' }],
  [{ authorization: `Basic ${Buffer.from(`user:${key}`).toString('base64')}` }],
  [{ cookie: `a=1; key=${key}; b=2` }, '', { cookie: 'a=1; b=2' }],
  [{ 'sec-websocket-protocol': `a, ${key}, b` }, '', { 'sec-websocket-protocol': 'a, b' }],
  [{ 'x-any': key }],
  [{ referer: `http://localhost/page?key=${key}` }],
  [{}, `?a=1&key=${encodeURIComponent(key)}&b=2`],
]

t.test('no key of Weft reaches code of an application, a graph or the log, wherever the client puts it', async t => {
  const { stage, echoed, authenticated, send } = await openApplication(t, { control_key: CONTROL_KEY })
  const key = keyOf(stage, 7, ['run', 'deployments'])
  const unknown = `weft_${'f'.repeat(16)}_${'b'.repeat(43)}`
  const made = `weft_${'c'.repeat(43)}`
  const lines: unknown[] = []
  stage.edge.log.info = ((...line: unknown[]) => lines.push(line)) as never
  for (const [kind, secret] of Object.entries({ key, unknown, made, control: CONTROL_KEY }))
    for (const [headers, query = '', rest = {}] of PLACES(secret)) {
      const place = `${kind}: ${JSON.stringify(headers)} ${query}`
      const { got, ofGraph } = await authenticated(headers, query)
      const echo = await echoed(headers, query)
      const text = decodeURIComponent(JSON.stringify([got, echo, ofGraph])).replaceAll('+', ' ')
      t.notOk(text.includes(secret), place)
      t.notOk(text.includes(Buffer.from(`user:${secret}`).toString('base64')), place)
      for (const seen of [got, echo]) {
        t.match(seen.headers, rest, place)
        t.equal(new URL(seen.url).search, query === '' ? '' : '?a=1&b=2', place)
      }
    }
  await send('POST', '/nowhere', { 'x-any': key, 'x-shown': 'shown' }, '{}')
  t.match(lines.at(-1), [{ headers: { 'x-shown': 'shown' } }])
  t.notOk(JSON.stringify(lines).includes(key))
})

t.test('an application gets the id and the scopes of a right key, and nothing that the client says of it', async t => {
  const { stage, echoed, authenticated } = await openApplication(t, { control_key: CONTROL_KEY })
  const key = keyOf(stage, 7, ['run', 'deployments'])
  const claimed = {
    'x-weft-key-id': 'mine',
    'x-weft-key-scopes': 'admin',
    'x-weft-caller': 'mine',
    'x-weft-loopback': '1',
  }
  const right = { 'x-weft-key-id': '0000000000000007', 'x-weft-key-scopes': 'run,deployments' }
  const none = { 'x-weft-key-id': undefined, 'x-weft-key-scopes': undefined }
  for (const [given, expected] of [
    [{ 'x-api-key': key }, right],
    [{ authorization: `Bearer ${key}` }, right],
    [{ 'x-api-key': `${key.slice(0, -1)}B` }, none],
    [{ 'x-api-key': CONTROL_KEY }, none],
    [{}, none],
  ] as const) {
    const headers = { ...given, ...claimed } as Headers
    for (const seen of [await echoed(headers), (await authenticated(headers)).got]) {
      t.match(seen.headers, expected, JSON.stringify(given))
      t.not(seen.headers['x-weft-caller'], 'mine')
      t.equal(seen.headers['x-weft-loopback'], undefined)
    }
  }
})

t.test('a refusal of auth keeps its own headers, and none that concern more than itself', async t => {
  const { stage } = await openApplication(t, {})
  const given = {
    'www-authenticate': 'Basic realm="x"',
    'content-type': 'text/html',
    'service-worker-allowed': '/',
    'clear-site-data': '"*"',
    'set-cookie': 'weft_oauth_0123456789abcdef=mine',
    'x-weft-caller': 'x',
  }
  const headers = { 'x-refuse': JSON.stringify(given) }
  const { status, headers: got } = await fetch(`http://127.0.0.1:${stage.port}/threads`, {
    method: 'POST',
    body: '{}',
    headers,
  })
  t.equal(status, 418)
  t.equal(got.get('www-authenticate'), given['www-authenticate'])
  t.equal(got.get('content-type'), 'application/json', 'its sentence is no page')
  for (const name of Object.keys(given).slice(2)) t.equal(got.get(name), null, name)
})

t.test('an edge that knows the digest of the control key only hands it to nobody', async t => {
  const { stage, echoed, authenticated } = await openApplication(t, {})
  let asked = 0
  stage.handlers['control.key'] = bytesHandler(() => {
    asked++
    return { body: JSON.stringify({ sha256: hash('sha256', CONTROL_KEY) }) }
  })
  for (const headers of [{ 'x-api-key': CONTROL_KEY }, { authorization: `Bearer ${CONTROL_KEY}` }] as Headers[]) {
    const seen = [await echoed(headers), (await authenticated(headers)).got]
    t.notOk(JSON.stringify(seen).includes(CONTROL_KEY))
  }
  const own = { authorization: 'Bearer of-the-application' }
  t.match((await echoed(own)).headers, own)
  t.equal(asked, 1)
})
