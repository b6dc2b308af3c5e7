/** The figures that ended runs add to: workers/resources/runs/figures.ts. */
import t from 'tap'
import { openFigures } from '../../bus/figures.js'
import { type MetricsReport, validateMetricsReport } from '../../schemas/metrics.js'
import { countEnd } from '../../workers/resources/runs/figures.js'

const run = { app: 'built-in', graph_id: 'g', assistant_id: 'a', created_at: 1_000, due_at: 0, started_at: 3_000 }
const samplesOf = (figures: ReturnType<typeof openFigures>) => figures.samples(error => t.fail(String(error)))

t.test('the times of runs', async t => {
  for (const [what, given, seconds] of [
    ['a run that might start at once', {}, 2],
    ['a delayed run waits from when it is due', { due_at: 2_500 }, 0.5],
    ['a run that was handed back and is due again', { due_at: 9_000 }, 2],
    ['a clock that went back', { created_at: 3_500, due_at: 3_500 }, 0],
  ] as const) {
    const figures = openFigures()
    countEnd({ figures }, { ...run, ...given }, 'success', 10_000)
    const sums = new Map((await samplesOf(figures)).map(({ name, sum }) => [name, sum]))
    t.equal(sums.get('weft_run_seconds'), 7, what)
    t.equal(sums.get('weft_run_wait_seconds'), seconds, what)
  }
  const figures = openFigures()
  countEnd({ figures }, { ...run, started_at: null }, 'interrupted', 10_000)
  const names = (await samplesOf(figures)).map(({ name }) => name)
  t.same(names, ['weft_runs_ended_total', 'weft_graph_runs_total', 'weft_assistant_runs_total'], 'it never started')
})

t.test('a worker with many graphs and assistants reports all the same', async t => {
  const figures = openFigures()
  const statuses = ['success', 'error', 'timeout', 'interrupted', 'rolled_back']
  for (let i = 0; i < 200; i++)
    for (const status of statuses)
      countEnd({ figures }, { ...run, graph_id: `${i}${'g'.repeat(500)}`, assistant_id: `${i}` }, status, 10_000)
  const samples = await samplesOf(figures)
  const report: MetricsReport = { role: 'resources', worker: 'w', samples }
  t.ok(validateMetricsReport(report).success)
  t.ok(samples.length < 600, `${samples.length}`)
  const ended = samples.filter(({ name }) => name === 'weft_graph_runs_total')
  t.equal(
    ended.reduce((sum, { value }) => sum + value!, 0),
    1_000,
    'each is counted',
  )
  t.equal(ended.find(({ labels }) => labels!.graph === 'other' && labels!.status === 'error')!.value, 160)
})
