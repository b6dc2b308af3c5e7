/** The scores of `npm run compare -- --url`, with servers that answer well, badly and not at all. */
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { type Case, get, post } from './case.js'
import { noScores, rowsOf, scorerOf, type Tally } from './score.js'

const OFFICIAL = {
  thread_id: '11111111-0000-4000-8000-000000000000',
  error: null,
  values: { a: 1 },
  list: [1],
  metadata: { of: 'x' },
}
const CASES: readonly Case[] = [
  {
    name: 'threads/plain',
    calls: [post('/threads', {}, { save: { thread: 'thread_id' } }), get('/threads/{thread}')],
  },
]

async function serve(t: Test, answer: RequestListener): Promise<string> {
  const server = createServer(answer).listen(0, '127.0.0.1')
  await new Promise(listening => server.once('listening', listening))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const answers =
  (body: unknown, status = 200): RequestListener =>
  (_, response) =>
    void response
      .writeHead(status, { 'content-type': 'application/json' })
      .end(typeof body === 'string' ? body : JSON.stringify(body))

/** `answerMs`: for servers that never answer. */
async function scoreOf(t: Test, answer: RequestListener, { cases = CASES, answerMs = 60_000 } = {}) {
  const [scored, official] = [await serve(t, answer), await serve(t, answers(OFFICIAL))]
  const lines: string[] = []
  const scores = noScores()
  const score = scorerOf({ scored, official, say: line => lines.push(line), answerMs }, scores)
  for (const one of cases) await score(one)
  return { scores, lines, threads: scores.get('threads')! }
}

const all = (calls: number, status: number, content: number, alike: number): Tally => ({
  calls,
  status,
  content,
  alike,
})

t.test('the same answers with other ids are alike', async t => {
  const { threads, lines } = await scoreOf(
    t,
    answers({ ...OFFICIAL, thread_id: OFFICIAL.thread_id.replaceAll('1', '2') }),
  )
  t.same(threads, all(2, 2, 2, 2))
  t.same(lines, [])
})

t.test('a member more, or none for null, is alike', async t => {
  const { error, ...rest } = OFFICIAL
  t.same((await scoreOf(t, answers({ ...OFFICIAL, more: 1 }))).threads, all(2, 2, 2, 2))
  t.same((await scoreOf(t, answers(rest))).threads, all(2, 2, 2, 2))
})

t.test('without headers and metadata the content is the same', async t => {
  const { metadata, ...rest } = OFFICIAL
  t.same((await scoreOf(t, answers({ ...OFFICIAL, metadata: {} }))).threads, all(2, 2, 2, 0))
  t.same((await scoreOf(t, answers(rest))).threads, all(2, 2, 2, 0))
  t.same((await scoreOf(t, (_, response) => void response.end(JSON.stringify(OFFICIAL)))).threads, all(2, 2, 2, 0))
})

t.test('another value, a member less, and an element more are not alike', async t => {
  const { values, ...rest } = OFFICIAL
  for (const body of [{ ...OFFICIAL, error: 'oh' }, rest, { ...OFFICIAL, list: [1, 2] }, [], 'text', '{', ''])
    t.same((await scoreOf(t, answers(body))).threads, all(2, 2, 0, 0), JSON.stringify(body))
})

t.test('another status is nothing', async t => {
  const { threads, lines } = await scoreOf(t, answers(OFFICIAL, 201))
  t.same(threads, all(2, 0, 0, 0))
  t.match(lines[0], /threads\/plain 1 POST \/threads status\n\s+scored\s+201/)
})

t.test('calls without an answer count, whatever the server does instead', async t => {
  const ways: { readonly [name: string]: RequestListener } = {
    'closes the connection': request => request.destroy(),
    'says nothing': () => {},
    'never ends a stream': (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: 1\n\n')
    },
    'ends in the middle': (_, response) => {
      response.writeHead(200, { 'content-length': '100' }).write('{')
      response.destroy()
    },
  }
  for (const [name, answer] of Object.entries(ways)) {
    const { threads, lines } = await scoreOf(t, answer, { answerMs: 500 })
    t.same(threads, all(2, 0, 0, 0), name)
    t.match(lines, [/no answer/], `${name}: the rest of the case is not sent`)
  }
})

t.test('a server that stops answering in a family is not asked again there', async t => {
  let asked = 0
  const cases = Array.from({ length: 40 }, (_, at) => ({ ...CASES[0]!, name: `threads/${at}` }))
  const { threads } = await scoreOf(t, () => void asked++, { cases, answerMs: 50 })
  t.same(threads, all(80, 0, 0, 0))
  t.ok(asked < 40, `${asked} calls`)
})

t.test('an answer that is nested too deeply to be compared', async t => {
  const deep = `{"values":${'['.repeat(100_000)}${']'.repeat(100_000)}}`
  const same = scorerOf(
    { scored: await serve(t, answers(deep)), official: await serve(t, answers(deep)), say: () => {} },
    noScores(),
  )
  await t.resolves(same(CASES[0]!))
})

t.test('families are those of the calls, odd input is apart', async t => {
  const calls = [
    post('/threads/x/runs/stream'),
    post('/threads/x/runs/crons'),
    post('/runs/wait'),
    post('/threads/x/history'),
    post('/mcp'),
    get('/ok'),
  ]
  const cases = [
    { name: 'runs/several', calls },
    { name: 'wrong/run', calls: [post('/runs/wait')] },
  ]
  const { scores } = await scoreOf(t, answers(OFFICIAL), { cases })
  const families = [...scores].flatMap(([name, { calls }]) => (calls > 0 ? [`${name} ${calls}`] : []))
  t.same(families.sort(), ['MCP 1', 'crons 1', 'runs 1', 'streams 1', 'system 1', 'threads 1', 'wrong input 1'])
  t.match(rowsOf(scores).at(-1), '| all | 7 | 7 (100 %) | 7 (100 %) | 7 (100 %) |')
})
