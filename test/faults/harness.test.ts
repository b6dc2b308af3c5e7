/** `npm run faults`: its checkers find what is wrong, and two rows run as a person would run them. */
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { poolingProxy } from '../helpers/pooling-proxy.js'
import { openRaw, request } from '../helpers/raw.js'
import { storeKind } from '../helpers/stores/store.js'
import { type Followed, wrongStream } from './harness/follow.js'
import { optionsOf } from './harness/options.js'
import { randomOf } from './harness/random.js'
import { merge, pageOf } from './harness/report.js'
import type { Result, Size } from './harness/result.js'
import type { Row } from './harness/row.js'
import { type Begin, lateNodes, overlaps, wrongExecution } from './harness/witness.js'

t.setTimeout(300_000)

const node = (step: number, attempt: number, at: number, more: Partial<Begin> = {}): Begin => ({
  run_id: 'r',
  thread_id: 't',
  attempt,
  step,
  pid: attempt,
  at: BigInt(at),
  ended: BigInt(at + 5),
  key: 'k',
  ...more,
})

t.test('executions', async t => {
  const wrong = (nodes: Begin[], sync = true) => wrongExecution(nodes, { steps: 3, sync })
  t.equal(wrong([node(1, 1, 0), node(2, 1, 10), node(3, 1, 20)]), null)
  t.equal(wrong([node(1, 1, 0), node(2, 1, 10), node(2, 2, 20), node(3, 2, 30)]), null, 'the step in progress')
  const beside = [node(1, 1, 0), node(2, 1, 10), node(2, 2, 20), node(3, 1, 25), node(3, 2, 30)]
  t.match(wrong(beside), /beside/, 'one node of the old attempt beside the new one')
  const repeated = [node(1, 1, 0), node(2, 1, 10), node(1, 2, 20), node(2, 2, 30), node(3, 2, 40)]
  t.match(wrong(repeated), /continued at step 1 after step 2/)
  t.equal(wrong(repeated, false), null, 'without sync')
  t.match(wrong([node(1, 1, 0), node(3, 1, 10)]), /out of order/)
  t.match(wrong([node(1, 1, 0), node(1, 1, 10), node(2, 1, 20), node(3, 1, 30)]), /out of order/, 'twice')
  t.match(wrong([node(1, 1, 0), node(2, 1, 10)]), /stopped at step 2/)
  t.match(
    wrong([node(1, 1, 0), node(1, 2, 5), node(2, 1, 10), node(3, 1, 12), node(2, 2, 20), node(3, 2, 30)]),
    /beside/,
  )
})

t.test('nodes of attempts that are over', async t => {
  const other = { run_id: 's' }
  t.same(lateNodes([node(1, 1, 0), node(2, 1, 10), node(2, 2, 20), node(1, 1, 30, other)]), [])
  t.same(lateNodes([node(1, 1, 0), node(1, 1, 5, { ...other, thread_id: 'u' }), node(2, 1, 10)]), [], 'another thread')
  const late = node(2, 1, 30)
  t.same(lateNodes([node(1, 1, 0), late, node(1, 2, 20)]), [late], 'beside the next attempt')
  t.same(lateNodes([node(1, 1, 0), late, node(1, 1, 20, other)]), [late], 'beside the next run of the thread')
})

t.test('overlaps of a thread', async t => {
  t.same(overlaps([node(1, 1, 0), node(1, 1, 5, { run_id: 's' })]), [])
  t.same(overlaps([node(1, 1, 0), node(1, 1, 4, { run_id: 's', thread_id: 'u' })]), [], 'of another thread')
  t.match(overlaps([node(1, 1, 0), node(1, 1, 4, { run_id: 's' })]), [/began while r executed/])
})

t.test('streams', async t => {
  const seen = (more: Partial<Followed>): Followed => ({
    ids: [0, 1, 5],
    values: { done: [1, 2, 3] },
    error: undefined,
    custom: new Set(),
    state: 'ended',
    refusal: '',
    broken: 0,
    resumed: [],
    comments: 0,
    ...more,
  })
  t.equal(wrongStream(seen({}), 'success', 3), null)
  t.match(wrongStream(seen({ state: 'open' }), 'success', 3), /still open/)
  t.match(wrongStream(seen({ ids: [0, 2, 2] }), 'success', 3), /id 2 after 2/)
  t.match(wrongStream(seen({ values: { done: [1] } }), 'success', 3), /1 of 3 steps/)
  t.match(wrongStream(seen({}), 'error', 3), /without the event "error"/)
  t.equal(wrongStream(seen({ error: { error: 'E' } }), 'error', 3), null)
})

