/** Graphs in Python beside one in JavaScript: every client, every kind of run, and hosts that die. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { root } from '../../cli/root.js'
import { venvOf, withoutPython } from '../../scripts/checks/venv.js'
import { type Cluster, startCluster } from '../helpers/cluster.js'
import { pythonChecks, runChecks } from '../helpers/python-checks.js'
import { lines } from '../helpers/sdk.js'

const skip = withoutPython() ?? false

t.setTimeout(420_000)

let cluster: Cluster
let files: string
if (skip === false)
  t.before(async () => {
    const python = await venvOf(join(root, 'test/host-python/requirements.txt'))
    files = mkdtempSync(join(tmpdir(), 'weft-python-'))
    cluster = await startCluster({ app: 'test/apps/basic-py', env: { WEFT_PYTHON: python, WEFT_HOSTS: '1' } })
  })
t.teardown(async () => {
  await cluster?.stop()
  if (files) rmSync(files, { recursive: true, force: true })
})

t.test(
  'questions about a compiled graph are answered by an idle host, those about a factory by another one',
  { skip },
  async t => {
    const hosts = () => cluster.pids().filter(pid => readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('start.py'))
    const describe = async (path: string) => {
      const answer = await fetch(`${cluster.url}/assistants/${path}`)
      t.equal(answer.status, 200, path)
      return (await answer.json()) as object
    }
    const before = hosts()
    t.match(await describe('counter/schemas'), { state_schema: { properties: { steps: {} } } })
    for (const path of ['nested/graph?xray=true', 'nested/subgraphs?recurse=true']) await describe(path)
    t.same(hosts(), before)
    await describe('factory/schemas')
    t.equal(hosts().length, before.length + 1)
  },
)

t.test('through the official Python SDK', { skip }, async t => {
  const client = await venvOf(join(pythonChecks, 'requirements.txt'))
  for (const file of ['check.py', 'check_runs.py', 'check_graphs.py'])
    await runChecks(t, client, file, { WEFT_URL: cluster.url })
})

for (const { name, connect } of lines) {
  t.test(`${name}: streams, answers and cancels`, { skip }, async t => {
    const client = connect(cluster.url)
    const { thread_id } = await client.threads.create()
    const events: { event: string; data: unknown }[] = []
    const options = { input: { steps: 2 }, streamMode: ['values', 'updates'] as ['values', 'updates'] }
    for await (const { event, data } of client.runs.stream(thread_id, 'counter', options)) events.push({ event, data })
    const names = ['metadata', 'values', 'updates', 'values', 'updates', 'values']
    t.same(
      events.map(({ event }) => event),
      names,
    )
    t.same(events.at(-1)!.data, { steps: 2, numbers: [1, 2] })
    for (const answer of [null, false, 0, '', { a: 1 }]) {
      const { thread_id } = await client.threads.create()
      await client.runs.wait(thread_id, 'ask', { input: { question: 'sure?' } })
      const values = await client.runs.wait(thread_id, 'ask', { command: { resume: answer } })
      t.match(values, { answer: { given: answer } }, `the answer ${JSON.stringify(answer)}`)
    }
    const { run_id } = await client.runs.create(thread_id, 'slow', { input: { ms: 20_000 } })
    await client.runs.cancel(thread_id, run_id, true)
    t.match(await client.runs.get(thread_id, run_id), { status: 'interrupted' })
  })
}

/** The Python hosts of the cluster. */
const hosts = (): number[] =>
  cluster.pids().filter(pid => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('host-python/start.py')
    } catch {
      return false
    }
  })

t.test('a host killed in mid-run: one stream, and no step that was stored is executed again', { skip }, async t => {
  const client = lines[0]!.connect(cluster.url)
  const { thread_id } = await client.threads.create()
  const file = join(files, 'steps')
  const options = {
    input: { file },
    streamMode: 'updates' as const,
    durability: 'sync' as const,
    streamResumable: true,
  }
  const attempts: number[] = []
  const steps: number[] = []
  const ids: number[] = []
  for await (const { id, event, data } of client.runs.stream(thread_id, 'steps', options)) {
    ids.push(Number(id))
    if (event === 'metadata') attempts.push((data as unknown as { attempt: number }).attempt)
    if (event === 'updates') steps.push(...(data as { step: { steps: number[] } }).step.steps)
    if (steps.length === 5 && attempts.length === 1) process.kill(hosts()[0]!, 'SIGKILL')
  }
  t.same(attempts, [1, 2])
  t.ok(
    ids.every((id, i) => i === 0 || id > ids[i - 1]!),
    'ids increase over attempts',
  )
  const all = Array.from({ length: 20 }, (_, n) => n)
  t.match((await client.threads.getState(thread_id)).values, { steps: all })
  const executed = readFileSync(file, 'utf8').trim().split('\n').map(Number)
  t.same([...new Set(executed)], all, 'in order')
  t.ok(executed.length - all.length <= 1, 'only the step that was in flight ran twice')
  const history = await client.threads.getHistory(thread_id, { limit: 100 })
  const numbers = history.map(({ metadata }) => metadata?.step)
  t.equal(new Set(numbers).size, numbers.length, 'no step has two checkpoints')
})

t.test('a run that ends its host is charged, and the run beside it is not', { skip }, async t => {
  const client = lines[0]!.connect(cluster.url)
  const { thread_id } = await client.threads.create()
  const beside = client.runs.wait(thread_id, 'slow', { input: { ms: 3_000 } })
  const ended = await client.runs.wait(null, 'exits', { input: {}, raiseError: false })
  t.match(ended, { __error__: { error: 'ProcessExit', message: 'the process ended with exit code 7' } })
  t.match(await beside, { done: true })
})

t.test('a node that holds the event loop is reported, and its cancel ends at once', { skip }, async t => {
  const client = lines[0]!.connect(cluster.url)
  const { thread_id } = await client.threads.create()
  const { run_id } = await client.runs.create(thread_id, 'blocks', { input: { ms: 60_000 } })
  while (!cluster.output().includes('this graph shares no host')) await new Promise(done => setTimeout(done, 50))
  await client.runs.cancel(thread_id, run_id, true)
  t.match(await client.runs.get(thread_id, run_id), { status: 'interrupted' })
  t.match(await client.runs.wait(null, 'echo', { input: { text: 'next' } }), { seen: 'next' })
})
