/** Log lines of hosts and workers, as `/workers/logs` tells them: whose they are, and who may read them. */
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { root } from '../../../cli/root.js'
import type { LogLines } from '../../../schemas/trace.js'
import { venvOf, withoutPython } from '../../../scripts/checks/venv.js'
import { startCluster } from '../../helpers/cluster.js'
import { sender } from '../../helpers/http.js'
import { until } from '../../helpers/until.js'

t.setTimeout(120_000)

async function logsOf(url: string, query = '', headers: { [name: string]: string } = {}) {
  const answer = await fetch(`${url}/workers/logs?${query}`, { headers })
  return { status: answer.status, body: (await answer.json()) as LogLines & { detail?: string } }
}
const textsOf = async (url: string, query: string) => (await logsOf(url, query)).body.lines.map(({ text }) => text)

const JAVASCRIPT = `import { execFileSync } from 'node:child_process'
import { Annotation, START, StateGraph } from '@langchain/langgraph'
const node = async ({ name, fails }) => {
  console.log(\`\\u001b[32mhello \${name}\\u001b[0m\`)
  await new Promise(resolve => setTimeout(resolve, 50))
  console.error('[warn] again', name)
  execFileSync('echo', ['from a child of', name], { stdio: 'inherit' })
  if (fails) throw new Error('no luck for ' + name)
  return {}
}
export const graph = new StateGraph(Annotation.Root({ name: Annotation(), fails: Annotation() }))
  .addNode('node', node).addEdge(START, 'node').compile()
`
const PYTHON = `import asyncio
import logging
import threading

from langgraph.graph import START, StateGraph


async def node(state: dict) -> dict:
    print("hello", state["name"])
    await asyncio.sleep(0.05)
    await asyncio.to_thread(print, "from a thread of", state["name"])
    logging.getLogger("shop").error("bad day for %s", state["name"])
    return {}


graph = StateGraph(dict).add_node("node", node).add_edge(START, "node").compile()
`

t.test('a line names the run that wrote it', async t => {
  const hasPython = withoutPython() === null
  const env: { [name: string]: string } = hasPython
    ? { WEFT_PYTHON: await venvOf(join(root, 'test/host-python/requirements.txt')) }
    : {}
  const folder = mkdtempSync(join(tmpdir(), 'weft-logs-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  writeFileSync(join(folder, 'graph.mjs'), JAVASCRIPT)
  writeFileSync(join(folder, 'graph.py'), PYTHON)
  const graphs = { javascript: './graph.mjs:graph', ...(hasPython ? { python: './graph.py:graph' } : {}) }
  writeFileSync(join(folder, 'langgraph.json'), JSON.stringify({ graphs }))
  const cluster = await startCluster({ app: join(folder, 'langgraph.json'), env: { ...env, WEFT_HOSTS: '1' } })
  t.teardown(() => cluster.stop())
  const send = sender(cluster.url)
  const runs = await Promise.all(
    Object.keys(graphs).flatMap(graph_id =>
      ['ann', 'bob'].map(async name => {
        const { thread_id } = (await send('POST', '/threads', {})).body as { thread_id: string }
        const body = { assistant_id: graph_id, input: { name, fails: name === 'bob' && graph_id === 'javascript' } }
        const { run_id } = (await send('POST', `/threads/${thread_id}/runs`, body)).body as { run_id: string }
        await send('GET', `/threads/${thread_id}/runs/${run_id}/join`)
        return { graph_id, name, thread_id, run_id }
      }),
    ),
  )
  for (const { graph_id, name, thread_id, run_id } of runs) {
    const isFailed = name === 'bob' && graph_id === 'javascript'
    const wanted =
      graph_id === 'python'
        ? [`hello ${name}`, `from a thread of ${name}`, `bad day for ${name}`]
        : [`hello ${name}`, `[warn] again ${name}`, ...(isFailed ? ['run failed'] : [])]
    await until(async () => (await textsOf(cluster.url, `run_id=${run_id}`)).length >= wanted.length)
    const { lines } = (await logsOf(cluster.url, `run_id=${run_id}`)).body
    // Two pipes: their order in time is not that of the writes.
    const texts = lines.map(({ text }) => text.split('\n')[0]!.replace(/^(run failed).*/, '$1'))
    t.same(texts.toSorted(), wanted.toSorted(), `${graph_id} ${name}`)
    for (const line of lines) t.match(line, { run_id, thread_id, graph_id, pool: 'default' })
    t.equal(new Set(lines.map(({ id }) => id)).size, lines.length)
    if (isFailed) t.match(lines.at(-1), { stream: 'log', level: 'error', text: /no luck for bob\n +at .*graph\.mjs/ })
  }
  const [child] = (await logsOf(cluster.url, 'text=FROM A CHILD OF ann')).body.lines
  t.match(child, { text: 'from a child of ann', run_id: null, stream: 'stdout', process: /^graph host \d+$/ })
  t.same(await textsOf(cluster.url, 'text=bad day for ann&level=warn'), hasPython ? ['bad day for ann'] : [])
  const all = (await logsOf(cluster.url)).body
  t.match(all.workers, [{ pool: 'default' }])
  t.same((await logsOf(cluster.url, `worker=${all.workers[0]!.worker}`)).body.lines.length, all.lines.length)
  t.same((await logsOf(cluster.url, 'worker=other')).body.lines, [])
  t.match(await logsOf(cluster.url, 'level=loud'), { status: 422, body: { detail: /level: expected debug, info/ } })
  t.match(await logsOf(cluster.url, 'limit=1001'), { status: 422 })
  t.match(cluster.output(), 'hello ann')
  t.notMatch(cluster.output(), '\u001b_w', 'what the application wrote is passed on without marks')
})

/** A new key with one scope. */
async function newKey(data: string, scope: string): Promise<string> {
  const args = ['dist/cli/weft.js', 'keys', 'create', scope, '--scope', scope, '--data', data]
  const env = { ...process.env, WEFT_REQUIRE_KEYS: '1', NODE_OPTIONS: '' }
  return (await promisify(execFile)(process.execPath, args, { cwd: root, env })).stdout.trim()
}

t.test('where the server needs a key, lines are for keys that may read', async t => {
  const env = { WEFT_REQUIRE_KEYS: '1', WEFT_CONTROL_KEY: 'a-control-key-for-tests' }
  const cluster = await startCluster({ app: 'test/apps/basic', env })
  t.teardown(() => cluster.stop())
  const [reader, other] = await Promise.all([newKey(cluster.data, 'read'), newKey(cluster.data, 'deployments')])
  t.match(await logsOf(cluster.url, '', { 'x-api-key': reader }), { status: 200, body: { workers: [{}] } })
  for (const key of ['', 'x', other, reader.replace(/.$/, '_'), 'a-control-key-for-tests']) {
    const answer = await logsOf(cluster.url, '', key === '' ? {} : { 'x-api-key': key })
    t.match(answer, { status: 403, body: { detail: /scope read/ } }, `without: ${key.slice(0, 8)}`)
  }
})

t.test('users of an application do not read what it writes', async t => {
  const cluster = await startCluster({ app: 'test/apps/auth' })
  t.teardown(() => cluster.stop())
  for (const headers of [{}, { authorization: 'Bearer alice' }, { 'x-api-key': 'alice' }])
    t.match(await logsOf(cluster.url, '', headers as { [name: string]: string }), { status: 403 })
})
