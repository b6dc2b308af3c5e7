/** The recorded parts of runs: what ran, inside of what, for how long, with which model and tokens, and how it ended. */
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { root } from '../../../cli/root.js'
import type { RunSpan, RunSpans } from '../../../schemas/trace.js'
import { venvOf, withoutPython } from '../../../scripts/checks/venv.js'
import { startCluster } from '../../helpers/cluster.js'
import { lines } from '../../helpers/sdk.js'

t.setTimeout(120_000)

const cluster = await startCluster({ app: 'test/apps/spans' })
t.teardown(() => cluster.stop())
const client = lines[0]!.connect(cluster.url)

const get = (path: string, url = cluster.url) => fetch(`${url}${path}`)

/** The spans of a run, as soon as they are what `isDone` wants: the broker stores them a moment after they were sent. */
async function spansOf(path: string, isDone: (found: RunSpans) => boolean, url?: string): Promise<RunSpans> {
  for (;;) {
    const answer = await get(`${path}/spans`, url)
    if (answer.status !== 200) throw new Error(`${answer.status}: ${await answer.text()}`)
    const found = (await answer.json()) as RunSpans
    if (isDone(found)) return found
    await sleep(50)
  }
}

const hasEnded = ({ status, spans }: RunSpans) =>
  status !== 'pending' && status !== 'running' && spans.length > 0 && spans.every(span => span.status !== 'running')

/** Starts a run; its thread and its path. */
async function start(graph: string, input: object | null, thread_id?: string) {
  thread_id ??= (await client.threads.create()).thread_id
  const { run_id } = await client.runs.create(thread_id, graph, { input: input as never })
  return { thread_id, run_id, path: `/threads/${thread_id}/runs/${run_id}` }
}

/** The tree as indented lines. */
function tree(spans: RunSpan[], parent: string | null = null, depth = 0): string[] {
  return spans
    .filter(({ parent_id }) => parent_id === parent)
    .flatMap(({ id, type, name, status }) => [
      `${'  '.repeat(depth)}${type} ${name} ${status}`,
      ...tree(spans, id, depth + 1),
    ])
}

/** The parts of the graph `agent`, which is the same in both languages. */
const AGENT = [
  'graph agent ok',
  '  node think ok',
  '    model Parrot ok',
  '  node act ok',
  '    tool broken error',
  '    tool look_up ok',
  '  subgraph inner ok',
  '    node leaf ok',
]

t.test('a run shows its nodes, its model, its tools and its subgraph', async t => {
  const { path, thread_id, run_id } = await start('agent', {})
  const found = await spansOf(path, hasEnded)
  t.match(found, { run_id, thread_id, left_out: 0 })
  t.same(tree(found.spans), AGENT)
  const named = (name: string) => found.spans.find(span => span.name === name)!
  t.match(named('Parrot'), { model: 'parrot-1', input_tokens: 7, output_tokens: 2, error: null, attempt: 1 })
  t.type(named('Parrot').first_token_ms, 'number')
  t.equal(named('broken').error, 'no such word', 'the first line')
  const graph = named('agent')
  for (const { name, started_at, duration_ms } of found.spans) {
    t.ok(Date.parse(started_at) >= Date.parse(graph.started_at), `${name} starts within the run`)
    t.ok(duration_ms! <= graph.duration_ms!, `${name} is not longer than the run`)
  }
  t.same(await (await get(`/runs/${run_id}/spans`)).json(), found, 'also without the thread in the path')
})

t.test('a streamed run has the same parts', async t => {
  const { thread_id } = await client.threads.create()
  let run_id = ''
  for await (const { event, data } of client.runs.stream(thread_id, 'agent', {
    input: {},
    streamMode: ['messages-tuple', 'updates', 'tools' as never],
  }))
    if (event === 'metadata') run_id = (data as { run_id: string }).run_id
  const found = await spansOf(`/threads/${thread_id}/runs/${run_id}`, hasEnded)
  t.equal(found.spans.length, 8)
  t.match(
    found.spans.find(({ type }) => type === 'model'),
    { model: 'parrot-1', output_tokens: 2, status: 'ok' },
  )
})

t.test('a node that fails has its error, and so has the graph', async t => {
  const { path } = await start('fail', {})
  const { spans } = await spansOf(path, hasEnded)
  t.same(tree(spans), ['graph fail error', '  node bad error'])
  t.same(
    spans.map(({ error }) => error),
    ['too bad', 'too bad'],
  )
})