t.test('a smuggled request shows behind the proxy with one connection', async t => {
  // A server that ignores lengths: what follows a head is the next request.
  const server = createServer(socket =>
    socket.on('data', bytes => {
      for (const [, id] of bytes.toString().matchAll(/X-Request-Id: (\w+)\r\n/g))
        socket.write(`HTTP/1.1 200 OK\r\nX-Request-Id: ${id}\r\nContent-Length: 2\r\n\r\n{}`)
    }),
  )
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done))
  const proxy = await poolingProxy((server.address() as AddressInfo).port)
  t.teardown(async () => {
    await proxy.stop()
    server.close()
  })
  const named = (id: string) => `X-Request-Id: ${id}\r\n`
  const first = openRaw(proxy.port, request('POST', '/', named('first'), request('GET', '/', named('smuggled'))))
  t.match(await first.closed, named('first'))
  const second = openRaw(proxy.port, request('GET', '/', named('second')))
  t.match(await second.closed, named('smuggled'), 'it is given to the next client')
})

t.test('a seed gives the same numbers again', async t => {
  const [a, b] = [randomOf(7), randomOf(7)]
  const numbers = Array.from({ length: 50 }, () => a.between(1, 6))
  t.same(
    Array.from({ length: 50 }, () => b.between(1, 6)),
    numbers,
  )
  t.same([...new Set(numbers)].sort(), [1, 2, 3, 4, 5, 6])
})

t.test('results of other rows and of other loads stay, but for small loads', async t => {
  const result = (number: number, size: Size, measured: string): Result => ({
    ...{ number, store: 'sqlite', load: '', measured, short: [], date: '', command: '', size, seconds: 1, busy: 0 },
  })
  const kept = { machine: 'old', results: [result(1, 'usual', 'a'), result(2, 'small', 'b'), result(4, 'full', 'f')] }
  const added = [result(1, 'small', 'c'), result(2, 'small', 'd'), result(3, 'small', 'e'), result(4, 'usual', 'g')]
  const { results } = merge(kept, added, 'new')
  t.same(
    results.map(({ number, measured }) => `${number}${measured}`),
    ['1a', '2d', '3e', '4g', '4f'],
  )
  t.same(
    merge({ machine: '', results }, [result(2, 'full', 'h'), result(4, 'usual', 'i')], '').results.map(
      ({ measured }) => measured,
    ),
    ['a', 'h', 'e', 'i', 'f'],
  )
})

t.test('a row on MongoDB names the server that answered', t => {
  const row = { number: 1, name: 'A row', fault: 'f', promised: 'p' } as Row
  const result = (store: 'sqlite' | 'mongo', server?: string): Result => ({
    ...{
      number: 1,
      store,
      load: 'l',
      measured: 'm',
      short: [],
      date: '',
      command: '',
      size: 'full',
      seconds: 1,
      busy: 0,
    },
    ...(server === undefined ? {} : { server }),
  })
  const results = [result('sqlite'), result('mongo', 'mongod 8.0.1'), result('mongo')]
  const page = pageOf('<!-- results -->\n<!-- results -->', [row], { machine: '', results })
  t.same(
    [...page.matchAll(/^\| (\S+(?: \([^|]*\))?) \| l \|/gm)].map(([, cell]) => cell),
    ['SQLite', 'MongoDB (mongod 8.0.1)', 'MongoDB (server not noted)'],
  )
  t.end()
})

t.test('the command line', async t => {
  t.equal(optionsOf(['--help']), null)
  t.match(optionsOf(['--only', '1,5', '--store', 'mongo', '--seed', '9']), {
    only: [1, 5],
    stores: ['mongo'],
    random: 0,
  })
  t.throws(() => optionsOf(['--only', 'x']), /expected whole numbers/)
  t.throws(() => optionsOf(['--no-times']), /expected with --quick/)
  t.throws(() => optionsOf(['--store', 'x']), /expected sqlite, postgres, mongo or all/)
})

t.test('two rows with a small load', async t => {
  const out = mkdtempSync(join(tmpdir(), 'weft-faults-'))
  t.teardown(() => rmSync(out, { recursive: true, force: true }))
  const main = fileURLToPath(new URL('harness/main.js', import.meta.url))
  const store = storeKind
  const args = [main, '--quick', '--no-times', '--only', '6,9', '--store', store, '--out', out]
  const { stdout } = await promisify(execFile)(process.execPath, args).catch(error => error as { stdout: string })
  t.match(stdout, /every row held/, stdout)
  const page = readFileSync(join(out, 'faults.md'), 'utf8')
  t.match(page, /\| \[6\. Broker process death\]\(#6-broker-process-death\) \| .*held, small load/)
  t.match(page, /## 9\. Duplicate delivery[\s\S]*300 executions of 300 steps/)
})
