/** Which run holds the event loop of which host, as `/metrics` tells. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { root } from '../../../cli/root.js'
import { startCluster } from '../../helpers/cluster.js'
import { lines } from '../../helpers/sdk.js'
import { until } from '../../helpers/until.js'

t.setTimeout(60_000)

interface Host {
  worker: string
  pid: number
  runs: number
  loop_delay_seconds: number
  held_seconds: number
  run: { run_id: string; thread_id: string; graph_id: string } | null
}

async function hostsOf(url: string, headers: { [name: string]: string } = {}): Promise<Host[]> {
  const answer = await fetch(`${url}/metrics?format=json`, { headers })
  return ((await answer.json()) as { hosts: Host[] }).hosts
}

/** A new key with one scope. */
async function newKey(data: string, scope: string): Promise<string> {
  const args = ['dist/cli/weft.js', 'keys', 'create', scope, '--scope', scope, '--data', data]
  const env = { ...process.env, WEFT_REQUIRE_KEYS: '1', NODE_OPTIONS: '' }
  return (await promisify(execFile)(process.execPath, args, { cwd: root, env })).stdout.trim()
}

/** Figures of workers are collected every 5 s. */
const HOLDS = { steps: 1, at: 1, harm: 'busy', ms: 8_000 }

t.test('the run that holds the event loop of a host is named', async t => {
  const cluster = await startCluster({ app: 'test/apps/faults', flags: ['--slots', '20'] })
  t.teardown(() => cluster.stop())
  const client = lines[0]!.connect(cluster.url)
  const idle = await hostsOf(cluster.url)
  t.ok(idle.length >= 1)
  for (const host of idle) t.match(host, { pool: 'default', app: 'built-in', runs: 0, held_seconds: 0, run: null })

  const { thread_id } = await client.threads.create()
  const { run_id } = await client.runs.create(thread_id, 'poison', { input: HOLDS })
  const found = await until(async () => (await hostsOf(cluster.url)).find(({ run }) => run !== null))
  t.match(found, { runs: 1, run: { run_id, thread_id, graph_id: 'poison' } })
  t.ok(found.held_seconds >= 0.1 && found.loop_delay_seconds >= found.held_seconds)
  t.equal(typeof found.pid, 'number')
  // The same collection.
  const text = await (await fetch(`${cluster.url}/metrics`)).text()
  t.match(text, /^weft_hosts_held\{.*pool="default".*\} 1$/m)
  const delay = Number(/^weft_host_loop_delay_seconds\{.*\} (.*)$/m.exec(text)![1])
  t.ok(delay >= 0.1)
  t.notMatch(text, new RegExp(`${run_id}|pid=`), 'no label without a bound')
  await client.runs.join(thread_id, run_id)
  await until(async () => (await hostsOf(cluster.url)).every(({ held_seconds, run }) => held_seconds === 0 && !run))
})

t.test('where the server needs a key, a run is named to those only who have one', async t => {
  const cluster = await startCluster({
    app: 'test/apps/faults',
    env: { WEFT_REQUIRE_KEYS: '1', WEFT_CONTROL_KEY: 'a-control-key-for-tests' },
  })
  t.teardown(() => cluster.stop())
  const [reader, other] = await Promise.all([newKey(cluster.data, 'read'), newKey(cluster.data, 'deployments')])
  const runner = await newKey(cluster.data, 'run')
  await fetch(`${cluster.url}/runs`, {
    method: 'POST',
    headers: { 'x-api-key': runner, 'content-type': 'application/json' },
    body: JSON.stringify({ assistant_id: 'poison', input: HOLDS }),
  })
  await until(async () => (await hostsOf(cluster.url, { 'x-api-key': reader })).some(({ run }) => run !== null))
  for (const key of ['', 'x', other, reader.replace(/.$/, '_'), 'a-control-key-for-tests']) {
    const [held] = (await hostsOf(cluster.url, { 'x-api-key': key })).filter(({ held_seconds }) => held_seconds > 0)
    t.match(held, { run: null }, `without: ${key.slice(0, 8)}`)
  }
})
