/** Traces of runs go to the LangSmith project that a run or an assistant names, and clients get URLs for feedback. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import t, { type Test } from 'tap'
import { root } from '../../../cli/root.js'
import { venvOf, withoutPython } from '../../../scripts/checks/venv.js'
import { startCluster } from '../../helpers/cluster.js'
import { lines } from '../../helpers/sdk.js'
import { readStream } from '../../helpers/sse.js'
import { until } from '../../helpers/until.js'

t.setTimeout(180_000)

/** A server with the calls of LangSmith that are needed. `sent`: traces, as they were posted. */
async function langsmith(t: Test) {
  const sent: string[] = []
  const asked: { run_id: string; feedback_key: string }[] = []
  const state = { isRefusing: false }
  const server = createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', part => parts.push(part))
    request.on('end', () => {
      const body = Buffer.concat(parts).toString('latin1')
      const answer = (status: number, value: unknown) =>
        response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
      if (request.url?.includes('/feedback/tokens')) {
        if (state.isRefusing) return answer(403, { detail: 'no' })
        const wanted = JSON.parse(body) as (typeof asked)[number] | typeof asked
        for (const one of [wanted].flat()) asked.push(one)
        const url = ({ feedback_key }: (typeof asked)[number]) => ({
          id: 'f5a1e1a4-31ac-4a53-9b22-6f3a6c1b0c11',
          url: `https://feedback.test/${feedback_key}`,
          expires_at: '2030-01-01T00:00:00Z',
        })
        return answer(200, Array.isArray(wanted) ? wanted.map(url) : url(wanted))
      }
      if (request.url?.endsWith('/info')) return answer(200, { version: '0.12', batch_ingest_config: INGEST })
      sent.push(body)
      answer(202, {})
    })
  })
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done))
  t.teardown(() => server.close())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, sent, asked, state }
}

/** Traces are posted as JSON in batches. */
const INGEST = {
  use_multipart_endpoint: false,
  size_limit: 100,
  size_limit_bytes: 20_971_520,
  scale_up_qsize_trigger: 1_000,
  scale_up_nthreads_limit: 16,
  scale_down_nempty_trigger: 4,
}

const LANGUAGES = {
  javascript: { graph: resolve('test/apps/basic/graphs.mjs'), skip: false },
  python: { graph: resolve('test/apps/basic-py/graphs.py'), skip: withoutPython() ?? false },
} as const

for (const [language, { graph, skip }] of Object.entries(LANGUAGES))
  t.test(`a graph in ${language}`, { skip }, async t => {
    const fake = await langsmith(t)
    const folder = mkdtempSync(join(tmpdir(), 'weft-langsmith-'))
    t.teardown(() => rmSync(folder, { recursive: true, force: true }))
    const env = {
      LANGSMITH_TRACING: 'true',
      LANGSMITH_ENDPOINT: fake.url,
      LANGSMITH_API_KEY: 'a-key',
      LANGSMITH_PROJECT: 'usual',
    }
    writeFileSync(join(folder, 'langgraph.json'), JSON.stringify({ graphs: { echo: `${graph}:echo` }, env }))
    const cluster = await startCluster({
      app: folder,
      env:
        skip === false && language === 'python'
          ? { WEFT_PYTHON: await venvOf(join(root, 'test/host-python/requirements.txt')) }
          : {},
    })
    t.teardown(() => cluster.stop())
    const client = lines[0]!.connect(cluster.url)
    const eventsOf = async (fields: object, assistant_id = 'echo') => {
      const { thread_id } = await client.threads.create()
      const body = { assistant_id, input: { text: 'hello' }, ...fields }
      const { frames } = await readStream(`${cluster.url}/threads/${thread_id}/runs/stream`, { method: 'POST', body })
      const events = frames.map(({ event, data }) => ({ event, data: JSON.parse(data) as unknown }))
      const { run_id } = events[0]!.data as { run_id: string }
      return { events, run_id }
    }
    const projectsOf = (run_id: string) => {
      const found = new Set<string>()
      for (const body of fake.sent)
        for (const [, project] of body.matchAll(/"session_name":\s*"(\w+)"/g))
          if (body.includes(run_id)) found.add(project!)
      return [...found].sort()
    }

    await t.test('a trace goes to the project of its run, or of its assistant, and to the usual one', async t => {
      const traced = async (fields: object, wanted: string[], assistant?: string) => {
        const { run_id } = await eventsOf(fields, assistant)
        await until(async () => projectsOf(run_id).length >= wanted.length)
        t.same(projectsOf(run_id), wanted)
        return run_id
      }
      await traced({}, ['usual'])
      const example_id = 'f5a1e1a4-31ac-4a53-9b22-6f3a6c1b0c12'
      await traced({ langsmith_tracer: { project_name: 'own', example_id } }, ['own', 'usual'])
      t.ok(
        fake.sent.some(body => body.includes(example_id)),
        'it belongs to the example',
      )
      const config = { configurable: { langsmith_project: 'assistants' } }
      const { assistant_id } = await client.assistants.create({ graphId: 'echo', config })
      await traced({}, ['assistants', 'usual'], assistant_id)
    })

    await t.test('URLs for feedback come as the last event, and with the values', async t => {
      const { events, run_id } = await eventsOf({ feedback_keys: ['helpful', 'correct'] })
      t.same(events.at(-1), {
        event: 'feedback',
        data: { helpful: 'https://feedback.test/helpful', correct: 'https://feedback.test/correct' },
      })
      t.same(
        fake.asked,
        ['helpful', 'correct'].map(feedback_key => ({ ...fake.asked[0], run_id, feedback_key })),
      )
      const { thread_id } = await client.threads.create()
      const wanted = { helpful: 'https://feedback.test/helpful' }
      const input = { text: 'hello' }
      // The JavaScript SDK sends no feedback_keys with a wait.
      const body = JSON.stringify({ assistant_id: 'echo', input, feedback_keys: ['helpful'] })
      const headers = { 'content-type': 'application/json' }
      for (const path of [`/threads/${thread_id}/runs/wait`, '/runs/wait']) {
        const waited = await fetch(`${cluster.url}${path}`, { method: 'POST', headers, body })
        t.match(await waited.json(), { text: 'hello', __feedback__: wanted }, path)
      }
      const background = await client.runs.create(thread_id, 'echo', { input, feedbackKeys: ['helpful'] })
      t.match(await client.runs.join(thread_id, background.run_id), { text: 'hello', __feedback__: wanted })
      t.match(await client.runs.join(thread_id, background.run_id), { __feedback__: wanted }, 'also after its end')
      t.notHas(await client.threads.getState(thread_id).then(({ values }) => values), '__feedback__', 'it is no state')
      fake.state.isRefusing = true
      const refused = await eventsOf({ feedback_keys: ['helpful'] })
      t.same(
        refused.events.filter(({ event }) => ['feedback', 'error'].includes(event)),
        [],
        'LangSmith gives none: the run succeeds',
      )
      await until(async () => cluster.output().includes(`No URLs for feedback_keys of run ${refused.run_id}`))
    })
  })