t.test('an interrupt is no error', async t => {
  const { path, thread_id } = await start('ask', {})
  const { spans } = await spansOf(path, hasEnded)
  t.same(tree(spans), ['graph ask interrupted', '  node before ok', '  node question interrupted'])
  t.same(
    spans.map(({ error }) => error),
    [null, null, null],
  )
  const resumed = await client.runs.create(thread_id, 'ask', { command: { resume: 'this' } })
  const after = await spansOf(`/threads/${thread_id}/runs/${resumed.run_id}`, hasEnded)
  t.same(tree(after.spans), ['graph ask ok', '  node question ok'])
})

t.test('a running node is shown, and a run that was cancelled has no error', async t => {
  const { path, thread_id, run_id } = await start('crash', { folder: mkdtempSync(join(tmpdir(), 'weft-spans-')) })
  const isOpen = ({ spans }: RunSpans) => spans.some(span => span.name === 'second' && span.status === 'running')
  const { spans } = await spansOf(path, isOpen)
  t.match(
    spans.find(({ name }) => name === 'second'),
    { duration_ms: null },
  )
  await client.runs.cancel(thread_id, run_id, true)
  const after = await spansOf(path, hasEnded)
  t.same(tree(after.spans), ['graph crash cancelled', '  node first ok', '  node second cancelled'])
})

t.test('the parts of an attempt whose host died are kept, and the next attempt has its own', async t => {
  const folder = mkdtempSync(join(tmpdir(), 'weft-spans-'))
  const { path } = await start('crash', { folder })
  await spansOf(path, ({ spans }) => spans.some(span => span.name === 'second' && span.status === 'running'))
  writeFileSync(join(folder, 'go'), '')
  const { spans } = await spansOf(path, found => hasEnded(found) && found.spans.some(({ attempt }) => attempt === 2))
  t.same(tree(spans.filter(({ attempt }) => attempt === 1)), [
    'graph crash lost',
    '  node first ok',
    '  node second lost',
  ])
  t.same(tree(spans.filter(({ attempt }) => attempt === 2)), ['graph crash ok', '  node second ok'])
  t.equal(new Set(spans.map(({ id }) => id)).size, spans.length, 'ids are unique over attempts')
})

t.test('what exceeds the limit is counted', async t => {
  const { path } = await start('many', { steps: 1_100 })
  const found = await spansOf(path, hasEnded)
  t.equal(found.spans.length, 1_000)
  t.equal(found.left_out, 102, 'the graph and its node are among the 1,000')
  t.equal(tree(found.spans).length, 1_000, 'every part has the one around it')
})

t.test('unknown runs, and those of other threads, are not found', async t => {
  const { run_id } = await start('agent', {})
  const other = (await client.threads.create()).thread_id
  const unknown = '00000000-0000-4000-8000-000000000000'
  for (const path of [`/runs/${unknown}`, `/threads/${other}/runs/${run_id}`]) {
    const answer = await get(`${path}/spans`)
    t.equal(answer.status, 404)
    t.match(await answer.json(), { detail: 'Run not found' })
  }
})

t.test('a deleted run has none, and neither has a run of a deleted thread', async t => {
  const { path, thread_id, run_id } = await start('agent', {})
  await spansOf(path, hasEnded)
  await client.runs.delete(thread_id, run_id)
  t.equal((await get(`${path}/spans`)).status, 404)
})

t.test('graphs in Python have the same parts', { skip: withoutPython() ?? false }, async t => {
  const WEFT_PYTHON = await venvOf(join(root, 'test/host-python/requirements.txt'))
  const { url, stop } = await startCluster({ app: 'test/apps/spans-py', env: { WEFT_PYTHON, WEFT_HOSTS: '1' } })
  t.teardown(stop)
  const python = lines[0]!.connect(url)
  const { thread_id } = await python.threads.create()
  const run = async (graph: string) => {
    const { run_id } = await python.runs.create(thread_id, graph, { input: {}, multitaskStrategy: 'enqueue' })
    return spansOf(`/threads/${thread_id}/runs/${run_id}`, hasEnded, url)
  }
  const { spans } = await run('agent')
  t.same(tree(spans), AGENT)
  const named = (name: string) => spans.find(span => span.name === name)!
  t.match(named('Parrot'), { model: 'parrot-1', input_tokens: 7, output_tokens: 2 })
  t.type(named('Parrot').first_token_ms, 'number')
  t.equal(named('broken').error, 'no such word')
  t.match(await run('fail'), {
    spans: [
      { type: 'graph', status: 'error', error: 'too bad' },
      { name: 'bad', status: 'error', error: 'too bad' },
    ],
  })
  t.same(tree((await run('ask')).spans), ['graph ask interrupted', '  node before ok', '  node question interrupted'])
})
