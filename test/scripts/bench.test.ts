import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { request as ask, createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type AddressInfo, createServer as createPlain } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { root } from '../../cli/root.js'
import { numbered } from '../../scripts/bench/events.js'
import { openConnection, requestText } from '../../scripts/bench/http.js'
import { measure, undisturbed } from '../../scripts/bench/measure.js'
import { optionsOf } from '../../scripts/bench/options.js'
import { stealMeter } from '../../scripts/bench/proc.js'
import { type Line, linesOf, machine } from '../../scripts/bench/report.js'
import { SCENARIOS } from '../../scripts/bench/scenarios.js'
import { benchApp, serverAt } from '../../scripts/bench/server.js'
import { sseReader } from '../../scripts/bench/sse.js'
import { writeTable } from '../../scripts/bench/table.js'
import { alive, below, startCluster } from '../helpers/cluster.js'

const windows = { warm: 0, seconds: 0.5, quick: true }
const scenarioOf = (name: string) => SCENARIOS.find(scenario => scenario.name === name)!

/** The change of a response by the proxy; null: unchanged. `cut` ends the connection in the middle. */
type Tamper = (answer: {
  body: string
  path: string
  method: string
}) => { body?: string; status?: number; cut?: true } | null

/** Frames of a stream without the text before the first. */
const framesOf = (body: string) =>
  body
    .replace(/^: connected\n/, '')
    .split('\n\n')
    .filter(Boolean)
const joined = (frames: string[]) => `${frames.join('\n\n')}\n\n`
const isStream = (body: string) => /^(: connected\n)?id: \d+\nevent: /.test(body)

/** Changes the frames of streams. */
const onFrames =
  (change: (frames: string[]) => string[]): Tamper =>
  ({ body }) =>
    isStream(body) ? { body: joined(change(framesOf(body))) } : null
const onJson =
  (of: (path: string, method: string) => boolean, change: (body: { [key: string]: unknown }) => unknown): Tamper =>
  ({ body, path, method }) =>
    of(path, method) ? { body: JSON.stringify(change(JSON.parse(body))) } : null

