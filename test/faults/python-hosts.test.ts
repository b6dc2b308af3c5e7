/** Python hosts that their graphs harm: threads that never end, memory, and poison beside good runs. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { isRunning } from '../../cli/processes.js'
import { root } from '../../cli/root.js'
import { venvOf, withoutPython } from '../../scripts/checks/venv.js'
import { type Cluster, startCluster } from '../helpers/cluster.js'
import { commandLineOf } from '../helpers/processes.js'
import { lines } from '../helpers/sdk.js'
import { until } from '../helpers/until.js'

t.setTimeout(240_000)
const skip = withoutPython() ?? false
const THREADS = 8
const FOREVER_MS = 3_600_000

let cluster: Cluster
if (skip === false)
  t.before(async () => {
    const python = await venvOf(join(root, 'test/host-python/requirements.txt'))
    const env = { WEFT_PYTHON: python, WEFT_HOSTS: '1', WEFT_HOST_THREADS: `${THREADS}`, WEFT_HOST_MEMORY_MB: '256' }
    cluster = await startCluster({ app: 'test/apps/basic-py', env })
  })
t.teardown(() => cluster?.stop())

const connect = () => lines[0]!.connect(cluster.url)

const hosts = () => cluster.pids().filter(pid => commandLineOf(pid).includes('host-python/start.py'))

/** Creates a run on a new thread. */
async function create(graph: string, input: object) {
  const client = connect()
  const { thread_id } = await client.threads.create()
  const { run_id } = await client.runs.create(thread_id, graph, { input: { ...input } })
  return {
    status: async () => (await client.runs.get(thread_id, run_id)).status,
    cancel: () => client.runs.cancel(thread_id, run_id, true),
    join: () => client.runs.join(thread_id, run_id),
  }
}

t.test('a host full of nodes that never return is replaced, and the run beside them ends well', { skip }, async t => {
  const [first] = hosts()
  const file = join(t.testdir(), 'released')
  const beside = await create('slow', { ms: 1, file })
  const stuck = await Promise.all(Array.from({ length: THREADS / 2 }, () => create('sync', { ms: FOREVER_MS })))
  for (const { status } of stuck) await until(async () => (await status()) === 'running')
  await Promise.all(stuck.map(({ cancel }) => cancel()))
  t.same(hosts(), [first], 'half of the threads are left')
  const last = await create('sync', { ms: FOREVER_MS })
  await until(async () => (await last.status()) === 'running')
  await last.cancel()
  for (const { status } of [...stuck, last]) t.equal(await status(), 'interrupted')
  await until(() => hosts().some(pid => pid !== first))
  t.match(await connect().runs.wait(null, 'sync', { input: { ms: 1 } }), { done: true }, 'a new host takes runs')
  t.ok(isRunning(first!), 'the first one still executes the run beside them')
  writeFileSync(file, '')
  t.match(await beside.join(), { done: true })
  await until(() => !isRunning(first!))
})

t.test('poison beside good runs: each ends its own way', { skip }, async t => {
  const good = await Promise.all([1, 2, 3, 4, 5].map(n => create('slow', { ms: 400 * n })))
  const poison = ['exits', 'hungry', 'fail'].map(graph => async () => {
    const ended = await connect().runs.wait(null, graph, { input: {}, raiseError: false })
    return (ended as { __error__: { error: string; message: string } }).__error__
  })
  const errors = await Promise.all(poison.map(run => run()))
  t.same(
    errors.map(({ error }) => error),
    ['ProcessExit', 'OutOfMemory', 'TooBadError'],
  )
  t.match(errors[1], { message: /256 MB of memory \(WEFT_HOST_MEMORY_MB\)/ })
  for (const run of good) t.match(await run.join(), { done: true })
  t.match(await connect().runs.wait(null, 'echo', { input: { text: 'next' } }), { seen: 'next' })
})
