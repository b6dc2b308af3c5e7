/**
 * The alerts of deploy/monitoring, evaluated by Prometheus: what raises them and what does not. Skipped without a program promtool
 * (PATH, or PROMTOOL).
 */
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { root } from '../../cli/root.js'

const promtool = process.env.PROMTOOL ?? 'promtool'
const isThere = spawnSync(promtool, ['--version']).status === 0
const options = isThere ? {} : { skip: 'no program promtool on PATH, nor named by PROMTOOL' }
const rules = join(root, 'deploy/monitoring/alerts.yml')

type Series = { [series: string]: string }
interface Case {
  alert: string
  /** Values of one a minute, for 90 minutes. */
  raised: Series
  labels: { [label: string]: string }
  severity: string
  quiet: Series
}
const always = (value: number) => `${value}x90`
const growing = (step: number) => `0+${step}x90`
const up = (role: string, worker: string) => `weft_up{role="${role}",worker="${worker}"}`
const ended = (status: string) => `weft_graph_runs_total{app="a",graph="g",status="${status}"}`

const CASES: Case[] = [
  {
    alert: 'WeftProcessMissing',
    raised: { [up('graphs', '1')]: always(1) },
    labels: { role: 'resources' },
    severity: 'critical',
    quiet: { [up('graphs', '1')]: always(1), [up('resources', '1')]: always(1) },
  },
  {
    alert: 'WeftWorkerMissing',
    raised: { [up('resources', '1')]: always(1), [up('resources', '2')]: '1x60 _x30' },
    labels: { role: 'resources' },
    severity: 'warning',
    // One of three minutes in which a rolling restart has one more.
    quiet: { [up('resources', '1')]: always(1), [up('resources', '2')]: '_x60 1x3 _x27' },
  },
  {
    alert: 'WeftPoolWithoutWorker',
    raised: { 'weft_queue_waiting{pool="p"}': always(1), 'weft_pool_slots{pool="q"}': always(1) },
    labels: { pool: 'p' },
    severity: 'critical',
    quiet: { 'weft_queue_waiting{pool="p"}': always(1), 'weft_pool_slots{pool="p"}': always(1) },
  },
  {
    alert: 'WeftRunsFail',
    raised: { [ended('error')]: growing(2), [ended('success')]: growing(8) },
    labels: { app: 'a', graph: 'g' },
    severity: 'warning',
    quiet: { [ended('error')]: growing(2), [ended('success')]: growing(98), [ended('interrupted')]: growing(50) },
  },
  {
    alert: 'WeftRunsLong',
    raised: { 'weft_running_oldest_seconds{pool="p"}': growing(60) },
    labels: { pool: 'p' },
    severity: 'warning',
    quiet: { 'weft_running_oldest_seconds{pool="p"}': always(60) },
  },
  {
    alert: 'WeftBrokerCopyBehind',
    raised: { 'weft_stream_copy_current{stream="RUNS",server="n"}': always(0) },
    labels: { stream: 'RUNS', server: 'n' },
    severity: 'warning',
    quiet: { 'weft_stream_copy_current{stream="RUNS",server="n"}': always(1) },
  },
  {
    alert: 'WeftBrokerCopiesMissing',
    raised: {
      'weft_stream_copies{stream="RUNS"}': always(3),
      'weft_stream_copy_current{stream="RUNS",server="n"}': always(1),
    },
    labels: { stream: 'RUNS' },
    severity: 'critical',
    quiet: {
      'weft_stream_copies{stream="RUNS"}': always(1),
      'weft_stream_copy_current{stream="RUNS",server="n"}': always(1),
    },
  },
  {
    alert: 'WeftStoreAway',
    raised: { [up('resources', '1')]: always(1) },
    labels: {},
    severity: 'critical',
    quiet: { [up('resources', '1')]: always(1), 'weft_store_ping_seconds{worker="1"}': always(0.001) },
  },
  {
    alert: 'WeftBrokerAway',
    raised: { [up('resources', '1')]: always(1) },
    labels: {},
    severity: 'critical',
    quiet: { [up('resources', '1')]: always(1), 'weft_stream_copies{stream="RUNS"}': always(1) },
  },
]

/** The labels of what it raises: the sentences are read by deploy-files.test.ts. */
function firing(series: Series, alert: string): string[] {
  const file = join(t.testdir(), 'test.json')
  const input = Object.entries(series).map(([name, values]) => ({ series: name, values }))
  // An expectation that never holds: promtool then prints what it found.
  const exp_alerts = [{ exp_labels: { never: 'true' } }]
  const alert_rule_test = [{ eval_time: '80m', alertname: alert, exp_alerts }]
  const tests = [{ interval: '1m', input_series: input, alert_rule_test }]
  writeFileSync(file, JSON.stringify({ rule_files: [rules], evaluation_interval: '1m', tests }))
  const { stdout, stderr } = spawnSync(promtool, ['test', 'rules', file], { encoding: 'utf8' })
  const found = /got:\s*\[([\s\S]*)\]/.exec(stdout + stderr)?.[1]
  if (found === undefined) throw new Error(stdout + stderr)
  return [...found.matchAll(/Labels:\{([^}]*)\}/g)].map(([, labels]) => labels!)
}

t.test('promtool accepts the rules', options, async t => {
  const { status, stdout, stderr } = spawnSync(promtool, ['check', 'rules', rules], { encoding: 'utf8' })
  t.equal(status, 0, stdout + stderr)
})

for (const { alert, raised, labels, severity, quiet } of CASES)
  t.test(`what raises ${alert}`, options, async t => {
    const wanted = { alertname: alert, ...labels, severity }
    const text = Object.entries(wanted)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, value]) => `${name}="${value}"`)
    t.same(firing(raised, alert), [text.join(', ')])
    t.same(firing(quiet, alert), [])
  })