/** Forwards everything; each response that `tamper` selects is changed, except the first `spare` of them. */
async function startProxy(target: string, tamper: Tamper, spare = 1) {
  let meant = 0
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    const { method = 'GET', url: path = '/', headers } = request
    const onward = ask(target + path, { method, headers: { ...headers, host: new URL(target).host } }, async answer => {
      let body = ''
      for await (const part of answer.setEncoding('utf8')) body += part
      const changed = tamper({ body, path, method })
      const now = changed !== null && meant++ >= spare ? changed : {}
      response.writeHead(now.status ?? answer.statusCode!, { 'content-type': answer.headers['content-type'] ?? '' })
      if (!now.cut) return response.end(now.body ?? body)
      response.write(body.slice(0, Math.floor(body.length / 2)), () => response.destroy())
    })
    onward.on('error', () => response.destroy())
    request.pipe(onward)
    // A client that disconnects in the middle of a stream disconnects from the server, too.
    response.on('close', () => onward.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    stop: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

t.test('a wrong answer fails the scenario', async t => {
  const cluster = await startCluster({ app: benchApp })
  t.teardown(() => cluster.stop())
  const direct = await serverAt(cluster.url)
  const through = async (name: string, tamper: Tamper, { gapless = true, spare = 1 } = {}) => {
    const proxy = await startProxy(cluster.url, tamper, spare)
    try {
      return await measure(
        scenarioOf(name),
        { server: { ...direct, gapless, port: proxy.port }, kind: null },
        windows,
        0,
      )
    } finally {
      proxy.stop()
    }
  }

  t.test('unchanged answers fail nothing', async t => {
    for (const name of ['create-assistant', 'get-thread', 'run-wait-steps', 'chunks', 'tokens', 'fan-out']) {
      const { failure, value, operations } = await through(name, () => null)
      t.equal(failure, undefined, name)
      t.ok(value! > 0 && operations! > 0, `${name} counted ${operations}`)
    }
    for (const name of ['resume', 'streams-1000', 'jitter-1000'])
      t.match(await measure(scenarioOf(name), { server: direct, kind: null }, windows, 0), { failure: undefined }, name)
  })

  const lost = onFrames(frames => frames.toSpliced(6, 1))
  const renumber = (frames: string[]) => frames.map((frame, i) => frame.replace(/^id: \d+/, `id: ${i}`))
  const rows: [
    name: string,
    what: string,
    tamper: Tamper,
    says: RegExp,
    options?: { gapless?: boolean; spare?: number },
  ][] = [
    ['chunks', 'an event is lost', lost, /event 6 is missing: the next one that came has id 7/],
    [
      'chunks',
      'a chunk is lost and the ids hide it',
      onFrames(f => renumber(f.toSpliced(6, 1))),
      /chunk 5 should have come/,
    ],
    ['chunks', 'an event comes twice', onFrames(f => f.toSpliced(6, 0, f[5]!)), /event 6 is missing: .* id 5/],
    [
      'chunks',
      'two events change places',
      onFrames(f => f.toSpliced(6, 2, f[7]!, f[6]!)),
      /event 6 is missing: .* id 7/,
    ],
    ['chunks', 'the last event is lost', onFrames(f => f.slice(0, -1)), /ended after 199 of 200 chunks/],
    [
      'chunks',
      'the end is cut off',
      ({ body }) => (isStream(body) ? { cut: true } : null),
      /closed before the answer was complete/,
    ],
    [
      'chunks',
      'half an event',
      ({ body }) => (isStream(body) ? { body: body.slice(0, -5) } : null),
      /ended (inside an event|after 199)/,
    ],
    [
      'chunks',
      'an event too much',
      onFrames(f => [...f, `id: ${f.length}\nevent: values\ndata: {}`]),
      /an unexpected event values arrived/,
    ],
    ['chunks', 'the run fails', onFrames(f => f.with(3, 'id: 3\nevent: error\ndata: {"error":"E"}')), /the run failed/],
    ['chunks', 'no stream', () => ({ status: 503, body: '{"detail":"no"}' }), /HTTP 503 instead of a stream: .*no/],
    ['chunks', 'without ids, a chunk is lost', lost, /chunk 5 should have come/, { gapless: false }],
    [
      'chunks',
      'without ids, twice',
      onFrames(f => f.toSpliced(6, 0, f[5]!)),
      /event 5 came after event 5/,
      { gapless: false },
    ],
    [
      'tokens',
      'a token is doubled',
      onFrames(f => f.with(9, f[9]!.replaceAll('w8 ', 'w8 w8 '))),
      /token 8 should have come/,
    ],
    [
      'first-event',
      'another update',
      onFrames(f => f.map(one => one.replace('text', 'test'))),
      /the update should say/,
    ],
    [
      'fan-out',
      'one of the readers misses a chunk',
      onFrames(f => f.toSpliced(50, 1)),
      /event 50 is missing/,
      { spare: 19 },
    ],
    [
      'run-wait',
      'the answer of another run',
      onJson(
        () => true,
        v => ({ ...v, seen: 'text x' }),
      ),
      /should have come back/,
    ],
    ['run-wait', 'an error', () => ({ status: 500, body: '{"detail":"broken"}' }), /HTTP 500: .*broken/],
    ['run-wait', 'half a body', ({ body }) => ({ body: body.slice(0, -3) }), /the answer is no JSON/],
    [
      'run-wait-steps',
      'a run that begins anew',
      onJson(
        path => path.endsWith('/wait'),
        () => ({ done: 4 }),
      ),
      // Which client is the first to meet it, and after how many of its runs, is open.
      /should say done: (8|[1-9]\d+): {"done":4}/,
      { spare: 8 },
    ],
    [
      'create-assistant',
      'another graph',
      onJson(
        () => true,
        a => ({ ...a, graph_id: 'chat' }),
      ),
      /another assistant was made/,
    ],
    [
      'create-thread',
      'no id',
      onJson(
        () => true,
        ({ thread_id: _, ...rest }) => rest,
      ),
      /the thread has no id/,
    ],
    [
      'get-assistant',
      'another one',
      onJson(
        (_, m) => m === 'GET',
        a => ({ ...a, assistant_id: a.graph_id }),
      ),
      /was asked for, not echo/,
    ],
    [
      'get-thread',
      'metadata is lost',
      onJson(
        (_, m) => m === 'GET',
        a => ({ ...a, metadata: {} }),
      ),
      /has other metadata/,
    ],
    [
      'thread-state',
      'an old state',
      onJson(
        path => path.endsWith('/state'),
        s => ({ ...s, values: { done: 2 } }),
      ),
      /should say done: 3/,
    ],
    [
      'search-assistants',
      'one is missing',
      onJson(
        path => path.endsWith('/search'),
        found => (found as unknown as unknown[]).slice(1),
      ),
      /other assistants were found/,
    ],
    ['store-put', 'a put that is not stored', () => ({ body: '{"detail":"no"}', status: 503 }), /HTTP 503/],
    [
      'store-search',
      'one item too few',
      onJson(
        path => path.endsWith('/search'),
        ({ items }) => ({ items: (items as unknown[]).slice(1) }),
      ),
      /other items were found/,
    ],
  ]
  for (const [name, what, tamper, says, options] of rows)
    t.test(`${name}: ${what}`, async t =>
      t.match(await through(name, tamper, options), { failure: says, value: undefined }),
    )

  t.test('a join that gives the last event again', async t => {
    // Not through the proxy, which waits for the end of a response: joins are the only streams by GET.
    const again = onFrames(frames => [frames[0]!, ...frames])
    const result = await through('resume', answer => (answer.method === 'GET' ? again(answer) : null), { spare: 0 })
    t.match(result, { failure: /event \d+ is missing: the next one that came has id/ })
  })
})

t.test('the first event of a stream has the first id of an attempt', async t => {
  const ids = (first: string, ...others: string[]) => {
    const id = numbered({ gapless: true })
    for (const one of [first, ...others]) id(one)
  }
  ids('0', '1', '2')
  ids('1000000000', '1000000001')
  t.throws(() => ids('1'), /event 0 is missing/)
  t.throws(() => ids('1000000001'), /event 0 is missing/)
  t.throws(() => ids('0', '1000000000'), /event 1 is missing/)
})

t.test('without a server: a failure, no figure', async t => {
  const server = createPlain()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  const subject = { server: await serverAt(`http://127.0.0.1:${port}`), kind: null }
  for (const name of ['create-thread', 'chunks', 'resume', 'fan-out'])
    t.match(
      await measure(scenarioOf(name), subject, windows, 0),
      { failure: /connection failed/, value: undefined },
      name,
    )
})

t.test('the client reads answers in any pieces', async t => {
  const body = '{"text":"päth ✓"}'
  const answers = [
    `HTTP/1.1 200 OK\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
    `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{"tex\r\n${(Buffer.byteLength(body) - 5).toString(16)}\r\n${body.slice(5)}\r\n0\r\n\r\n`,
    'HTTP/1.1 204 No Content\r\n\r\n',
  ]
  let n = 0
  const server = createPlain(socket => {
    socket.on('error', () => {})
    socket.on('data', async () => {
      for (const byte of Buffer.from(answers[n++ % answers.length]!)) {
        socket.write(Uint8Array.of(byte))
        if (byte % 7 === 0) await new Promise(done => setImmediate(done))
      }
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const connection = openConnection((server.address() as AddressInfo).port)
  const expected = [body, body, '']
  for (const text of [...expected, ...expected]) t.equal((await connection.ask(requestText('GET', '/'))).body, text)
  connection.close()
  server.close()

  const events: unknown[] = []
  const sse = sseReader((event, data, id) => void events.push([event, data, id]))
  const stream = ': hello\r\nid: 1\r\nevent: a\r\ndata: {\r\ndata: }\r\n\r\n: beat\n\nevent: b\ndata:ü\n\n'
  for (const byte of Buffer.from(stream)) sse.data(Buffer.of(byte))
  sse.end()
  t.same(events, [
    ['a', '{\n}', '1'],
    ['b', 'ü', null],
  ])
  sse.data(Buffer.from('event: c\nda'))
  t.throws(() => sse.end(), /ended inside an event/)
})

t.test('medians, targets and ratios', async t => {
  const scenarios = [scenarioOf('create-thread'), scenarioOf('first-event')]
  const one = (scenario: string, server: string, round: number, value: number) => ({ scenario, server, round, value })
  const lines = linesOf(scenarios, [
    ...[9_000, 1_000, 16_000].map((value, round) => one('create-thread', 'weft', round, value)),
    ...[3_000, 4_000].map((value, round) => one('create-thread', 'peer', round, value)),
    one('first-event', 'weft', 0, 4),
    one('first-event', 'weft', 1, 8),
    one('first-event', 'peer', 0, 80),
    { ...one('first-event', 'peer', 1, 0), value: undefined, failure: 'wrong' },
  ])
  t.match(lines, [
    { scenario: 'create-thread', server: 'weft', value: 9_000, target: 8_000, met: true, ratios: { peer: 3 } },
    { scenario: 'create-thread', server: 'peer', value: 3_000, met: false },
    { scenario: 'first-event', server: 'weft', value: 8, of_target: 5 / 8, met: false, ratios: {} },
    { scenario: 'first-event', server: 'peer', value: null, failure: 'wrong', met: false },
  ])
  t.match(linesOf(scenarios, [one('create-thread', 'weft', 0, 1)], { quick: true }), [{ target: null, met: null }])
})

t.test('a window with too much stolen time is measured again', async t => {
  const stolen = [0.5, 0.2, 0.3, 0, 0.04]
  let n = 0
  const meter = () => () => stolen[n++]!
  const work = async () => ({ scenario: 's', server: 'weft', round: 0, value: n, failure: undefined })
  const options = { meter, pause_ms: 0 }
  t.match(await undisturbed({ quick: false }, work, options), { value: 1, stolen: 0.2 })
  t.equal(n, 3)
  t.match(await undisturbed({ quick: false }, work, options), { value: 3, stolen: 0 })
  t.match(await undisturbed({ quick: false }, work, options), { value: 4, stolen: 0.04 })
  n = 0
  t.match(await undisturbed({ quick: true }, work, options), { value: 0, stolen: 0.5 })
  n = 0
  t.match(await undisturbed({ quick: false }, async () => ({ ...(await work()), failure: 'wrong' }), options), {
    failure: 'wrong',
    stolen: undefined,
  })
  t.equal(n, 0)
  t.equal(await undisturbed({ quick: false }, async () => null, options), null)
  const steal = stealMeter()
  await new Promise(done => setTimeout(done, 50))
  t.ok(steal() >= 0 && steal() <= 1)
})

t.test('the table of the documentation', async t => {
  const scenarios = [scenarioOf('create-thread'), scenarioOf('run-wait')]
  const lines = linesOf(scenarios, [
    {
      scenario: 'create-thread',
      server: 'weft',
      round: 0,
      value: 9_000,
      latency: { count: 9, p50: 1, p99: 2.345, max: 3 },
    },
    { scenario: 'create-thread', server: 'peer', round: 0, value: 3_000 },
    { scenario: 'run-wait', server: 'weft', round: 0, value: 400 },
    { scenario: 'run-wait', server: 'peer', round: 0, failure: 'wrong' },
  ])
  const settings = { seconds: 5, warm: 3, rounds: 1 }
  const load = { before: 0.1, after: 1 }
  const results = { at: '2026-01-02T', machine: machine(), settings, load, client: { perSecond: 1, cpu_us: 1 }, lines }
  const file = join(t.testdir({ 'page.md': 'before\n<!-- results -->\nold\n<!-- results -->\nafter\n' }), 'page.md')
  writeTable(file, results)
  writeTable(file, results)
  const page = readFileSync(file, 'utf8')
  t.match(page, /^before\n<!-- results -->\nWeft [\s\S]*<!-- results -->\nafter\n$/)
  t.match(page, '| create-thread | 9,000/s | 1 / 2.35 | 3,000/s | 3 | 8,000 | yes |')
  t.match(page, '| run-wait | 400/s |  | failed | - | 800 | no (0.5 ×) |')
  t.notMatch(page, 'old')
  t.match(readFileSync(join(root, 'docs/performance.md'), 'utf8').split('<!-- results -->').length, 3)
  t.throws(() => writeTable(join(root, 'README.md'), results), /has 0 lines/)
})

t.test('a wrong command line gets a sentence', async t => {
  t.throws(() => optionsOf(['--only', 'no-such']), { message: /no scenario matches "no-such"/, exitCode: 2 })
  t.throws(() => optionsOf(['--peer', 'nobody']), { message: /there is no peer "nobody"/, exitCode: 2 })
  t.throws(() => optionsOf(['--seconds', '0']), { message: /--seconds must be/, exitCode: 2 })
  t.same(
    optionsOf(['--url', 'http://127.0.0.1:1'])!.scenarios.filter(({ starts }) => starts),
    [],
    'no start of a foreign server',
  )
  await t.rejects(serverAt('http://example.com:80'), /this machine only/)
})

t.test('npm run bench -- --quick --only: its own Weft, figures in a file, no process left behind', async t => {
  const file = join(t.testdir(), 'out.json')
  const only = '^(start|idle-memory|create-thread|run-wait|chunks)$'
  const main = fileURLToPath(new URL('../../scripts/bench/bench.js', import.meta.url))
  const args = [main, '--quick', '--only', only, '--json', file, '--peer', 'in-process', '--peer', 'host']
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  t.teardown(() => void child.kill())
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', part => (output += part))
  const seen = new Set<number>()
  const look = setInterval(() => {
    for (const pid of below(child.pid!)) seen.add(pid)
  }, 20)
  const [code] = await once(child, 'close')
  clearInterval(look)
  t.equal(code, 0, output)
  t.same([...seen].filter(alive), [], `none of ${seen.size} processes is left`)
  const { lines, client } = JSON.parse(readFileSync(file, 'utf8')) as { lines: Line[]; client: { perSecond: number } }
  t.ok(client.perSecond > 0)
  const of = (scenario: string, server = 'weft') => lines.find(l => l.scenario === scenario && l.server === server)!
  for (const line of lines)
    t.ok(line.value! > 0 && line.failure === null, `${line.scenario} ${line.server} ${line.value}`)
  t.ok(of('create-thread').commits! > 0 && of('create-thread').commits! <= 1.5, 'commits are counted, and grouped')
  t.ok(of('create-thread').messages! > 0, 'so are messages')
  t.ok(of('run-wait').ratios['in-process']! > 0)
  t.ok(of('run-wait').ratios.host! > 0)
  t.match(Object.keys(of('run-wait').cpu_share).sort(), ['client', 'host', 'launcher', 'nats', 'server'])
})
