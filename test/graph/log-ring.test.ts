import t from 'tap'
import type { LogQuery } from '../../schemas/trace.js'
import { openLogRing, type RawLine } from '../../workers/graph/log-ring.js'

const RUN = { run_id: 'r1', thread_id: 't1', graph_id: 'agent' }
const line = (text: string, more: Partial<RawLine> = {}): RawLine => ({
  stream: 'stdout',
  process: 'graph host 1',
  text,
  run: null,
  ...more,
})

function ringOf(lines: RawLine[]) {
  let time = 1_000
  const ring = openLogRing(() => time)
  for (const each of lines) ring.add(each)
  const texts = (query: Partial<LogQuery> = {}) => ring.find({ limit: 1_000, ...query }).map(({ text }) => text)
  return { ring, texts, later: (ms: number) => (time += ms) }
}

t.test('levels of lines', async t => {
  const levels: [text: string, level: string, stream?: RawLine['stream']][] = [
    ['hello', 'info'],
    ['hello', 'warn', 'stderr'],
    ['[error] no model', 'error'],
    ['WARNING:root:slow', 'warn', 'stderr'],
    ['INFO:     started', 'info', 'stderr'],
    ['DEBUG httpx', 'debug', 'stderr'],
    ['2026-03-01 12:00:00,123 - my.app - ERROR - bad', 'error', 'stderr'],
    ['2026-03-01T12:00:00.123Z [info] good', 'info', 'stderr'],
    ['{"level":50,"msg":"bad"}', 'error'],
    ['{"level":"warning","event":"slow"}', 'warn'],
    ['{"levelname":"DEBUG"}', 'debug'],
    ['{"broken', 'info'],
    ['{"level":"constructor"}', 'info'],
    ['Traceback (most recent call last):', 'error', 'stderr'],
    ['ValueError: no good', 'error', 'stderr'],
    ['errors are rare', 'info'],
  ]
  for (const [text, level, stream = 'stdout'] of levels)
    t.equal(ringOf([line(text, { stream })]).ring.find({ limit: 1 })[0]!.level, level, text)
})

t.test('lines are found by run, text and level, the newest of them', async t => {
  const { texts } = ringOf([
    line('one', { run: RUN }),
    line('two'),
    line('[error] three', { run: { ...RUN, run_id: 'r2' } }),
    line('ONE more', { run: RUN, stream: 'stderr' }),
  ])
  t.same(texts(), ['one', 'two', '[error] three', 'ONE more'])
  t.same(texts({ run_id: 'r1' }), ['one', 'ONE more'])
  t.same(texts({ text: 'oNe' }), ['one', 'ONE more'])
  t.same(texts({ level: 'warn' }), ['[error] three', 'ONE more'])
  t.same(texts({ limit: 2 }), ['[error] three', 'ONE more'])
  t.same(texts({ text: 'none' }), [])
})

t.test('colours and control characters are removed before a line is searched', async t => {
  const { texts } = ringOf([line('\u001b[31mr\u001b[1med\u001b[0m\u0007\t\u202edone'), line('\u001b[0m')])
  t.same(texts({ text: 'red' }), ['red\tdone'])
  t.same(texts(), ['red\tdone'], 'nothing is left of the other')
})

t.test('an entry of the worker names its run and has its stack', async t => {
  const entry = {
    level: 50,
    time: 1,
    pid: 1,
    name: 'graphs',
    run_id: 'r1',
    thread_id: 't1',
    graph_id: 'agent',
    node: 'plan',
  }
  const err = { type: 'ValueError', message: 'no', stack: 'ValueError: no\n    at plan' }
  const text = JSON.stringify({ ...entry, err, msg: 'run failed' })
  const [found] = ringOf([line(text, { stream: 'log' })]).ring.find({ run_id: 'r1', limit: 1 })
  t.match(found, { ...RUN, level: 'error', text: 'run failed node=plan\nValueError: no\n    at plan' })
  const [forged] = ringOf([line(text)]).ring.find({ limit: 1 })
  t.match(forged, { run_id: null, level: 'error' }, 'output names no run by itself')
})

t.test('lines, their characters, their age and an answer are bounded', async t => {
  const { ring, texts, later } = ringOf(Array.from({ length: 25_000 }, (_, n) => line(`line ${n}`)))
  t.equal(texts({ limit: 1_000 }).length, 1_000)
  t.equal(texts({ limit: 1 })[0], 'line 24999')
  t.same(texts({ text: 'line 14999' }), [])
  t.same(texts({ text: 'line 15000' }), ['line 15000'])
  for (let n = 0; n < 3_000; n++) ring.add(line(`${n} ${'€'.repeat(4_000)}`))
  t.same(texts({ text: 'line' }), [], 'long lines leave room for fewer')
  const answer = ring.find({ limit: 1_000 })
  t.ok(answer.length > 10 && JSON.stringify(answer).length < 1_000_000)
  t.equal(answer.at(-1)!.text.slice(0, 5), '2999 ')
  later(60 * 60 * 1000 + 1)
  t.same(texts(), [])
})
