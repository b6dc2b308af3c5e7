import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { openLink } from '../../bus/connect.js'
import { openFigures, openHistogram, openProcessFigures, sample } from '../../bus/figures.js'
import { openLog } from '../../bus/log.js'
import { answerMetrics, expositionOf, openReports, samplesOf } from '../../bus/metrics.js'
import { openMux } from '../../bus/mux.js'
import { BOUNDS, boundsOf, METRICS, type MetricName, type MetricsReport } from '../../schemas/metrics.js'
import { startNats } from '../helpers/nats.js'
import { until } from '../helpers/until.js'

const log = openLog('test', 'silent')

t.test('a histogram is written cumulatively', async t => {
  const histogram = openHistogram()
  for (const seconds of [0.0005, 0.001, 0.3, 1_000]) histogram.observe(seconds)
  const { text, type } = await expositionOf([histogram.sample('weft_store_write_seconds', { a: 'b"\n' })])
  t.match(type, /^text\/plain/)
  t.match(text, '# TYPE weft_store_write_seconds histogram')
  const count = (le: string) =>
    Number(new RegExp(`_bucket\\{.*le="${le.replace('+', '\\+')}".*\\} (\\d+)`).exec(text)?.[1])
  t.equal(count('0.001'), 2)
  t.equal(count('0.25'), 2)
  t.equal(count('0.5'), 3)
  t.equal(count('60'), 3)
  t.equal(count('+Inf'), 4)
  t.equal(text.match(/_bucket/g)?.length, BOUNDS.length + 1)
  t.match(text, /_count\{.*\} 4$/m)
  t.match(text, 'a="b\\"\\n"')
})

t.test('histograms of runs reach from 10 ms to an hour', async t => {
  const figures = openFigures()
  for (const seconds of [0.005, 600, 7_200]) figures.histogram('weft_run_seconds').observe(seconds)
  const { text } = await expositionOf(await figures.samples(error => t.fail(String(error))))
  for (const [le, count] of Object.entries({ '0.01': 1, '300': 1, '900': 2, '3600': 2, '+Inf': 3 }))
    t.match(text, `weft_run_seconds_bucket{le="${le}"} ${count}\n`)
  for (const name of Object.keys(METRICS) as MetricName[]) t.equal(boundsOf(name).length, BOUNDS.length, name)
})

t.test('a figure that nobody can read hides no other', async t => {
  const figures = openFigures()
  const errors: unknown[] = []
  figures.count('weft_store_failures_total')
  figures.onRead(() => new Promise(() => {}))
  figures.onRead(() => [sample('weft_webhooks_under_way', 7)])
  const found = await figures.samples(error => errors.push(error))
  t.same(
    found.map(({ name }) => name),
    ['weft_store_failures_total', 'weft_webhooks_under_way'],
  )
  t.match(errors, [/no answer within/])
})

t.test('labels that users choose are few', t => {
  const figures = openFigures()
  const labels = Array.from({ length: 100 }, (_, i) => figures.few({ app: 'a', graph: `${i}` }))
  t.same(labels[39], { app: 'a', graph: '39' })
  t.same(labels[40], { app: 'other', graph: 'other' })
  t.same(figures.few({ app: 'a', graph: '0' }), labels[0], 'a known one stays')
  t.same(figures.few({ assistant: '0' }), { assistant: '0' }, 'other labels are counted apart')
  t.equal(openFigures().few({ graph: 'g'.repeat(500) }).graph!.length, 128)
  t.end()
})

t.test('the delay of the event loop is that of a blocked one only', async t => {
  const figures = openProcessFigures({ version: '1', protocol: 1 })
  t.teardown(figures.close)
  const longest = (): number =>
    figures
      .samples()
      .find(({ name, labels }) => name === 'weft_event_loop_delay_seconds' && labels?.percentile === '100')!.value!
  longest()
  const quiet = await until(async () => {
    await sleep(200)
    const delay = longest()
    return delay < 0.04 && { delay }
  }, 30_000)
  t.ok(quiet.delay < 0.04, 'less than the 50 ms between two looks')
  // The histogram begins with the first look after it was read.
  await sleep(200)
  const end = performance.now() + 300
  while (performance.now() < end);
  await sleep(100)
  t.ok(longest() > 0.2)
})

t.test('a worker cannot break the answer', t => {
  const report: MetricsReport = {
    role: 'graphs',
    worker: 'w',
    samples: [
      sample('weft_hosts', 1, { pool: 'p' }),
      sample('weft_hosts', 2, { pool: 'p' }),
      sample('weft_hosts', 3, { pool: 'q', worker: 'another', role: 'edge' }),
      sample('weft_hosts', 4, { 'x="1"} 5 #': 'q' }),
      { name: 'constructor', value: 1 },
      { name: 'weft_made_up', value: 1 },
    ],
  }
  t.same(samplesOf(report), [
    { name: 'weft_hosts', value: 2, labels: { pool: 'p', role: 'graphs', worker: 'w' } },
    { name: 'weft_hosts', value: 3, labels: { pool: 'q', role: 'graphs', worker: 'w' } },
  ])
  t.end()
})

t.test('an edge hears every worker, skips unreadable answers, and does not wait for those that are known', async t => {
  const nats = await startNats()
  t.teardown(() => nats.stop())
  const link = (role: 'edge' | 'resources' | 'graphs') => openLink({ url: nats.url(role), role, log })
  const [edge, first, second, odd] = await Promise.all([
    link('edge'),
    link('resources'),
    link('graphs'),
    link('graphs'),
  ])
  const mux = openMux(edge)
  t.teardown(async () => {
    mux.close()
    for (const one of [edge, first, second, odd]) await one.close()
  })
  first.figures.onRead(() => [sample('weft_webhooks_under_way', 7)])
  const one = answerMetrics(first, { role: 'resources', worker: '1' })
  const host = { app: 'a', pool: 'p', pid: 1, runs: 2, loop_delay_seconds: 0.2, held_seconds: 0, run: null }
  const two = answerMetrics(second, { role: 'graphs', worker: '2', hosts: () => [host] })
  const broken = answerMetrics(odd, { role: 'graphs', worker: 'x'.repeat(500) })
  await Promise.all([first, second, odd].map(({ nc }) => nc.flush()))
  const reports = openReports(mux)
  const found = await reports.ask()
  t.same(found.map(({ role, worker }) => `${role} ${worker}`).sort(), ['graphs 2', 'resources 1'])
  const { samples } = found.find(({ role }) => role === 'resources')!
  t.match(
    samples.find(({ name }) => name === 'weft_webhooks_under_way'),
    { value: 7 },
  )
  t.same(found.map(({ role, hosts }) => [role, hosts]).sort(), [
    ['graphs', [host]],
    ['resources', undefined],
  ])
  two.close()
  await second.nc.flush()
  t.equal((await reports.ask()).length, 1, 'a worker that has left is missing')
  one.close()
  broken.close()
})
