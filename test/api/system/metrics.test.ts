/** `/metrics` of a whole server (docs/spec/http.md#system). */
import t from 'tap'
import { startCluster, startRoles } from '../../helpers/cluster.js'
import { lines } from '../../helpers/sdk.js'
import { until } from '../../helpers/until.js'

t.setTimeout(60_000)

const ROLES = ['edge', 'resources', 'graphs', 'deployer']
const LINE = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/

/** Each line of the text; fails on a line that Prometheus would refuse, and on one that comes twice. */
function parse(text: string) {
  const seen = new Set<string>()
  return text.split('\n').flatMap(line => {
    if (line === '' || line.startsWith('# HELP ') || line.startsWith('# TYPE ')) return []
    const [, name, labels = '', value] = LINE.exec(line) ?? []
    if (name === undefined || !Number.isFinite(Number(value))) throw new Error(`no sample: ${line}`)
    const key = `${name}{${labels}}`
    if (seen.has(key)) throw new Error(`twice: ${line}`)
    seen.add(key)
    return [{ name, labels, value: Number(value) }]
  })
}

t.test('figures of the edge, the workers, the queues and the store', async t => {
  // All runs go through the work queue, whose figures are compared; runs that are handed over: resources/hand-over.
  const env = { WEFT_HAND_OVER: 'false' }
  const cluster = await startCluster({ app: 'test/apps/basic', flags: ['--slots', '50'], env })
  t.teardown(() => cluster.stop())
  const client = lines[0]!.connect(cluster.url)
  await client.runs.wait(null, 'echo', { input: {} })
  await client.runs.wait(null, 'echo', { input: {} })
  const { thread_id } = await client.threads.create()
  const slow = await client.runs.create(thread_id, 'slow', { input: { ms: 30_000 } })
  await client.runs.create(thread_id, 'echo', { input: {}, multitaskStrategy: 'enqueue' })
  await until(async () => (await client.runs.get(thread_id, slow.run_id)).status === 'running')
  await fetch(`${cluster.url}/threads/${thread_id.replace(/.$/, '?')}`)

  for await (const { event } of client.runs.stream(null, 'echo', { input: {}, streamResumable: true }))
    t.not(event, 'error')
  const cancelled = await client.runs.create(thread_id, 'echo', { input: {}, multitaskStrategy: 'enqueue' })
  await client.runs.cancel(thread_id, cancelled.run_id, true)
  await client.runs.wait(null, 'fail', { input: {} }).catch(() => {})

  // A worker that answers late is left out.
  const samples = await until(async () => {
    const answer = await fetch(`${cluster.url}/metrics`)
    t.equal(answer.status, 200)
    t.equal(answer.headers.get('content-type'), 'text/plain; version=0.0.4; charset=utf-8')
    const all = parse(await answer.text())
    const ups = all.filter(({ name }) => name === 'weft_up')
    return ROLES.every(role => ups.some(({ labels }) => labels.includes(`role="${role}"`))) && all
  })
  const value = (name: string, ...labels: string[]) =>
    samples.find(one => one.name === name && labels.every(label => one.labels.includes(label)))?.value
  t.equal(value('lg_api_workers_max'), 50)
  t.equal(value('lg_api_workers_active'), 1)
  t.equal(value('lg_api_workers_available'), 49)
  t.equal(value('lg_api_num_running_runs'), 1)
  t.equal(value('lg_api_num_pending_runs'), 1)
  t.equal(value('lg_api_http_requests_total', 'method="POST"', 'path="/runs/wait"', 'status="2xx"'), 3)
  t.equal(value('lg_api_http_requests_latency_seconds_count', 'path="/runs/wait"'), 3)
  t.equal(value('lg_api_http_requests_latency_seconds_bucket', 'path="/runs/wait"', 'le="+Inf"'), 3)
  t.ok(value('lg_api_http_requests_latency_seconds_sum', 'path="/runs/wait"')! > 0)
  t.equal(value('weft_queue_waiting', 'pool="default"'), 0)
  t.ok(value('weft_queue_taken', 'pool="default"')! >= 1)
  t.ok(value('weft_queue_oldest_seconds', 'pool="default"')! >= 0)
  t.ok(value('weft_pool_jobs_total', 'pool="default"')! >= 3)
  t.equal(value('weft_pool_redeliveries_total', 'pool="default"'), 0)
  t.ok(value('weft_hosts', 'pool="default"')! >= 1)
  t.ok(value('weft_store_write_seconds_count')! > 3)
  t.equal(value('weft_store_failures_total'), 0)
  t.ok(value('weft_store_ping_seconds')! > 0)
  t.equal(value('weft_runs_ended_total', 'status="success"'), 3)
  t.equal(value('weft_runs_ended_total', 'status="error"'), 1)
  t.equal(value('weft_runs_ended_total', 'status="interrupted"'), 1)
  t.equal(value('weft_runs_ended_total', 'status="timeout"'), 0)
  t.equal(value('weft_graph_runs_total', 'graph="echo"', 'status="success"'), 3)
  t.equal(value('weft_graph_runs_total', 'graph="fail"', 'status="error"'), 1)
  t.equal(value('weft_run_seconds_count', 'app="built-in"', 'graph="echo"'), 3, 'one was cancelled before it began')
  t.equal(value('weft_run_wait_seconds_count', 'graph="fail"'), 1)
  t.ok(value('weft_running_oldest_seconds', 'pool="default"')! >= 0)
  for (const stream of ['RUNS', 'EVENTS', 'SPANS']) {
    t.equal(value('weft_stream_copies', `stream="${stream}"`), 1)
    t.equal(value('weft_stream_copy_current', `stream="${stream}"`), 1)
    t.ok(value('weft_stream_limit_bytes', `stream="${stream}"`)! > 1e6)
  }
  t.ok(value('weft_broker_bytes')! > 0)
  t.ok(value('weft_broker_api_errors_total')! >= 0)
  for (const role of ROLES) t.equal(value('weft_broker_disconnects_total', `role="${role}"`), 0, role)
  t.equal(value('weft_run_claims_total', 'answer="taken"'), 5)
  t.equal(value('weft_run_takeovers_total'), 0)
  t.equal(value('weft_run_hand_overs_total', 'answer="started"'), 0)
  t.ok(value('weft_publish_seconds_count')! >= 1)
  t.ok(value('weft_lease_age_seconds', 'pool="default"')! > 0)
  t.equal(value('weft_foreign_frames_total', 'pool="default"'), 0)
  t.ok(Math.abs(value('weft_clock_ahead_seconds')!) < 2)
  t.ok(value('weft_store_bytes')! > 10_000)
  t.ok(value('weft_disk_free_bytes', 'role="resources"')! > 0)
  t.equal(value('weft_deploy_tasks', 'kind="deploy"', 'role="deployer"'), 0)
  for (const role of ROLES) {
    t.ok(value('weft_event_loop_delay_seconds', `role="${role}"`, 'percentile="99"')! >= 0, role)
    t.ok(value('weft_process_resident_bytes', `role="${role}"`)! > 1e6, role)
    t.equal(value('weft_up', `role="${role}"`), 1, role)
  }

  const json = (await (await fetch(`${cluster.url}/metrics?format=json`)).json()) as object
  t.match(json, {
    queue: { n_pending: 1, n_running: 1, max_age_secs: Number },
    workers: { max: 50, active: 1, available: 49 },
  })
  t.equal((await fetch(`${cluster.url}/metrics?format=xml`)).status, 422)
  t.equal((await fetch(`${cluster.url}/deployments/x/metrics`)).status, 404)
})

t.test('the queue is unknown, not empty, while no resource worker answers', async t => {
  const roles = await startRoles({ edges: 1, resources: 1, graphs: 1, app: 'test/apps/basic' })
  t.teardown(() => roles.stop())
  await roles.resources[0]!.stop()
  const answer = await fetch(`${roles.urls[0]}/metrics?format=json`)
  t.equal(answer.status, 200)
  t.match(await answer.json(), { queue: { n_pending: null, n_running: null, max_age_secs: null } })
})
